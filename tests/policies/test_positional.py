"""What the policies for the position-based model keep: exact bounds and posteriors, sound elimination, their order."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import mpmath
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.click_models.ubm import UserBrowsingModel
from clickbandit.compiling.kernel import interpreted
from clickbandit.errors import InputError
from clickbandit.experiments.simulate import Task, simulate_all
from clickbandit.policies import pbm_likelihood, pbm_ts
from clickbandit.policies.base import parse_policy
from clickbandit.queries import load_queries
from clickbandit.simulation.run import Problem, Run, missing_knowledge
from naive.recorded import Recorded

PBM = PositionBasedModel(attraction=[0.1, 0.9, 0.5, 0.7, 0.3], examination=[1, 0.6, 0.3])
CM = CascadeModel(attraction=[0.1, 0.9, 0.5])
UBM = UserBrowsingModel([0.1, 0.9, 0.5], examination=[[1], [0.8, 0.4], [0.7, 0.6, 0.2]])
TOLD = ["pbm-ucb", "pbm-ts", "pbm-pie"]

# --- what they are told -------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", TOLD)
@pytest.mark.parametrize("model", [CM, UBM])
def test_a_model_without_examination_by_position_is_refused(policy: str, model: Any) -> None:
    assert missing_knowledge(parse_policy(policy), model) == ["examination"]
    with pytest.raises(InputError, match=f"{policy} must be told the users' examination, which {model.name}"):
        Problem(policy, model, positions=2, horizon=100)


@pytest.mark.parametrize("policy", TOLD)
@pytest.mark.parametrize("model", [CM, UBM, PBM])
def test_the_setting_is_in_the_place_of_what_the_model_says(policy: str, model: Any) -> None:
    problem = Problem(f"{policy}:examination=0.9/0.8/0.5", model, positions=2, horizon=100)
    assert missing_knowledge(problem.policy, model) == []
    assert problem.start().examination.tolist() == [0.9, 0.8]


@pytest.mark.parametrize("policy", TOLD)
def test_in_simulation_they_are_told_by_the_model(policy: str) -> None:
    assert missing_knowledge(parse_policy(policy), PBM) == []
    assert Problem(policy, PBM, positions=2, horizon=100).start().examination.tolist() == [1, 0.6]
    assert missing_knowledge(parse_policy("batchrank"), CM) == []
    assert missing_knowledge(parse_policy("optimal"), CM) == []


@pytest.mark.parametrize("policy", TOLD)
def test_live_they_must_be_told_by_the_setting(policy: str) -> None:
    with pytest.raises(InputError, match="examination is required: set it to a probability"):
        parse_policy(policy).start(5, 3, horizon=1000)
    state = parse_policy(f"{policy}:examination=1/0.5/0.25").start(5, 3, horizon=1000)
    assert state.examination.tolist() == [1, 0.5, 0.25]


@pytest.mark.parametrize("text", ["1/0/0.5", "1/-0.1", "1/1.1", "1/x", "1//0.5", "1 0.5", "nan", "inf"])
def test_an_examination_that_is_none(text: str) -> None:
    with pytest.raises(InputError, match="examination must be probabilities above 0 and at most 1"):
        parse_policy(f"pbm-ucb:examination={text}")


def test_too_few_probabilities() -> None:
    with pytest.raises(InputError, match="for each of the 3 positions, found 2"):
        parse_policy("pbm-pie:examination=1/0.5").start(5, 3, horizon=100)


def test_positions_that_nobody_examines() -> None:
    """Only those that are shown matter."""
    model = PositionBasedModel([0.5, 0.4, 0.3], examination=[1, 0.5, 0])
    Problem("pbm-ucb", model, positions=2, horizon=100).start()
    with pytest.raises(InputError, match="above 0"):
        Problem("pbm-ucb", model, positions=3, horizon=100).start()


@pytest.mark.parametrize("policy", ["pbm-ucb", "pbm-pie"])
@pytest.mark.parametrize("epsilon", ["-0.1", "nan"])
def test_epsilon(policy: str, epsilon: str) -> None:
    with pytest.raises(InputError, match="epsilon must be 0 or more"):
        parse_policy(f"{policy}:epsilon={epsilon}")


@pytest.mark.parametrize("policy", ["rank1elim", "rank1elim-kl"])
def test_a_short_horizon(policy: str) -> None:
    with pytest.raises(InputError, match=f"{policy} needs a horizon of at least 5 steps"):
        parse_policy(policy).start(5, 3, horizon=4)


# --- PBM: bounds --------------------------------------------------------------------------------------------


@st.composite
def counts(draw: Any) -> tuple[Any, Any, Any]:
    """Clicks, displays and examination by position: few or many, also such as contradict each other."""
    n = draw(st.integers(1, 5))
    displays = draw(
        st.lists(st.one_of(st.just(0), st.integers(1, 30), st.integers(1, 10**6)), min_size=n, max_size=n)
    )
    clicks = [draw(st.one_of(st.integers(0, d), st.just(0), st.just(d))) for d in displays]
    kappa = draw(st.lists(st.one_of(st.just(1.0), st.floats(0.01, 1)), min_size=n, max_size=n))
    return np.array(clicks), np.array(displays), np.array(kappa)


def exact_divergence(clicks: Any, displays: Any, kappa: Any, q: Any) -> Any:
    """sum_k N_k kl(S_k / N_k, kappa_k q) with fifty digits."""
    total = mpmath.mpf(0)
    for s, n, k in zip(clicks.tolist(), displays.tolist(), kappa.tolist(), strict=True):
        for times, chance in ((s, mpmath.mpf(k) * q), (n - s, 1 - mpmath.mpf(k) * q)):
            if times:
                total += times * mpmath.log(mpmath.mpf(times) / n / chance) if chance > 0 else mpmath.inf
    return total


def exact_slope(clicks: Any, displays: Any, kappa: Any, q: Any) -> Any:
    """Its derivative in q, times q."""
    total = mpmath.mpf(0)
    for s, n, k in zip(clicks.tolist(), displays.tolist(), kappa.tolist(), strict=True):
        rest = 1 - mpmath.mpf(k) * q
        total += -s + ((n - s) * k * q / rest if rest > 0 else mpmath.inf if n > s else 0)
    return total


def bisect(is_above: Any) -> Any:
    """The q in [0, 1] from which on a predicate holds, 1 if it never does."""
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    if not is_above(high):
        return high
    for _ in range(110):
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return high


@settings(max_examples=60)
@given(counts(), st.floats(0.5, 50))
def test_the_bound_of_pie_is_the_largest_likely_attraction(table: Any, budget: float) -> None:
    clicks, displays, kappa = table
    estimate = clicks.sum() / (displays @ kappa) if displays.any() else 0.0
    found = interpreted(pbm_likelihood.highest_likely)(clicks, displays, kappa, budget, estimate)
    with mpmath.workdps(50):
        expected = bisect(
            lambda q: exact_slope(*table, q) > 0 and exact_divergence(*table, q) > mpmath.mpf(budget)
        )
        assert found == pytest.approx(float(expected), rel=1e-9, abs=1e-14)


@settings(max_examples=150)
@given(counts(), st.integers(-1, 4), st.floats(0, 1.5))
def test_the_likeliest_attraction_is_where_the_likelihood_is_highest(
    table: Any, but: int, start: float
) -> None:
    clicks, displays, kappa = table
    found = interpreted(pbm_likelihood.likeliest)(clicks, displays, kappa, but, start)
    others = [k for k in range(len(clicks)) if k != but]
    kept = clicks[others], displays[others], kappa[others]
    if kept[0].sum() == 0:
        assert found == 0
        return
    with mpmath.workdps(50):
        expected = float(bisect(lambda q: exact_slope(*kept, q) > 0))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_the_bound_falls_with_displays_and_rises_with_clicks() -> None:
    bound = interpreted(pbm_likelihood.highest_likely)
    kappa = np.array([1.0, 0.5])
    bounds = [bound(np.array([0, 0]), np.array([n, n]), kappa, 3.0, 0.0) for n in (0, 1, 5, 50, 500)]
    assert bounds[0] == 1
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 0.01
    rising = [bound(np.array([s, s]), np.array([50, 50]), kappa, 3.0, s / 37.5) for s in (0, 5, 10, 20)]
    assert rising == sorted(rising)


# --- PBM: the posterior -------------------------------------------------------------------------------------


def posterior_cdf(clicks: Any, displays: Any, kappa: Any) -> Any:
    """By numerical integration on a fine grid."""
    grid = np.linspace(0, 1, 200_001)[1:-1]
    log_density = clicks.sum() * np.log(grid)
    for s, n, k in zip(clicks, displays, kappa, strict=True):
        log_density += (n - s) * np.log1p(-k * grid)
    density = np.exp(log_density - log_density.max())
    cdf = integrate.cumulative_trapezoid(density, grid, initial=0)
    return lambda x: np.interp(x, grid, cdf / cdf[-1])


def ts_state(clicks: Any, displays: Any, kappa: Any) -> Any:
    """The state of PBM-TS with one item that has these counts."""
    n = len(kappa)
    state = pbm_ts.init(n, n, horizon=1000, examination=kappa)
    state.clicks[0], state.displays[0] = clicks, displays
    interpreted(pbm_ts.find_peak)(state, 0)
    return state


TABLES = [
    ([0, 0, 0], [0, 0, 0], [0.8, 0.7, 0.2]),
    ([3, 2, 1], [10, 9, 12], [1.0, 0.6, 0.3]),
    ([30, 9, 0], [100, 40, 5], [1.0, 0.6, 0.3]),
    ([0, 0, 0], [20, 10, 10], [1.0, 0.9, 0.8]),
    ([10, 4, 5], [10, 7, 20], [1.0, 0.7, 0.3]),
    ([2, 0, 90], [3, 1, 400], [0.9, 0.5, 0.25]),
]


@pytest.mark.parametrize("table", TABLES)
def test_draws_have_the_posteriors_law(table: Any) -> None:
    clicks, displays, kappa = map(np.array, table)
    state = ts_state(clicks, displays, kappa)
    draw = pbm_ts.draw_attraction
    rng = np.random.default_rng(5)
    sample = np.array([draw(state, 0, rng) for _ in range(5000)])
    assert stats.kstest(sample, posterior_cdf(clicks, displays, kappa)).pvalue > 0.001
    if np.count_nonzero(displays) > 1:  # and the test has the power to find a sampler that accepts all
        main = int(np.argmax(displays))
        naive = rng.beta(clicks[main] + 1, displays[main] - clicks[main] + 1, 5000) / kappa[main]
        assert stats.kstest(naive, posterior_cdf(clicks, displays, kappa)).pvalue < 1e-6


def test_the_first_draws_are_uniform() -> None:
    state = pbm_ts.init(4, 2, horizon=1000, examination=[0.5, 0.25])
    rng = np.random.default_rng(1)
    sample = np.array([pbm_ts.draw_attraction(state, 1, rng) for _ in range(5000)])
    assert stats.kstest(sample, "uniform").pvalue > 0.001


# --- PBM: what they show ------------------------------------------------------------------------------------


def frequencies(policy: str, state: Any, n_positions: int, n: int) -> Counter[tuple[int, int]]:
    """How often each item stands at each position when a list is made from this state."""
    rank = interpreted(parse_policy(policy).algorithm.rank)
    rng = np.random.default_rng(3)
    ranking = np.zeros(n_positions, np.int64)
    seen: Counter[tuple[int, int]] = Counter()
    for _ in range(n):
        copy = type(state)(*(np.copy(v) if isinstance(v, np.ndarray) else v for v in state))
        rank(copy, rng, ranking, np.zeros(0))
        seen.update((k, int(item)) for k, item in enumerate(ranking))
    return seen


@pytest.mark.parametrize(
    ("policy", "steps"), [("pbm-ucb", 0), ("pbm-ucb", 1), ("pbm-ucb", 500), ("pbm-pie", 3), ("pbm-pie", 300)]
)
def test_the_propensity_is_how_often_an_item_stands_there(policy: str, steps: int) -> None:
    model = PositionBasedModel([0.1, 0.5, 0.5, 0.45, 0.4], examination=[0.6, 1, 0.3])
    run = Run(Problem(policy, Recorded(model), positions=3, horizon=1000), seed=4)
    run.advance(steps)
    n = 2000
    seen = frequencies(policy, run.state, 3, n)
    stated: dict[tuple[int, int], float] = {}
    parsed = parse_policy(policy)
    rank, propensity = map(interpreted, (parsed.algorithm.rank, parsed.live.propensity))
    rng, ranking, out = np.random.default_rng(8), np.zeros(3, np.int64), np.zeros(3)
    for _ in range(200):
        copy = type(run.state)(*(np.copy(v) if isinstance(v, np.ndarray) else v for v in run.state))
        rank(copy, rng, ranking, np.zeros(0))
        propensity(copy, ranking, np.zeros(0), out)
        for k in range(3):
            assert (
                stated.setdefault((k, int(ranking[k])), out[k]) == out[k]
            )  # the same whatever else is shown
    assert set(stated) == set(seen)
    for cell, p in stated.items():
        assert seen[cell] / n == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / n)), cell
    if steps == 300:
        assert 0.5 in stated.values()


def test_pie_explores_at_the_least_examined_position_only() -> None:
    model = PositionBasedModel([0.3, 0.32, 0.35, 0.38, 0.4], examination=[0.6, 0.3, 1])
    run = Run(Problem("pbm-pie", Recorded(model), positions=3, horizon=10_000), seed=2)
    run.advance(5)
    tried = 0
    for _ in range(1000):
        order = np.argsort(-run.state.estimate, kind="stable")
        run.advance(1)
        shown = run.slots.rankings[0]
        assert (shown[2], shown[0]) == tuple(order[:2])
        tried += shown[1] != order[2]
    assert 300 < tried < 700


def test_pie_shows_the_items_in_turn_first() -> None:
    run = Run(Problem("pbm-pie", Recorded(PBM), positions=3, horizon=10_000), seed=2)
    lists = []
    for _ in range(5):
        run.advance(1)
        lists.append(run.slots.rankings[0].tolist())
    assert lists == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1]]


@pytest.mark.parametrize("policy", [*TOLD, "rank1elim", "rank1elim-kl"])
def test_what_is_described(policy: str) -> None:
    run = Run(Problem(policy, Recorded(PBM), positions=3, horizon=1000), seed=1)
    describe = run.problem.policy.live.describe
    json.dumps(describe(run.state))
    run.advance(700)
    found = json.loads(json.dumps(describe(run.state)))
    rows = found["items"]
    assert [row["item"] for row in rows] == [0, 1, 2, 3, 4]
    pairs = policy.startswith("rank1")
    assert sum(row["observed"] for row in rows) <= 700 * 3
    assert sum(row["observed"] for row in rows) == (run.state.observed[:5].sum() if pairs else 2100)
    assert max(rows, key=lambda row: row["estimate"])["item"] == 1
    for row in rows:
        assert row.get("low", 0) <= row["estimate"]
        if "high" in row:
            assert row["estimate"] <= row["high"] <= 1 or policy != "rank1elim"
    if pairs:
        assert found["settled"] or found["next_decision"] > 0


# --- regret on real queries ---------------------------------------------------------------------------------


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="so many steps take too long without compilation")
def test_pie_is_below_ucb_and_both_below_ranked_exp3(shared: Path) -> None:
    """The mean over ten queries at 400,000 steps, run by run."""
    queries = load_queries(shared / "queries" / "yandex-10.json")
    runs, steps = 1, 400_000
    tasks = [
        Task(
            policy,
            Problem(policy, Recorded(query.model("PBM")), positions=5, horizon=steps, query=query.query),
        )
        for policy in ("pbm-pie", "pbm-ucb", "ranked-exp3")
        for query in queries
    ]
    totals = [trace.cumulative_regret[:, -1] for trace in simulate_all(tasks, steps=steps, runs=runs, seed=1)]
    pie, ucb, exp3 = np.array(totals).reshape(3, len(queries), runs).mean(axis=1)
    assert (pie < ucb / 1.5).all()
    assert (ucb < exp3 / 5).all()
