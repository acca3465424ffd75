"""The most frequent queries with their most attractive items, the same each time."""

import pandas
import pytest

from clickbandit.errors import InputError
from clickbandit.logs import Counts, choose_queries, count_log, fit
from clickbandit.queries import load_queries, save_queries


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


@pytest.mark.parametrize("options", [{"items": 0}, {"top_queries": 0}])
def test_numbers_must_be_at_least_one(options: dict[str, int]) -> None:
    counts = counts_of(*LOG)
    with pytest.raises(InputError, match="at least 1"):
        choose_queries(counts, [fit(counts, "CM")], **options)
    with pytest.raises(InputError, match="at least one fitted model"):
        choose_queries(counts, [])
