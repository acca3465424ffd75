"""Queries files say exactly what is wrong with them, and the best list is the best of all lists."""

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.dcm import DependentClickModel
from clickbandit.click_models.mixture import MixtureModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.click_models.ubm import UserBrowsingModel
from clickbandit.errors import InputError
from clickbandit.queries import Query, all_lists, best_list, load_queries, save_queries
from strategies import some_queries

# --- files --------------------------------------------------------------------------------------------------


@given(wanted=some_queries())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
def test_what_is_saved_is_loaded(wanted: list[Query], tmp_path: Path) -> None:
    path = tmp_path / "queries.json"
    save_queries(path, wanted, "words")
    assert load_queries(path) == wanted
    assert json.loads(path.read_text())["description"] == "words"


def test_real_queries_are_loaded_and_saved_as_they_were(shared: Path, tmp_path: Path) -> None:
    source = shared / "queries" / "yandex-10.json"
    loaded = load_queries(source)
    assert len(loaded) == 10
    for query in loaded:
        assert len(query.items) == query.model("UBM").n_items == 10
        assert list(query.models) == ["CM", "PBM", "DCM", "DBN", "CCM", "UBM"]
    save_queries(tmp_path / "saved.json", loaded)
    saved, original = (json.loads(path.read_text()) for path in (tmp_path / "saved.json", source))
    assert saved["queries"] == original["queries"]


def test_arrays_can_be_saved(tmp_path: Path) -> None:
    arrays: Any = (np.array([0.5, 0.25]), [np.float32(0.5), np.int64(1)])
    model = PositionBasedModel(*arrays)
    save_queries(tmp_path / "queries.json", [Query("q", ["a", "b"], {"PBM": model})])
    assert load_queries(tmp_path / "queries.json")[0].model("PBM") == PositionBasedModel(
        [0.5, 0.25], [0.5, 1]
    )


GOOD: dict[str, Any] = {
    "format": "clickbandit/queries",
    "version": 1,
    "queries": [
        {"query": "cats", "items": ["a"], "models": {}},
        {
            "query": "dogs",
            "items": ["a", "b", "c"],
            "models": {
                "CM": {"attraction": [0.3, 0.2, 0.1]},
                "PBM": {"attraction": [0.3, 0.2, 0.1], "examination": [1, 0.5]},
                "SDBN": {"attraction": [0.3, 0.2, 0.1], "satisfaction": [0.5, 0.5, 0.5]},
                "DBN": {"attraction": [0.3, 0.2, 0.1], "satisfaction": [0.5, 0.5, 0.5], "continuation": 0.9},
                "UBM": {"attraction": [0.3, 0.2, 0.1], "examination": [[1], [0.5, 0.4]]},
                "GCTR": {"rate": 0.2},
                "RCTR": {"rate": [0.4, 0.1]},
                "DCTR": {"rate": [0.3, 0.2, 0.1]},
            },
        },
    ],
}
MISSING = object()


def refusal(path: Path, text: str) -> str:
    """What is said of a queries file with this text."""
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_queries(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def changed(where: Sequence[str | int], value: Any) -> str:
    """The good file with one value changed or taken out."""
    data = copy.deepcopy(GOOD)
    part: Any = data
    for key in where[:-1]:
        part = part[key]
    if value is MISSING:
        del part[where[-1]]
    else:
        part[where[-1]] = value
    return json.dumps(data)


def test_the_file_that_is_made_wrong_below_is_right(tmp_path: Path) -> None:
    (tmp_path / "queries.json").write_text(json.dumps(GOOD))
    loaded = load_queries(tmp_path / "queries.json")
    assert [query.query for query in loaded] == ["cats", "dogs"]
    assert loaded[1].model("PBM") == PositionBasedModel([0.3, 0.2, 0.1], [1, 0.5])
    assert loaded[1].model("UBM") == UserBrowsingModel([0.3, 0.2, 0.1], [[1], [0.5, 0.4]])


DOGS: list[str | int] = ["queries", 1]


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        # a wrong length
        (["models", "CM", "attraction"], [0.1, 0.2], ["CM", "attraction", "3 items", "found 2"]),
        (["models", "CM", "attraction"], [], ["CM", "attraction", "3 items", "found 0"]),
        (["models", "SDBN", "attraction"], [0.1] * 4, ["SDBN", "attraction", "3 items", "found 4"]),
        (["models", "SDBN", "satisfaction"], [0.1] * 4, ["SDBN", "satisfaction", "3 items", "found 4"]),
        (["models", "DBN", "satisfaction"], [0.1] * 2, ["DBN", "satisfaction", "3 items", "found 2"]),
        (
            ["models", "UBM", "examination"],
            [[1], [0.5]],
            ["UBM", "examination", "2 values in row 2", "found 1"],
        ),
        (["models", "UBM", "examination", 0], [1, 0], ["UBM", "examination", "1 values in row 1", "found 2"]),
        (["models", "DCTR", "rate"], [0.1] * 2, ["DCTR", "rate", "3 items", "found 2"]),
        # no probability
        (["models", "GCTR", "rate"], 1.5, ["GCTR", "rate", "between 0 and 1", "found 1.5"]),
        (["models", "GCTR", "rate"], [0.5], ["GCTR", "rate", "between 0 and 1", "found (0.5,)"]),
        (["models", "RCTR", "rate"], 0.5, ["RCTR", "rate", "a list of probabilities", "found 0.5"]),
        (["models", "DCTR", "rate"], MISSING, ["DCTR", "rate is missing"]),
        (["models", "CM", "attraction", 1], 1.5, ["CM", "attraction", "between 0 and 1", "found 1.5"]),
        (["models", "CM", "attraction", 1], -0.1, ["CM", "attraction", "between 0 and 1", "found -0.1"]),
        (["models", "PBM", "examination", 0], 2, ["PBM", "examination", "between 0 and 1", "found 2"]),
        (["models", "DBN", "continuation"], 1.01, ["DBN", "continuation", "between 0 and 1", "found 1.01"]),
        (["models", "UBM", "examination", 1, 0], 7, ["UBM", "examination", "between 0 and 1", "found 7"]),
        (["models", "CM", "attraction", 1], math.nan, ["CM", "attraction", "between 0 and 1", "found nan"]),
        (
            ["models", "PBM", "examination", 1],
            math.inf,
            ["PBM", "examination", "between 0 and 1", "found inf"],
        ),
        (["models", "CM", "attraction", 1], True, ["CM", "attraction", "between 0 and 1", "found true"]),
        (["models", "DBN", "continuation"], False, ["DBN", "continuation", "between 0 and 1", "found false"]),
        (
            ["models", "UBM", "examination", 1, 1],
            True,
            ["UBM", "examination", "between 0 and 1", "found true"],
        ),
        (["models", "CM", "attraction", 1], "0.5", ["CM", "attraction", "between 0 and 1", "found '0.5'"]),
        (["models", "CM", "attraction", 1], None, ["CM", "attraction", "between 0 and 1", "found None"]),
        (["models", "CM", "attraction"], "high", ["CM", "attraction", "a list of prob", "found 'high'"]),
        (["models", "CM", "attraction"], 0.5, ["CM", "attraction", "a list of probabilities", "found 0.5"]),
        (["models", "CM", "attraction", 1], [0.5], ["CM", "attraction", "between 0 and 1", "found (0.5,)"]),
        (
            ["models", "DBN", "continuation"],
            [0.5],
            ["DBN", "continuation", "between 0 and 1", "found (0.5,)"],
        ),
        (["models", "UBM", "examination", 1], 0.5, ["UBM", "examination", "a list of prob", "found 0.5"]),
        # something that is missing, or too much
        (["models", "PBM", "examination"], MISSING, ["PBM", "examination is missing"]),
        (["models", "CM", "attraction"], MISSING, ["CM", "attraction is missing"]),
        (["models", "CM", "examination"], [1], ["CM", "no field examination", "it has attraction"]),
        (["models", "CM"], [0.1], ["CM", "must be an object with attraction", "found [0.1]"]),
        (["models", "CTR"], {"rate": 1}, ["no click model 'CTR'"]),
        (["models"], MISSING, ["models must be a JSON object", "found none"]),
        (["models"], ["CM"], ["models must be a JSON object", 'found ["CM"]']),
        # items
        (["items"], MISSING, ["items must be a JSON list", "found none"]),
        (["items"], "abc", ["items must be a JSON list", 'found "abc"']),
        (["items"], [], ["items must name at least one item", "found none"]),
        (["items", 2], "a", ["items must differ", "found 'a' twice"]),
        (["items", 2], 7, ["items must be texts", "found 7"]),
        (["items"], ["a", "b"], ["CM", "attraction", "2 items", "found 3"]),
    ],
)
def test_an_error_names_the_query_the_field_and_the_value(
    where: list[str | int], value: Any, words: list[str], tmp_path: Path
) -> None:
    message = refusal(tmp_path / "queries.json", changed([*DOGS, *where], value))
    assert message.startswith("query dogs: ")
    assert message.count("dogs") == 1
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        (["format"], MISSING, ['format "clickbandit/queries"', "found none"]),
        (["format"], "clickbandit/results", ['format "clickbandit/queries"', 'found "clickbandit/results"']),
        (["version"], 2, ["version 1", "found 2"]),
        (["version"], MISSING, ["version 1", "found none"]),
        (["queries"], MISSING, ["a list of queries", "found none"]),
        (["queries"], [], ["a list of queries", "found []"]),
        (["queries"], {"cats": []}, ["a list of queries", 'found {"cats": []}']),
        (["queries", 0, "query"], "dogs", ["query dogs appears twice in the queries file"]),
    ],
)
def test_an_error_names_the_file(
    where: list[str | int], value: Any, words: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "queries.json"
    message = refusal(path, changed(where, value))
    assert str(path) in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        (["queries", 1], "dogs", 'query number 2 must be a JSON object, found "dogs"'),
        (["queries", 1, "query"], MISSING, "query number 2: query must be a text, its name, found none"),
        (["queries", 1, "query"], 17, "query number 2: query must be a text, its name, found 17"),
    ],
)
def test_a_query_without_a_name_is_counted(
    where: list[str | int], value: Any, words: str, tmp_path: Path
) -> None:
    assert refusal(tmp_path / "queries.json", changed(where, value)) == words


@pytest.mark.parametrize(
    "text", ["", "{", "query,item\n1,2\n", '{"format": "clickbandit/queries",}', "[" * 10**5]
)
def test_what_is_not_json_is_said_to_be_so(text: str, tmp_path: Path) -> None:
    assert "queries.json is not JSON: " in refusal(tmp_path / "queries.json", text)


@pytest.mark.parametrize("text", ["[]", "null", "3", '"text"'])
def test_json_that_is_no_object_is_refused(text: str, tmp_path: Path) -> None:
    assert "must be a JSON object, found " in refusal(tmp_path / "queries.json", text)


def test_a_long_value_is_cut(tmp_path: Path) -> None:
    message = refusal(tmp_path / "queries.json", changed([*DOGS, "models"], [0.25] * 100))
    assert message.endswith("0.25, 0....")
    assert len(message) < 120


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json cannot be read: No such file or directory"):
        load_queries(tmp_path / "none.json")
    (tmp_path / "latin").write_bytes(b'{"format": "\xe9"}')
    with pytest.raises(InputError, match="latin is not JSON: 'utf-8' codec"):
        load_queries(tmp_path / "latin")
    with pytest.raises(InputError, match=r"queries\.json cannot be written: No such file or directory"):
        save_queries(tmp_path / "none" / "queries.json", [])


def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "queries.json"
    model = CascadeModel([0.5, 0.1])
    with pytest.raises(InputError, match="query q appears twice among the queries to save"):
        save_queries(path, [Query("q", ["a"]), Query("p", ["a"]), Query("q", ["b"])])
    with pytest.raises(
        InputError, match=r"query q: PBM is a CascadeModel, which .* cannot hold under this name"
    ):
        save_queries(path, [Query("q", ["a", "b"], {"PBM": model})])
    mixture = MixtureModel([0.5, 0.5], [model, model])
    with pytest.raises(InputError, match=r"query q: 0\.5\*CM\+0\.5\*CM is a MixtureModel"):
        save_queries(path, [Query("q", ["a", "b"], {mixture.name: mixture})])
    assert not path.exists()


def test_queries_made_in_python_are_checked_too() -> None:
    with pytest.raises(InputError, match="query q: items must differ, found 'a' twice"):
        Query("q", ["a", "b", "a"])
    with pytest.raises(
        InputError, match="query q: CM: attraction must have a value for each of the 3 items, found 2"
    ):
        Query("q", ["a", "b", "c"], {"CM": CascadeModel([0.5, 0.1])})
    query = Query("q", ["a", "b"], {"CM": CascadeModel([0.5, 0.1])})
    with pytest.raises(InputError, match="query q has no model PBM: it has CM"):
        query.model("PBM")
    with pytest.raises(InputError, match="query q has no model PBM: it has none"):
        Query("q", ["a"]).model("PBM")


def test_values_by_position_may_be_more_than_are_shown_but_not_fewer() -> None:
    attraction = [0.5, 0.4, 0.3, 0.2]
    longer = PositionBasedModel(attraction, [1, 0.5, 0.25, 0.9, 0.9, 0.9])
    assert best_list(longer, 3) == best_list(PositionBasedModel(attraction, [1, 0.5, 0.25]), 3)
    for model in (
        PositionBasedModel(attraction, [1, 0.5]),
        DependentClickModel(attraction, [1, 0.5]),
        UserBrowsingModel(attraction, [[1], [0.5, 0.4]]),
    ):
        best_list(model, 2)
        for use in (best_list, lambda model, k: list(all_lists(model, k))):
            with pytest.raises(
                InputError, match=f"{model.name}: 3 positions need as many values by position"
            ):
                use(model, 3)
