"""The most frequent queries with their most attractive items, the same each time."""

from pathlib import Path

import pandas
import pytest

from clickbandit.click_models.base import RATES
from clickbandit.errors import InputError
from clickbandit.logs import Counts, choose_queries, count_log, evaluate, fit, generate_log
from clickbandit.queries import best_list, load_queries, save_queries


def counts_of(*groups: tuple[int, str, str, str]) -> Counts:
    rows = [(query, items, clicks) for times, query, items, clicks in groups for _ in range(times)]
    return count_log(pandas.DataFrame(rows, columns=["query", "list", "clicks"]))


LOG = (
    (30, "often", "a b c", "0 1 0"),
    (20, "often", "b a c", "0 0 0"),
    (1, "often", "z a b", "1 0 0"),
    (20, "sometimes", "x y", "1 0"),
    (20, "equally", "x y", "0 1"),
    (2, "seldom", "u v", "1 0"),
)


def test_all_are_kept_without_numbers() -> None:
    counts = counts_of(*LOG)
    queries = choose_queries(counts, [fit(counts, "CM"), fit(counts, "PBM")])
    assert [query.query for query in queries] == ["often", "equally", "sometimes", "seldom"]
    assert sorted(queries[0].items) == ["a", "b", "c", "z"]
    assert list(queries[0].models) == ["CM", "PBM"]


def test_most_frequent_queries_and_most_attractive_items_that_were_tested() -> None:
    counts = counts_of(*LOG)
    cascade = fit(counts, "CM")
    queries = choose_queries(counts, [cascade], top_queries=2, items=2)
    assert [query.query for query in queries] == ["often", "equally"]
    # z was clicked whenever it was shown, which was once
    assert [list(query.items) for query in queries] == [["b", "c"], ["y", "x"]]
    assert queries[0].models["CM"] == cascade.model("often", ["b", "c"])
    assert choose_queries(counts, [cascade], items=1, min_impressions=1)[0].items == ["z"]
    assert [query.query for query in choose_queries(counts, [cascade], items=3)] == [
        "often", "equally", "sometimes", "seldom",
    ]  # fmt: skip


def test_a_query_with_enough_tested_items_goes_first() -> None:
    counts = counts_of(
        (12, "untested", "a b c", "1 0 0"), (11, "tested", "x y", "0 1"), (8, "untested", "d e", "1 0")
    )
    queries = choose_queries(counts, [fit(counts, "CM")], items=4, top_queries=1)
    assert queries[0].query == "tested"


def test_what_is_chosen_can_be_saved_and_loaded(tmp_path: object) -> None:
    counts = counts_of(*LOG)
    fits = [fit(counts, name, iterations=5) for name in ("CM", "PBM", "DCM", "SDBN", "DBN", "CCM", "UBM")]
    queries = choose_queries(counts, fits, top_queries=3, items=2)
    save_queries(f"{tmp_path}/queries.json", queries)
    assert [query.models for query in load_queries(f"{tmp_path}/queries.json")] == [
        query.models for query in queries
    ]


def test_click_rates_are_saved_beside_click_models_and_do_not_change_what_is_chosen(tmp_path: Path) -> None:
    counts = counts_of(*LOG)
    rates = [fit(counts, name) for name in RATES]
    cascade = fit(counts, "CM")
    alone = choose_queries(counts, [cascade], items=2)
    queries = choose_queries(counts, [*rates, cascade], items=2)
    assert [list(query.items) for query in queries] == [list(query.items) for query in alone]
    save_queries(tmp_path / "queries.json", queries)
    loaded = load_queries(tmp_path / "queries.json")
    assert [query.models for query in loaded] == [query.models for query in queries]
    assert list(loaded[0].models) == [*RATES, "CM"]
    assert evaluate(loaded, counts, samples=5).models.keys() == loaded[0].models.keys()
    for name in RATES:
        generate_log(loaded, tmp_path / "log", model=name, sessions=50)
        with pytest.raises(InputError, match=f"found the click rate {name}"):
            best_list(loaded[0].models[name], 2)
    # without a click model items go by the rate of each, b's being 30 in 51
    assert choose_queries(counts, rates, items=1)[0].items == ["b"]
    assert choose_queries(counts, rates[:1], items=1)[0].items == ["a"]


@pytest.mark.parametrize("options", [{"items": 0}, {"top_queries": 0}])
def test_numbers_must_be_at_least_one(options: dict[str, int]) -> None:
    counts = counts_of(*LOG)
    with pytest.raises(InputError, match="at least 1"):
        choose_queries(counts, [fit(counts, "CM")], **options)
    with pytest.raises(InputError, match="at least one fitted model"):
        choose_queries(counts, [])
