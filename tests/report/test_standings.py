"""Who wins a comparison, on numbers that can be checked by hand."""

import math
from collections.abc import Mapping

import pyarrow as pa
import pytest

from clickbandit import CascadeModel, PositionBasedModel, Query
from clickbandit.report.standings import (
    best_in_the_worst_case,
    best_overall,
    places,
    standings,
    verdict,
)
from clickbandit.simulation.trace import COLUMNS

STEPS = 1000
QUERIES = [
    Query(
        "x",
        list("abc"),
        {"CM": CascadeModel([0.5, 0.2, 0.1]), "PBM": PositionBasedModel([0.8, 0.2, 0.1], [1, 0.5])},
    ),
    Query(
        "y",
        list("abc"),
        {"CM": CascadeModel([0.9, 0.2, 0.1]), "PBM": PositionBasedModel([0.4, 0.2, 0.1], [1, 0.5])},
    ),
]


def results(regret: Mapping[tuple[str, str], float], last: float = 0.0) -> pa.Table:
    """For each policy and model two runs on each query, one with a tenth less and one with a tenth more regret over all
    steps; in the last of two windows it is `last` a step."""
    rows = [
        (policy, model, query.query, run, step, rate, 0.5)
        for (policy, model), total in regret.items()
        for query in QUERIES
        for run, times in enumerate((0.9, 1.1))
        for step, rate in ((STEPS - 100, (total * times - 100 * last) / (STEPS - 100)), (STEPS, last))
    ]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=pa.schema(COLUMNS.items()))


FIELD = {
    ("good", "CM"): 10.0,
    ("good", "PBM"): 90.0,
    ("even", "CM"): 20.0,
    ("even", "PBM"): 50.0,
    ("poor", "CM"): 40.0,
    ("poor", "PBM"): 100.0,
    ("informed", "PBM"): 10.0,
    ("random", "CM"): 5.0,
    ("random", "PBM"): 5.0,
}


def test_places_by_model() -> None:
    found = places(results(FIELD), QUERIES, 2, yardsticks=("random",), told=("informed",))
    assert [(place.model, place.policy, place.rank, round(place.times, 6)) for place in found] == [
        ("CM", "good", 1, 1.0),
        ("CM", "even", 2, 2.0),
        ("CM", "poor", 3, 4.0),
        ("CM", "random", None, 0.5),
        ("PBM", "informed", 1, 0.2),  # what it is told is no measure for others
        ("PBM", "even", 2, 1.0),
        ("PBM", "good", 3, 1.8),
        ("PBM", "poor", 4, 2.0),
        ("PBM", "random", None, 0.1),
    ]
    assert found[1].regret.mean == pytest.approx(20)
    # two runs of 18 and 22 on each query, with a standard error of 2: of both together sqrt(2), with two degrees of
    # freedom, for which Student's quantile is 4.3027
    assert found[1].regret.high == pytest.approx(20 + 4.30265 * math.sqrt(2))
    assert found[1].regret.low == pytest.approx(20 - 4.30265 * math.sqrt(2))
    assert found[1].runs == 2


def test_standings_over_models() -> None:
    found = standings(places(results(FIELD), QUERIES, 2, yardsticks=("random",), told=("informed",)))
    assert [(one.policy, one.rank) for one in found] == [
        ("good", 1),
        ("even", 2),
        ("poor", 3),
        ("informed", None),  # it was not run on every model
        ("random", None),
    ]
    good, even, poor, informed, _ = found
    assert good.mean == pytest.approx(math.sqrt(1.8))
    assert even.mean == pytest.approx(math.sqrt(2.0))
    assert poor.mean == pytest.approx(math.sqrt(8.0))
    assert (good.worst, good.worst_model) == (pytest.approx(1.8), "PBM")
    assert (even.worst, even.worst_model) == (pytest.approx(2.0), "CM")
    assert informed.times == {"PBM": pytest.approx(0.2)}


def test_the_best_overall_may_not_be_the_best_in_the_worst_case() -> None:
    regret = {
        ("a", "CM"): 1.0,
        ("a", "PBM"): 3.0,
        ("b", "CM"): 2.5,
        ("b", "PBM"): 2.0,
        ("c", "CM"): 9,
        ("c", "PBM"): 1,
    }
    found = standings(places(results(regret), QUERIES, 2))
    overall, safest = best_overall(found), best_in_the_worst_case(found)
    assert overall is not None
    assert safest is not None
    assert overall.policy == "a"  # 1 and 3: 1.73; b 2.5 and 2: 2.24; c 9 and 1: 3
    assert safest.policy == "b"
    assert verdict(found) == [
        "Best overall: a, with 1.73 times the least regret on a model, in the geometric mean over 2 models",
        "Best in the worst case: b, with at most 2.50 times the least regret, in CM",
    ]


def test_if_all_are_told_more_the_best_of_them_is_the_measure() -> None:
    found = places(results({("a", "CM"): 10.0, ("b", "CM"): 30.0}), QUERIES, 2, told=("a", "b"))
    assert [place.times for place in found] == [pytest.approx(1.0), pytest.approx(3.0)]
    assert verdict(standings(found)) == ["The least regret: a"]


def test_a_field_of_yardsticks_has_no_winner() -> None:
    found = places(results({("random", "CM"): 10.0}), QUERIES, 2, yardsticks=("random",))
    assert verdict(standings(found)) == []


def test_no_regret_at_all_can_be_ranked() -> None:
    found = places(results({("a", "CM"): 0.0, ("b", "CM"): 1.0}), QUERIES, 2)
    assert [(place.policy, place.rank) for place in found] == [("a", 1), ("b", 2)]
    assert all(math.isfinite(one.mean) for one in standings(found))


@pytest.mark.parametrize(
    ("last", "share"),
    # the best rewards of the CM are 1 - 0.5 * 0.8 = 0.6 and 1 - 0.1 * 0.8 = 0.92
    [(0.0059, 1.0), (0.0061, 0.5), (0.0091, 0.5), (0.0093, 0.0)],
)
def test_which_runs_end_near_the_best_list(last: float, share: float) -> None:
    (place,) = places(results({("a", "CM"): 50.0}, last), QUERIES, 2)
    assert place.near == share
