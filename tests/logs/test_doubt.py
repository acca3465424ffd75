"""Fits admit doubt: errors are those of the whole information matrix, and what rests on the prior is told."""

import itertools
import math
from collections import Counter
from dataclasses import fields
from typing import Any

import numpy as np
import pandas
import pytest

from clickbandit.click_models import em
from clickbandit.click_models.base import model_class
from clickbandit.click_models.empirical import beta_priors
from clickbandit.errors import InputError
from clickbandit.logs import Counts, count_log, doubts, fit
from clickbandit.report.fits import doubt_text

# --- standard errors ----------------------------------------------------------------------------------------

LAW: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "PBM": ([*itertools.permutations(range(3), 2)] * 40, {"examination": [0.9, 0.5]}),
    "DBN": (
        [(0, 1, 2, 3, 4), (1, 0, 2, 3, 4), (0, 2, 1, 4, 3)] * 200,
        {"satisfaction": [0.05] * 5, "continuation": 0.9},
    ),
    "CCM": (
        [*itertools.permutations(range(3))] * 40,
        {"continue_no_click": 0.8, "continue_click_irrelevant": 0.7, "continue_click_relevant": 0.4},
    ),
}
"""Lists, and what users do who see them."""


def small_log(model: str) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    lists, parameters = LAW[model]
    users = model_class(model)(attraction=[0.7, 0.5, 0.3, 0.2, 0.1][: max(map(max, lists)) + 1], **parameters)
    rng = np.random.default_rng(1)
    return lists, [tuple(users.click(shown, rng)) for shown in lists]


def dense_errors(model: str, found: Any, lists: Any, clicks: Any) -> dict[str, np.ndarray]:
    """From the penalised log-likelihood of single sessions: its second differences, all of them, inverted."""
    names = [field.name for field in fields(model_class(model))]
    sizes = [len(found.parameters[name]) for name in names]
    sessions = Counter(zip(lists, clicks, strict=True))

    def objective(odds: np.ndarray) -> float:
        value = 1 / (1 + np.exp(-odds))
        parts = dict(zip(names, np.split(value, np.cumsum(sizes)[:-1]), strict=True))
        users = model_class(model)(
            **{name: part.tolist() if name in LIKE_LISTS else float(part[0]) for name, part in parts.items()}
        )
        likelihood = sum(n * users.log_likelihood(*session) for session, n in sessions.items())
        return likelihood + float(np.log(value).sum() + np.log1p(-value).sum())

    value = np.concatenate([found.parameters[name] for name in names])
    odds, n, h = np.log(value / (1 - value)), len(value), 1e-3
    steps = h * np.eye(n)
    matrix = np.array(
        [
            [
                sum(a * b * objective(odds + a * one + b * other) for a in (-1, 1) for b in (-1, 1))
                / -(4 * h * h)
                for other in steps
            ]
            for one in steps
        ]
    )
    errors = value * (1 - value) * np.sqrt(np.diag(np.linalg.inv(matrix)))
    return dict(zip(names, np.split(errors, np.cumsum(sizes)[:-1]), strict=True))


LIKE_LISTS = ("attraction", "satisfaction", "examination")


@pytest.mark.parametrize("model", ["PBM", "DBN", "CCM"])
def test_errors_are_those_of_all_parameters_together(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lists, clicks = small_log(model)
    frame = {"query": ["q"] * len(lists), "list": map(list, lists), "clicks": map(list, clicks)}
    counts = count_log(pandas.DataFrame(frame))
    found = fit(counts, model, tolerance=1e-13)
    expected = dense_errors(model, found, lists, clicks)
    for name, errors in expected.items():
        if not found.is_by_pair(name) or model == "PBM":
            assert found.standard_errors[name] == pytest.approx(errors, rel=0.02), name
    monkeypatch.setattr(em, "_MAX_MATRIX", 0)  # in a file
    monkeypatch.setattr(em, "_BLOCK", 2)
    again = fit(counts, model, tolerance=1e-13)
    for name, errors in found.standard_errors.items():
        assert again.standard_errors[name] == pytest.approx(errors), name


# --- what rests on the prior --------------------------------------------------------------------------------

EXAMINATION = np.array([0.95, 0.7, 0.5, 0.35, 0.25])


def sorted_log(swaps: float) -> tuple[Counts, dict[tuple[str, str], float]]:
    """Lists of a ranker that knows what attracts, in some of which two neighbours are swapped; and the attractions."""
    rng = np.random.default_rng(1)
    n_queries, n = 100, 15_000
    attraction = -np.sort(-rng.beta(0.8, 2.5, (n_queries, 6)), axis=1)
    query = np.minimum(rng.zipf(1.4, n), n_queries) - 1
    order = np.tile(np.arange(6), (n, 1))
    for _ in range(5):
        at, rows = rng.integers(5, size=n), np.flatnonzero(rng.random(n) < swaps)
        first, second = order[rows, at[rows]].copy(), order[rows, at[rows] + 1].copy()
        order[rows, at[rows]], order[rows, at[rows] + 1] = second, first
    shown = order[:, :5]
    clicks = rng.random(shown.shape) < attraction[query[:, None], shown] * EXAMINATION
    frame = {
        "query": query.astype(str),
        "list": shown.astype(str).tolist(),
        "clicks": clicks.astype(int).tolist(),
    }
    truth = {(str(q), str(i)): attraction[q, i] for q in range(n_queries) for i in range(6)}
    return count_log(pandas.DataFrame(frame)), truth


@pytest.fixture(scope="module")
def weak() -> tuple[Counts, dict[tuple[str, str], float]]:
    return sorted_log(0.04)


def test_what_rests_on_the_prior_is_told(weak: Any) -> None:
    counts, _ = weak
    found = fit(counts, "PBM")
    told = doubts(counts, found)
    assert [doubt.name for doubt in told] == ["examination"] * len(told)
    last = told[-1]
    assert (last.place, last.value) == (4, found.parameters["examination"][4])
    assert EXAMINATION[4] - last.value > 10 * last.error, "the fit is sure of what is wrong"
    assert abs(EXAMINATION[4] - last.other) < 2 * last.other_error
    (sentence,) = doubt_text("PBM", told)
    assert sentence.startswith("PBM: examination rests on the prior: value ")
    _, place, value, error, other, other_error = max(
        told, key=lambda one: (one.other - one.value) / one.other_error
    )
    assert (
        f"value {place + 1} is {value:.3f} ± {error:.3f}, and {other:.3f} ± {other_error:.3f} with"
        in sentence
    )
    assert sentence.endswith(f"and {len(told) - 1} more differ")
    assert doubts(counts, fit(counts, "CM")) == []
    counts, _ = sorted_log(1.0)
    assert 4 not in [doubt.place for doubt in doubts(counts, fit(counts, "PBM"))]


@pytest.mark.parametrize("model", ["PBM", "UBM"])
def test_an_estimated_prior_is_nearer_the_truth(model: str, weak: Any) -> None:
    counts, truth = weak
    found = fit(counts, model, empirical=True)
    wrong = {}
    for name, one in (("given", fit(counts, model)), ("estimated", found)):
        rows = one.table.select(["query", "item"]).to_pylist()
        wrong[name] = one.parameters["attraction"] - [truth[row["query"], row["item"]] for row in rows]
    rare = found.impressions < 20
    assert np.sqrt(np.mean(wrong["estimated"][rare] ** 2)) < 0.12  # 0.16 with the same prior for all
    assert np.sqrt(np.mean(wrong["estimated"] ** 2)) < 0.5 * np.sqrt(np.mean(wrong["given"] ** 2))
    assert np.mean(np.abs(wrong["estimated"]) < 2 * found.standard_errors["attraction"]) > 0.9
    if model == "PBM":
        distance = (
            np.abs(found.parameters["examination"] - EXAMINATION) / found.standard_errors["examination"]
        )
        assert distance[1:].max() < 3  # the first is all but 1, where errors do not hold


def test_a_prior_is_estimated_by_the_moments_of_its_group() -> None:
    """Of items whose attraction is from two beta distributions, by how many impressions they ever had."""
    rng = np.random.default_rng(1)
    group = np.repeat([3, 8], 3000)
    attraction = np.where(group == 3, rng.beta(2, 6, 6000), rng.beta(1, 19, 6000))
    trials = rng.integers(1, 60, 6000).astype(float)
    p, q = beta_priors(rng.binomial(trials.astype(int), attraction).astype(float), trials, group)
    assert (p[0], q[0]) == pytest.approx((2, 6), rel=0.15)
    assert (p[-1], q[-1]) == pytest.approx((1, 19), rel=0.25)
    assert math.isclose(p[0], p[2999])


def test_no_prior_is_estimated_for_other_models(weak: Any) -> None:
    with pytest.raises(InputError, match="can be estimated for PBM and UBM, found DBN: leave empirical out"):
        fit(weak[0], "DBN", empirical=True)
