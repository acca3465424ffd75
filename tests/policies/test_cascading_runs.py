"""Whole runs of cascading and ranked bandits: large and small problems, easy ones, and regret."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from scipy import stats

from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.experiments.simulate import Task, simulate, simulate_all
from clickbandit.queries import load_queries
from clickbandit.simulation.run import Problem, Run
from naive.recorded import Recorded

CASCADES = [
    "cascade-kl-ucb",
    "cascade-ucb1",
    "cascade-ucb-v",
    "ts-cascade",
    "cts",
    "dcm-kl-ucb",
    "cascade-ducb",
    "cascade-swucb",
    "glrt-cascade-kl-ucb",
]
RANKED = ["ranked-ucb1", "ranked-kl-ucb"]
compiled_only = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT),
    reason="compilation is off (NUMBA_DISABLE_JIT): so many steps would take too long",
)


# --- large, small and long problems -------------------------------------------------------------------------


@compiled_only
@pytest.mark.parametrize("policy", [*CASCADES, *RANKED])
@pytest.mark.parametrize(
    ("n_items", "positions", "horizon"), [(1000, 50, 5), (1, 1, 5), (12, 12, 5), (12, 1, 5)]
)
def test_large_and_small_problems(policy: str, n_items: int, positions: int, horizon: int) -> None:
    """Far beyond the horizon too; no number leaves its range, and the list is of different items to the end."""
    attraction = np.random.default_rng(1).permutation(np.linspace(0, 0.6, n_items)).tolist()
    users = Recorded(CascadeModel(attraction=attraction))
    problem = Problem(policy, users, positions=positions, horizon=horizon)
    run = Run(problem, seed=1)
    regret, _ = run.advance(1500)
    assert math.isfinite(regret)
    assert len(set(run.slots.rankings[0].tolist())) == positions
    for name, value in run.state._asdict().items():
        assert not np.isnan(value).any(), name
    order = getattr(run.state, "order", np.arange(n_items))
    assert sorted(order.tolist()) == list(range(n_items))


@compiled_only
@pytest.mark.parametrize("policy", [*CASCADES, *RANKED])
@pytest.mark.parametrize("model", ["CM", "PBM"])
def test_the_best_list_is_found_in_an_easy_problem(policy: str, model: str) -> None:
    attraction = [0.8, 0.05, 0.5, 0.2, 0.02]
    users: Any = CascadeModel(attraction=attraction)
    if model == "PBM":
        users = PositionBasedModel(attraction=attraction, examination=[1, 0.8, 0.7])
    trace = simulate(policy, Recorded(users), positions=3, steps=100_000, runs=3, seed=2)
    assert trace.final_lists == [[0, 2, 3]] * 3


# --- regret -------------------------------------------------------------------------------------------------


def least_lead(higher: Any, lower: Any) -> float:
    """The lower end of the 99.9% interval of how much one mean is above another, run by run."""
    difference = np.asarray(higher) - np.asarray(lower)
    error = difference.std(ddof=1) / math.sqrt(len(difference))
    return float(difference.mean() - stats.t.ppf(0.9995, len(difference) - 1) * error)


@compiled_only
def test_regret_on_real_queries(shared: Path) -> None:
    """In the cascade model: who knows the variance loses less than who does not, and Thompson sampling least."""
    queries = load_queries(shared / "queries" / "yandex-10.json")
    policies = ["cts", "cascade-kl-ucb", "cascade-ucb-v", "cascade-ucb1"]
    steps, runs = 50_000, 6
    tasks = [
        Task(
            policy,
            Problem(policy, Recorded(query.model("CM")), positions=5, horizon=steps, query=query.query),
        )
        for policy in policies
        for query in queries
    ]
    totals = [trace.cumulative_regret[:, -1] for trace in simulate_all(tasks, steps=steps, runs=runs, seed=1)]
    by_policy = np.array(totals).reshape(len(policies), len(queries), runs).mean(axis=1)
    for lower, higher in pairwise(range(len(policies))):
        assert least_lead(by_policy[higher], by_policy[lower]) > 0, (policies[lower], policies[higher])
    assert 2 * by_policy[1].mean() < by_policy[3].mean()


def regret_around_a_change(policy: str, number: int, steps: int) -> tuple[float, float]:
    """Users like the last items best, from half time on the first: the regret before and after that."""
    attraction = [0.05, 0.1, 0.15, 0.2, 0.5, 0.6]
    before, after = (
        Problem(policy, Recorded(CascadeModel(attraction=taste)), positions=2, horizon=steps)
        for taste in (attraction, attraction[::-1])
    )
    run = Run(before, seed=4, run=number)
    settled, _ = run.advance(steps // 2)
    run.periods = Run(after, seed=4, run=number).periods
    return settled, run.advance(steps // 2)[0]


@compiled_only
def test_who_forgets_loses_less_after_a_change_and_more_before() -> None:
    steps, runs = 200_000, 16
    found = {
        policy: np.array([regret_around_a_change(policy, number, steps) for number in range(runs)])
        for policy in ("cascade-ucb1", "cascade-ducb", "cascade-swucb")
    }
    for policy in ("cascade-ducb", "cascade-swucb"):
        before, after = found[policy].T
        steady_before, steady_after = found["cascade-ucb1"].T
        assert least_lead(steady_after, after) > 0, f"{policy}: {after}, cascade-ucb1: {steady_after}"
        assert least_lead(before, steady_before) > 0
        # it is back where it was: the change cost it less than half of what half time costs
        assert after.mean() < 1.5 * before.mean()
    assert found["cascade-ucb1"][:, 1].mean() > 5 * found["cascade-ucb1"][:, 0].mean()
