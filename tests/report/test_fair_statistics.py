"""Intervals cover the truth as often as they say, differences are of the same users, and tails stand beside means."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest

from clickbandit import CascadeModel, PositionBasedModel, Query
from clickbandit.intervals import Interval, mean_of_strata, student_quantile
from clickbandit.report.standings import places, standings, verdict
from clickbandit.report.statistics import beyond_the_least, distinguishable, paired_difference, totals, units
from clickbandit.report.tables import difference_text, total_rows
from clickbandit.simulation.run import Problem, Run
from clickbandit.simulation.trace import COLUMNS
from naive.recorded import Recorded

Draw = Callable[[np.random.Generator], Sequence[Sequence[float]]]

# --- coverage -----------------------------------------------------------------------------------------------


def coverage(intervals: Sequence[Interval], truth: float) -> float:
    return float(np.mean([interval.low <= truth <= interval.high for interval in intervals]))


@pytest.mark.parametrize(
    ("spread", "runs", "low", "high"),
    [
        ([1, 1, 1, 1], 3, 0.95, 0.98),  # degrees of freedom are rounded down
        ([1, 1, 1, 1], 10, 0.935, 0.965),
        ([10, 1, 1, 1], 5, 0.935, 0.97),  # one query has nearly all of the error
        ([1], 5, 0.935, 0.975),  # five values that seem skewed by chance reach further
    ],
)
def test_intervals_for_the_mean_over_queries_cover_it(
    spread: list[float], runs: int, low: float, high: float
) -> None:
    rng = np.random.default_rng(1)
    level = np.arange(len(spread)) * 100  # how queries differ is no error
    found = [
        mean_of_strata(level[:, None] + rng.normal(size=(len(spread), runs)) * np.array(spread)[:, None])
        for _ in range(2500)
    ]
    assert low <= coverage(found, level.mean()) <= high


@pytest.mark.parametrize(("queries", "runs"), [(3, 5), (3, 10), (10, 5)])
def test_intervals_of_skewed_values_cover_their_mean(queries: int, runs: int) -> None:
    """As regret is, of which a few runs have much: to the side of these Student's interval is too short."""
    rng = np.random.default_rng(2)
    values = [rng.exponential(size=(queries, runs)) for _ in range(1500)]
    found = [mean_of_strata(one) for one in values]
    assert 0.935 <= coverage(found, 1) <= 0.97
    mirrored = [mean_of_strata(-one) for one in values]
    assert all(one.high == pytest.approx(-other.low) for one, other in zip(found, mirrored, strict=True))
    symmetric = [
        Interval(one.mean, one.low, one.mean + (one.mean - one.low)) for one in found if one.high > one.mean
    ]
    assert coverage(symmetric, 1) < coverage(found, 1) - 0.005


def test_strata_by_hand() -> None:
    """Errors 1/3 and 1: 4/3 in all, with (4/3)^2 / ((1/3)^2 / 2 + 1 / 1) = 1.68 degrees of freedom, so 1."""
    found = mean_of_strata([[1, 2, 3], [9, 11]])
    assert found.mean == pytest.approx((2 + 10) / 2)
    assert found.high - found.mean == pytest.approx(student_quantile(1) * np.sqrt(4 / 3) / 2)
    assert mean_of_strata([[1, 2], [3]]) == (2.25, 2.25, 2.25)
    assert mean_of_strata([[1, 1], [3, 3]]) == (2, 2, 2)
    assert mean_of_strata([[0, 3], [0, 5]], least=0).low == 0


def test_intervals_cover_the_regret_where_users_drift() -> None:
    """Of CTS, on two queries whose items are shuffled halfway, in four runs for each of many seeds."""
    models = [CascadeModel([0.5, 0.3, 0.2, 0.1, 0.05]), CascadeModel([0.9, 0.5, 0.1, 0.1, 0.1])]
    problems = [
        Problem("cts", Recorded(model), positions=2, horizon=300, query=str(number), drift=[150])
        for number, model in enumerate(models)
    ]
    regret = np.array(
        [
            [[Run(problem, seed=seed, run=run).advance(300)[0] for run in range(4)] for problem in problems]
            for seed in range(200)
        ]
    )
    found = coverage([mean_of_strata(one) for one in regret], regret.mean())
    assert 0.9 < found < 0.99


# --- differences --------------------------------------------------------------------------------------------


def results(regret: dict[str, Sequence[Sequence[float]]], model: str = "CM", late: float = 0.0) -> pa.Table:
    """By policy, query and run: the regret over 100 steps in ten windows, `late` a step in the last one."""
    rows = [
        (policy, model, f"q{query}", run, 10 * (window + 1), late if window == 9 else total / 90, 0.5)
        for policy, queries in regret.items()
        for query, runs in enumerate(queries)
        for run, total in enumerate(runs)
        for window in range(10)
    ]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=pa.schema(COLUMNS.items()))


LUCK = np.array([[100, 300, 500, 200], [1000, 1400, 1900, 1200]])


def test_what_is_the_same_luck_for_both_cancels_out() -> None:
    """One has 10 to 14 more than the other in each run, which differ by hundreds."""
    more = np.array([[10, 14, 12, 12], [12, 10, 14, 12]])
    one, other = totals(results({"a": LUCK + more, "b": LUCK}))
    difference = paired_difference(one.regrets, other.regrets)
    assert difference == pytest.approx(mean_of_strata(more))
    assert 10 < difference.low < difference.mean == pytest.approx(12)
    assert one.regret.low < other.regret.high, "by themselves they overlap"
    assert difference_text(difference) == "11 to 13"
    assert beyond_the_least([one, other]) == {("CM", "a"): difference, ("CM", "b"): None}


def test_paired_intervals_cover_the_difference() -> None:
    rng = np.random.default_rng(1)
    found, alone = [], []
    for _ in range(1500):
        luck = rng.gamma(2, 100, (3, 5))
        one, other = (luck + rng.gamma(shape, 10, (3, 5)) for shape in (3, 1))
        named = [
            {(f"q{query}", run): float(values[query, run]) for query in range(3) for run in range(5)}
            for values in (one, other)
        ]
        difference = paired_difference(*named)
        assert difference is not None
        found.append(difference)
        alone.append(mean_of_strata(one))
    assert 0.93 < coverage(found, 20) < 0.97
    assert np.mean([one.high - one.low for one in found]) < np.mean([one.high - one.low for one in alone]) / 3


def test_only_runs_that_both_have_are_compared() -> None:
    one, other = {("q", 0): 1.0, ("q", 1): 2.0, ("q", 2): 99.0}, {("q", 1): 1.0, ("q", 0): 0.5, ("q", 3): 7.0}
    assert paired_difference(one, other) == pytest.approx(mean_of_strata([[0.5, 1.0]]))
    assert paired_difference(one, {("q", 0): 1.0}) is None
    assert paired_difference(one, {("other", 0): 1.0, ("other", 1): 1.0}) is None


@pytest.mark.parametrize(
    ("low", "high", "told"), [(-1, 1, False), (0, 2, False), (0.1, 2, True), (-2, -0.1, True)]
)
def test_what_can_be_told_apart(low: float, high: float, told: bool) -> None:
    difference = Interval((low + high) / 2, low, high)
    assert distinguishable(difference) is told
    assert (difference_text(difference) == "not distinguishable") is not told


# --- tails --------------------------------------------------------------------------------------------------


def test_tails() -> None:
    (total,) = totals(results({"a": LUCK}))
    assert total.tail == pytest.approx(np.quantile(LUCK, 0.9))
    assert total.losing == 0
    for late, losing in ((0.00099, 0), (0.00101, 8)):
        (total,) = totals(results({"a": LUCK}, late=late))
        assert total.losing == losing
        assert total_rows([total])[0]["losing"] == f"{losing / 8:.0%}"


def test_the_last_tenth_is_by_steps() -> None:
    """Seven windows of 1,000 steps: the last begins at 857, before the last tenth does, but it is all there is."""
    ends = [(i + 1) * 1000 // 7 for i in range(7)]
    rows = [("a", "CM", "q", 0, end, float(i), 0.5) for i, end in enumerate(ends)]
    rows += [("b", "CM", "q", 0, 5 * (i + 1), float(i), 0.5) for i in range(20)]
    found = units(
        pa.table([list(column) for column in zip(*rows, strict=True)], schema=pa.schema(COLUMNS.items()))
    )
    assert found["late_regret"].to_pylist() == [6.0, 18.5]


# --- who is best --------------------------------------------------------------------------------------------

QUERIES = [
    Query(
        name,
        list("abc"),
        {"CM": CascadeModel([0.5, 0.2, 0.1]), "PBM": PositionBasedModel([0.5, 0.2, 0.1], [1, 1])},
    )
    for name in ("q0", "q1")
]


def test_the_winner_is_not_told_apart_from_those_within_its_error() -> None:
    noise = np.array([[20, -30, 10, 5], [-25, 30, 0, -10]])
    regret = {"a": LUCK, "b": LUCK + noise + 3, "c": 2 * LUCK}
    table = pa.concat_tables([results(regret), results(regret, "PBM")])
    found = places(table, QUERIES, 2)
    assert [(place.policy, difference_text(place.more)) for place in found[:2]] == [
        ("a", "-"),
        ("b", "not distinguishable"),
    ]
    assert distinguishable(found[2].more)
    assert [place.tail for place in found[:1]] == pytest.approx([np.quantile(LUCK, 0.9)])
    overall = standings(found)
    assert [(one.policy, one.beyond is None) for one in overall] == [("a", True), ("b", False), ("c", False)]
    assert overall[2].beyond.mean == pytest.approx(2)
    assert verdict(overall)[0].endswith("over 2 models; not distinguishable from b")
    assert verdict(standings(places(results(regret), QUERIES, 2))) == [
        "The least regret: a; not distinguishable from b"
    ]


def test_intervals_of_how_many_times_cover_it() -> None:
    """In the geometric mean over two models, with regrets of 300 and 600 against 200 and 500."""
    rng = np.random.default_rng(2)
    truth = np.sqrt(300 / 200 * 600 / 500)
    found = []
    for _ in range(150):
        tables = []
        for model, means in (("CM", (300, 200)), ("PBM", (600, 500))):
            luck = rng.normal(0, 20, (2, 5))
            regret = {
                name: luck + rng.normal(mean, spread, (2, 5))
                for name, mean, spread in zip("ab", means, (10, 50), strict=True)
            }
            tables.append(results(regret, model))
        best, other = standings(places(pa.concat_tables(tables), QUERIES, 2))
        assert (best.policy, other.policy) == ("b", "a")
        found.append(other.beyond)
    assert 0.9 < coverage(found, truth) < 0.99


def test_regret_below_zero_has_no_multiples() -> None:
    """Against a list that is not the best."""
    table = pa.concat_tables([results({"a": -LUCK, "b": LUCK}), results({"a": LUCK, "b": 3 * LUCK}, "PBM")])
    found = places(table, QUERIES, 2, against="attraction")
    assert [str(place.times) for place in found] == ["nan", "nan", "1.0", "3.0"]
    assert found[0].regret.low < found[0].regret.mean < 0
    assert [one.times for one in standings(found)] == [{"PBM": 1.0}, {"PBM": 3.0}]
    assert standings(found[:2]) == []
    assert verdict([]) == []
