"""Fits equal EM session by session, never lose likelihood, and find the parameters that made a log."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickbandit.click_models.base import ClickModel, model_class
from clickbandit.errors import InputError
from clickbandit.logs import Counts, Fit, count_log, fit, generate_log
from clickbandit.queries import Query
from clickbandit.testing import check_click_model
from naive import logs as naive

COUNTED, ITERATED = ["CM", "DCM", "SDBN"], ["PBM", "UBM", "DBN", "CCM"]
MODELS = COUNTED + ITERATED


@st.composite
def sessions(draw: st.DrawFn) -> naive.Session:
    items = draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4))
    clicks = draw(st.lists(st.integers(0, 1), min_size=len(items), max_size=len(items)))
    return draw(st.sampled_from("qr")), tuple(items), tuple(clicks)


logs = st.lists(sessions(), min_size=1, max_size=25)


def counts_of(log: list[naive.Session]) -> Counts:
    queries, lists, clicks = (list(column) for column in zip(*log, strict=True))
    return count_log(
        pandas.DataFrame({"query": queries, "list": map(list, lists), "clicks": map(list, clicks)})
    )


def key_of(model: str, name: str, counts: Counts, index: int) -> Any:
    """What the naive fit calls an entry of a parameter."""
    if name in ("attraction", "satisfaction"):
        return tuple(counts.pairs.slice(index, 1).to_pylist()[0].values())
    if model == "UBM":
        k = int((np.sqrt(8 * index + 1) - 1) // 2)
        previous = index - k * (k + 1) // 2
        return k, previous if previous < k else -1
    return index if model in ("PBM", "DCM") else None


@pytest.mark.parametrize("model", MODELS)
@given(log=logs)
@settings(max_examples=6)
def test_equals_the_plain_fit(model: str, log: list[naive.Session]) -> None:
    counts = counts_of(log)
    found = fit(counts, model, iterations=4)
    expected = naive.counted(model, log) if model in COUNTED else naive.maximised(model, log, 4)
    for name, values in found.parameters.items():
        for index, value in enumerate(values):
            assert value == pytest.approx(
                expected.get(name, {}).get(key_of(model, name, counts, index), 0.5), abs=1e-12
            )


@pytest.mark.parametrize("model", ITERATED)
@given(log=logs, smoothing=st.sampled_from([(1, 1), (0.5, 2), (0, 0)]))
@settings(max_examples=5)
def test_likelihood_never_falls(model: str, log: list[naive.Session], smoothing: tuple[float, float]) -> None:
    trace = np.array(fit(counts_of(log), model, iterations=30, smoothing=smoothing).trace)
    assert len(trace) == 31
    assert (np.diff(trace) >= -1e-9 * np.abs(trace[1:])).all()


@pytest.mark.parametrize("model", ITERATED)
@given(log=logs)
@settings(max_examples=3)
def test_trace_ends_at_the_likelihood_of_the_model(model: str, log: list[naive.Session]) -> None:
    log = [(query, items, clicks) for query, items, clicks in log if len(set(items)) == len(items)] or [
        ("q", ("a",), (1,))
    ]
    found = fit(counts_of(log), model, iterations=5)
    total = 0.0
    for query, items, clicks in log:
        law = found.model(query, _rest(items, found.items(query)))
        total += law.log_likelihood(range(len(items)), clicks)
    penalty = sum(float((np.log(v) + np.log1p(-v)).sum()) for v in found.parameters.values())
    assert found.trace[-1] == pytest.approx(total + penalty, abs=1e-9)


def _rest(items: tuple[str, ...], known: list[str]) -> list[str]:
    """All items of a query, those of a list first."""
    return [*items, *(item for item in known if item not in items)]


@pytest.mark.parametrize(
    ("name", "rate"), [("GCTR", 0.3), ("RCTR", [0.6, 0.4, 0.1]), ("DCTR", [0.9, 0.2, 0.5])]
)
def test_click_rates_keep_the_contract_of_click_models(name: str, rate: Any) -> None:
    law = model_class(name)(rate=rate)
    check_click_model(law, positions=3)
    assert law.name == name


def test_click_rates_are_counted() -> None:
    counts = counts_of([("q", ("a", "b"), (1, 0)), ("q", ("b",), (1,)), ("r", ("a", "c"), (1, 1))])
    rates = {name: fit(counts, name).parameters["rate"].tolist() for name in ("GCTR", "RCTR", "DCTR")}
    assert rates["GCTR"] == [(1 + 4) / (2 + 5)]
    assert rates["RCTR"] == [(1 + 3) / (2 + 3), (1 + 1) / (2 + 2)]
    assert rates["DCTR"] == [2 / 3, 2 / 4, 2 / 3, 2 / 3]
    assert fit(counts, "DCTR").model("q", ["b", "a"]).rate == (2 / 4, 2 / 3)


# --- finding what made a log --------------------------------------------------------------------------------

SHARED: dict[str, dict[str, Any]] = {
    "PBM": {"examination": [0.95, 0.7, 0.5, 0.3]},
    "DCM": {"termination": [0.6, 0.5, 0.4, 0.3]},
    "DBN": {"continuation": 0.8},
    "CCM": {"continue_no_click": 0.8, "continue_click_irrelevant": 0.9, "continue_click_relevant": 0.3},
    "UBM": {"examination": [[0.95], [0.8, 0.6], [0.5, 0.75, 0.4], [0.3, 0.5, 0.7, 0.3]]},
}


def truth(model: str, rng: np.random.Generator) -> list[Query]:
    """Three queries of six items."""
    queries = []
    for name in ("q1", "q2", "q3"):
        by_item = {part: rng.uniform(0.1, 0.9, 6).tolist() for part in model_class(model).by_item}
        law: ClickModel = model_class(model)(**by_item, **SHARED.get(model, {}))
        queries.append(Query(name, [f"{name}-{i}" for i in range(6)], {model: law}))
    return queries


def fitted(model: str, queries: list[Query], sessions: int, folder: Path, seed: int) -> Fit:
    generate_log(queries, folder / "log", model=model, sessions=sessions, positions=4, lists=60, seed=seed)
    return fit(count_log(folder / "log", "yandex-relpred"), model)


def differences(found: Fit, queries: list[Query]) -> dict[str, np.ndarray]:
    """How far each parameter is from the one that made the log."""
    both = [flat([found.model(query.query, query.items) for query in queries])]
    both.append(flat([query.models[found.name] for query in queries]))
    return {name: both[0][name] - both[1][name] for name in both[0]}


def flat(laws: list[ClickModel]) -> dict[str, np.ndarray]:
    """The parameters of queries that share those which are not by item.

    In the PBM and UBM clicks tell only the product of attraction and examination: the first position sets the scale.
    """
    values = {name: np.concatenate([getattr(law, name) for law in laws]) for name in laws[0].by_item}
    for field in fields(laws[0]):
        value = getattr(laws[0], field.name)
        if field.name not in values:
            values[field.name] = (
                np.concatenate([np.ravel(row) for row in value])
                if isinstance(value, tuple)
                else np.array([value])
            )
    if "examination" in values:
        scale = values["examination"][0]
        values = {
            "attraction": values["attraction"] * scale,
            "examination": values["examination"][1:] / scale,
        }
    return values


EXACT = ["CM", *ITERATED]
"""The DCM and SDBN take the last click for the one that ended the session, which is nearly so on long good lists."""
IN_SHORT = [pytest.param(model, marks=[pytest.mark.long] * (model in ("UBM", "CCM"))) for model in EXACT]


@pytest.mark.parametrize("model", IN_SHORT)
def test_error_shrinks_with_the_square_root_of_the_sessions(model: str, tmp_path: Path) -> None:
    queries = truth(model, np.random.default_rng(1))
    errors = []
    for sessions in (2_000, 32_000):
        found = [
            np.concatenate([*differences(fitted(model, queries, sessions, tmp_path, seed), queries).values()])
            for seed in (1, 2, 3)
        ]
        errors.append(float(np.sqrt(np.mean(np.square(found)))))
    assert errors[1] < 0.03
    assert 2.4 < errors[0] / errors[1] < 6.5, errors  # 4 is expected


@pytest.mark.parametrize("model", ["DCM", "SDBN"])
def test_error_shrinks_where_few_reach_the_end_of_the_list(model: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    by_item = {part: rng.uniform(0.6, 0.9, 12).tolist() for part in model_class(model).by_item}
    law = model_class(model)(**by_item, **({"termination": [0.7] * 10} if model == "DCM" else {}))
    queries = [Query("q", [f"i{i:02}" for i in range(12)], {model: law})]
    errors = []
    for sessions in (2_000, 32_000):
        generate_log(queries, tmp_path / "log", model=model, sessions=sessions, lists=200)
        found = differences(fit(count_log(tmp_path / "log"), model), queries)
        found["termination"] = found.get("termination", np.zeros(0))[:3]  # few get further down
        errors.append(float(np.sqrt(np.mean(np.square(np.concatenate([*found.values()]))))))
    assert errors[1] < 0.01
    assert 2 < errors[0] / errors[1] < 8, errors


@pytest.mark.parametrize("model", IN_SHORT)
def test_standard_errors_are_those_of_repeated_logs(model: str, tmp_path: Path) -> None:
    queries = truth(model, np.random.default_rng(2))
    scaled = []
    for seed in range(5):
        found = fitted(model, queries, 10_000, tmp_path, seed)
        for name, values in differences(found, queries).items():
            if name == "examination":
                continue  # its scale is not known from clicks
            order = np.concatenate([found.rows(query.query, query.items) for query in queries])
            error = found.standard_errors[name]
            scaled.append(values / (error[order] if found.is_by_pair(name) else error))
    spread = float(np.sqrt(np.mean(np.square(np.concatenate(scaled)))))
    # with a scale that only the prior sets, errors are larger than logs vary
    assert (0.4 if model in ("PBM", "UBM") else 0.85) < spread < 1.2, spread


# --- options and errors -------------------------------------------------------------------------------------

LOG = (
    [("q", ("a", "b", "c"), (0, 1, 0))] * 30
    + [("q", ("b", "a", "c"), (1, 0, 1))] * 20
    + [("r", ("x",), (0,))]
)


def test_stops_when_it_settles() -> None:
    counts = counts_of(LOG)
    loose, tight = (fit(counts, "PBM", tolerance=tolerance) for tolerance in (1e-3, 1e-9))
    assert 1 < loose.iterations < tight.iterations
    assert (
        0 <= tight.trace[-1] - tight.trace[-2] < 1e-9 * counts.n_sessions <= tight.trace[-2] - tight.trace[-3]
    )


def test_smoothing_is_settable() -> None:
    found = fit(counts_of(LOG), "CM", smoothing=(3, 1))
    assert found.model("r").attraction == ((3 + 0) / (4 + 1),)
    assert fit(counts_of([("q", ("a", "b"), (1, 1))]), "CM", smoothing=(0, 0)).model("q").attraction == (
        1,
        0.5,
    )


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("PBN", {}, "did you mean"),
        ("PBM", {"iterations": -1}, "iterations"),
        ("PBM", {"tolerance": float("nan")}, "tolerance"),
        ("PBM", {"smoothing": (-1, 1)}, "smoothing"),
        ("DBN", {"compat": "pyklick"}, "compat"),
    ],
)
def test_wrong_options_get_a_sentence(model: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit(counts_of(LOG), model, **options)


def test_a_fit_knows_its_queries_and_items() -> None:
    found = fit(counts_of(LOG), "SDBN")
    assert (found.queries, found.items("q")) == (["q", "r"], ["a", "b", "c"])
    assert found.model("q", ["c", "a"]).attraction == tuple(found.parameters["attraction"][[2, 0]])
    assert found.table.column_names == [
        "query", "item", "impressions", "attraction", "attraction_error", "satisfaction", "satisfaction_error",
    ]  # fmt: skip
    assert found.table["impressions"].to_pylist() == [50, 50, 50, 1]
    for query, items in (("z", None), ("q", ["a", "z"])):
        with pytest.raises(InputError, match="'z'"):
            found.model(query, items)
