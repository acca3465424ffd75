"""A budget for any policy: list for list its plain twin, and never overspent."""

from typing import Any

import numpy as np
import pytest

from clickbandit import CascadeModel, InputError, PositionBasedModel, Prior, Within, parse_policy, simulate
from clickbandit.policies.budget_kernels import GIVEN_LEVEL, reach
from clickbandit.randomness import generators
from clickbandit.simulation.run import Problem, Run
from clickbandit.testing import check_policy
from naive.budget import Within as Twin
from naive.recorded import Recorded
from naive.side_by_side import in_order
from naive.twins import TWINS

PBM = PositionBasedModel(attraction=[0.5, 0.6, 0.2, 0.4, 0.1, 0.3], examination=[1, 0.6, 0.4])


def plain(problem: Problem, **which: int) -> Run:
    run = Run(problem, **which)
    run.loop = problem.make_loop(compiled=False)
    return run


@pytest.mark.parametrize(("policy", "delay"), [("cts", 0), ("cts", 7), ("toprank", 3), ("random", 0)])
def test_list_for_list(policy: str, delay: int) -> None:
    """Of a policy without memo, which learns from the given order too, and of one with."""
    steps = 600
    reordered, numbering = in_order(PBM, seed=3)
    users = Recorded(reordered, steps, 3)
    settings = parse_policy(f"{policy} within 0.2")
    problem = Problem(settings, users, positions=3, horizon=steps, delay=delay)
    run = plain(problem, seed=3)
    run.advance(steps)
    rng, _ = generators(3, "", PBM.name, str(settings), 0)
    order = np.argsort(numbering).tolist()
    twin = Twin(TWINS[policy](6, 3, horizon=steps), order, 0.2, any_list=policy != "toprank")
    outstanding: list[Any] = []
    for shown, clicks in zip(users.shown.tolist(), users.clicked.tolist(), strict=True):
        assert twin.rank(rng) == shown
        outstanding.append((shown, clicks, twin.memo))
        if len(outstanding) > delay:
            twin.update(*outstanding.pop(0))
    assert len(twin.explored) > 50
    assert len(twin.given) > 50


def test_it_keeps_the_contract() -> None:
    check_policy(parse_policy("cts within 0.1"), Recorded(PBM), 3)


@pytest.mark.parametrize("max_loss", [0.02, 0.1])
def test_the_budget_is_never_overspent(max_loss: float) -> None:
    """By a policy that learns nothing and a list that is worthless but for the given order: of 20 runs, looked at every
    20 steps, one may lose more in expected clicks."""
    model = CascadeModel(attraction=[0.6, 0.5, *[0.01] * 10])
    problem = Problem(f"random within {max_loss}", model, positions=2, horizon=2_000, prior=None)
    worst = []
    for number in range(20):
        run = plain(problem, run=number)
        regret, _ = run.advance_windows(np.arange(20, 2_001, 20))
        worst.append(float((np.cumsum(regret) / np.arange(20, 2_001, 20)).max() / problem.best_reward))
    assert sorted(worst)[-2] <= max_loss
    assert np.mean(worst) > max_loss / 4, "it explores"


def test_the_given_order_is_the_prior_s() -> None:
    run = plain(
        Problem(
            "click-ts within 0.02", PBM, positions=3, horizon=100, prior=Prior.from_order([5, 4, 3, 2, 1, 0])
        )
    )
    run.advance(1)
    assert np.take(run.numbering, run.slots.rankings[0]).tolist() == [5, 4, 3]


def test_lists_of_which_nothing_is_known_count_as_nothing() -> None:
    """With late feedback: none explores before the first of the given order is known, and then no more than covered."""
    run = plain(Problem("random within 0.2", PBM, positions=3, horizon=100, delay=60))
    run.advance(60)
    assert run.state.tally.tolist() == [0.0] * 7
    assert (run.slots.memos[:60, -1] == 2).all()


def test_how_much_is_spent_is_told() -> None:
    policy = parse_policy("cts within 0.2")
    run = plain(Problem(policy, PBM, positions=3, horizon=1_000), seed=1)
    describe = policy.live.describe
    assert describe is not None
    assert describe(run.state)["budget"] == {"max_loss": 0.2, "explored": 0, "shown_given": 0, "spent": 0}
    run.advance(300)
    budget = describe(run.state)["budget"]
    assert budget["explored"] + budget["shown_given"] == 300
    assert 0 < budget["spent"] <= 1
    assert policy.live.admit is not None
    assert policy.live.retire is not None
    state = policy.live.retire(policy.live.admit(run.state, 1), 0)
    assert sorted(state.given_order.tolist()) == list(range(6))
    assert type(state) is type(run.state)


def test_what_is_no_budget_is_refused() -> None:
    for text, message in (
        ("cts within much", "expected a share such as 0.02 after within, found 'much'"),
        ("cts within 2", "between 0 and 1, found 2.0"),
        ("cts within 0.1 within 0.1", "one budget"),
    ):
        with pytest.raises(InputError, match=message):
            parse_policy(text)
    assert str(Within(parse_policy("cts:feedback=last"), 0.05)) == "cts:feedback=last within 0.05"
    assert simulate(Within(parse_policy("cts"), 0.05), PBM, positions=3, steps=50).policy == "cts within 0.05"


def test_the_sequence_holds_at_all_times() -> None:
    """Of 400 sums of clicks few ever leave it, looked at after each of 300."""
    rng = np.random.default_rng(1)
    clicks = rng.random((400, 300)) < 0.3
    sums = np.cumsum(clicks, axis=1)
    left = [
        any(
            abs(row[n - 1] - 0.3 * n) > reach(n, row[n - 1], row[n - 1], GIVEN_LEVEL)
            for n in range(1, 301, 3)
        )
        for row in sums
    ]
    assert np.mean(left) <= GIVEN_LEVEL
