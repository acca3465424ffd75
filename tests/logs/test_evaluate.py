"""Scores are those of the models' own laws, with intervals that cover the truth."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas
import pytest

from clickbandit.click_models.base import RATES, ClickModel
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.dbn import DynamicBayesianModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.click_models.ubm import UserBrowsingModel
from clickbandit.errors import InputError
from clickbandit.logs import Counts, choose_queries, count_log, evaluate, fit, generate_log
from clickbandit.queries import Query

A = [0.8, 0.5, 0.3]
MODELS: list[ClickModel] = [
    CascadeModel(A),
    PositionBasedModel(A, [0.9, 0.6, 0.3]),
    DynamicBayesianModel(A, [0.2, 0.4, 0.6], 0.8),
    UserBrowsingModel(A, [[0.9], [0.7, 0.5], [0.3, 0.6, 0.2]]),
]
QUERY = Query("q", ["a", "b", "c"], {model.name: model for model in MODELS})
LOG = [
    ("q", "a b c", "0 1 0"),
    ("q", "c a b", "1 0 1"),
    ("q", "b", "1"),
    ("q", "b", "1"),
    ("q", "b c", "0 0"),
]


def counts_of(log: list[tuple[str, str, str]]) -> Counts:
    return count_log(pandas.DataFrame(log, columns=["query", "list", "clicks"]))


def by_hand(model: ClickModel) -> tuple[float, list[float], list[float]]:
    """The log-likelihood, and the perplexities by position, from the model's law of whole lists."""
    means, apart, given = [], [[], [], []], [[], [], []]  # type: ignore[var-annotated]
    for _, items, clicks in LOG:
        shown = ["abc".index(item) for item in items.split()]
        clicked = [int(click) for click in clicks.split()]
        upto = [0.0] + [model.log_likelihood(shown[:k], clicked[:k]) for k in range(1, len(shown) + 1)]
        logs = [max(b - a, math.log(1e-6)) if a > -math.inf else 0.0 for a, b in pairwise(upto)]
        means.append(np.mean(logs))
        for k, (p, c) in enumerate(zip(model.click_probability(shown), clicked, strict=True)):
            apart[k].append(math.log2(p if c else 1 - p))
            given[k].append(logs[k] / math.log(2))
    perplexities = [[2 ** -np.mean(position) for position in logs] for logs in (apart, given)]
    return float(np.mean(means)), *perplexities


def test_scores_are_those_of_the_law() -> None:
    evaluation = evaluate([QUERY], counts_of(LOG), samples=10)
    for model in MODELS:
        score = evaluation.models[model.name]
        likelihood, apart, given = by_hand(model)
        assert score.log_likelihood.value == pytest.approx(likelihood, abs=1e-12)
        np.testing.assert_allclose(score.perplexity_by_position, apart)
        np.testing.assert_allclose(score.conditional_perplexity_by_position, given)
        assert score.perplexity.value == pytest.approx(np.mean(apart))
        assert score.conditional_perplexity.value == pytest.approx(np.mean(given))
    best = max(MODELS, key=lambda model: by_hand(model)[0]).name
    assert evaluation.as_dict()["best"] == evaluation.best == best


def test_an_impossible_click_is_paid_for_once() -> None:
    score = evaluate([QUERY], counts_of([("q", "c a b", "1 1 0")]), samples=1).models["CM"]
    expected = (math.log(0.3) + math.log(1e-6) + math.log(1)) / 3
    assert score.log_likelihood.value == pytest.approx(expected)


def test_what_was_never_seen_is_a_half() -> None:
    score = evaluate([QUERY], counts_of([("new", "a", "1"), ("q", "z a b c", "0 0 0 1")]), samples=1)
    pbm = [math.log(0.9 * 0.5)]
    pbm.append(
        (math.log(1 - 0.9 * 0.5) + math.log(1 - 0.6 * 0.8) + math.log(1 - 0.3 * 0.5) + math.log(0.5 * 0.3))
        / 4
    )
    assert score.models["PBM"].log_likelihood.value == pytest.approx(np.mean(pbm))
    assert math.isfinite(score.models["UBM"].log_likelihood.value)


def test_fits_and_their_queries_score_alike() -> None:
    counts = counts_of(LOG * 5)
    fits = [fit(counts, name, iterations=10) for name in ("PBM", "UBM", "SDBN", "DCM", "CCM")]
    of_fits, of_queries = evaluate(fits, counts), evaluate(choose_queries(counts, fits), counts)
    assert of_fits.as_dict() == of_queries.as_dict()


def test_click_rates_are_scored() -> None:
    counts = counts_of(LOG * 5)
    evaluation = evaluate([fit(counts, name) for name in RATES], counts, samples=5)
    rate = (1 + 5 * 5) / (2 + 5 * 10)
    p = {"0": math.log(1 - rate), "1": math.log(rate)}
    expected = np.mean([np.mean([p[click] for click in clicks.split()]) for _, _, clicks in LOG])
    assert list(evaluation.models) == list(RATES)
    assert evaluation.models["GCTR"].log_likelihood.value == pytest.approx(expected)


def test_the_model_that_made_a_log_is_found(tmp_path: Path) -> None:
    law = UserBrowsingModel(A, [[0.9], [0.9, 0.3], [0.2, 0.9, 0.1]])
    queries = [Query("q", ["a", "b", "c"], {"UBM": law})]
    halves = []
    for seed in (1, 2):
        generate_log(queries, tmp_path / "log", model="UBM", sessions=20_000, positions=3, seed=seed)
        halves.append(count_log(tmp_path / "log"))
    fits = [fit(halves[0], name) for name in ("CM", "PBM", "UBM", "DBN")]
    evaluation = evaluate(fits, halves[1])
    assert evaluation.best == "UBM"
    assert evaluation.is_clear
    assert evaluation.lead is not None
    assert 0 < evaluation.lead.low < evaluation.lead.value < evaluation.lead.high


def test_intervals_cover_the_true_score(tmp_path: Path) -> None:
    queries = [Query("q", ["a", "b", "c"], {"PBM": MODELS[1]})]
    generate_log(queries, tmp_path / "log", model="PBM", sessions=30_000, positions=3, format="csv")
    true = evaluate(queries, count_log(tmp_path / "log"), samples=1).models["PBM"]
    log = pandas.read_csv(tmp_path / "log", dtype=str)
    covered = []
    for part in range(20):
        counts = count_log(log[part * 1_500 : (part + 1) * 1_500])
        found = evaluate(queries, counts, samples=200).models["PBM"]
        for name in ("log_likelihood", "perplexity"):
            interval = getattr(found, name)
            covered.append(interval.low < getattr(true, name).value < interval.high)
    assert 0.85 < np.mean(covered) <= 1  # 0.95 is expected


def test_the_interval_is_that_of_a_known_distribution() -> None:
    """400 lists of one item, of which 120 were clicked: what a list adds to the score has two values, so their mean is
    all but normal, with a standard error that is known."""
    clicks = ["1"] * 120 + ["0"] * 280
    counts = count_log(pandas.DataFrame({"query": ["q"] * 400, "list": ["a"] * 400, "clicks": clicks}))
    query = Query("q", ["a"], {"PBM": PositionBasedModel([0.2], [1]), "CM": CascadeModel([0.6])})
    found = evaluate([query], counts, samples=20_000)
    by_list = {
        name: np.where(np.array(clicks) == "1", np.log(p), np.log(1 - p))
        for name, p in (("PBM", 0.2), ("CM", 0.6))
    }
    for interval, values in (
        (found.models["PBM"].log_likelihood, by_list["PBM"]),
        (found.models["CM"].log_likelihood, by_list["CM"]),
        (found.lead, by_list["PBM"] - by_list["CM"]),
    ):
        radius = 1.96 * values.std() / np.sqrt(400)
        assert interval.value == pytest.approx(values.mean())
        assert interval.value - interval.low == pytest.approx(radius, rel=0.04)
        assert interval.high - interval.value == pytest.approx(radius, rel=0.04)


def test_nothing_to_evaluate_gets_a_sentence() -> None:
    with pytest.raises(InputError, match="at least one click model"):
        evaluate([Query("q", ["a"], {})], counts_of(LOG))
    other = Query("r", ["a"], {"PBM": PositionBasedModel([0.5], [0.1])})
    with pytest.raises(InputError, match="fitted together"):
        evaluate([QUERY, other], counts_of(LOG))
