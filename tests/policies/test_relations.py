"""What the papers prove of the policies that learn which of two items is better, and what these say of themselves."""

import json
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickbandit.clicks.cm import CascadeModel
from clickbandit.clicks.pbm import PositionBasedModel
from clickbandit.kernel import interpreted
from clickbandit.policies._base import parse_policy
from clickbandit.policies._blocks import BELOW
from clickbandit.simulation.run import Problem, Run
from naive.relations import TopRank

HARD = [0.5, 0.35, 0.45, 0.3, 0.6, 0.2]


def start(
    policy: str,
    attraction: list[float],
    positions: int,
    *,
    seed: int = 0,
    model: str = "PBM",
    horizon: int = 1000,
) -> Run:
    users: Any = CascadeModel(attraction=attraction)
    if model == "PBM":
        users = PositionBasedModel(attraction=attraction, examination=[0.9**k for k in range(positions)])
    return Run(Problem(parse_policy(policy), users, positions=positions, horizon=horizon), seed=seed)


@st.composite
def runs(draw: Any, policy: str, horizon: int = 1000) -> Run:
    """A run on a small random problem."""
    attraction = draw(st.lists(st.sampled_from([0.0, 0.05, 0.3, 0.35, 0.7, 0.9]), min_size=1, max_size=8))
    return start(
        policy,
        attraction,
        draw(st.integers(1, len(attraction))),
        seed=draw(st.integers(0, 1000)),
        model=draw(st.sampled_from(["CM", "PBM"])),
        horizon=horizon,
    )


def impression(run: Run) -> tuple[Any, Any, Any]:
    """A list, its memo and its propensities, of a copy of the run's state."""
    policy, problem = run.problem.policy, run.problem
    state = deepcopy(run.state)
    ranking, out = np.full(problem.positions, -1), np.full(problem.positions, np.nan)
    memo = np.zeros(policy.function("memo_size")(problem.model.n_items, problem.positions))
    policy.function("rank")(state, run.rng, ranking, memo)
    policy.function("propensity")(state, ranking, memo, out)
    return ranking, memo, out


# --- all of them --------------------------------------------------------------------------------------------

POLICIES = ["toprank"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("n_items", "positions"), [(6, 3), (6, 6), (4, 1), (1, 1)])
@pytest.mark.parametrize("steps", [0, 40, 3001])
def test_propensities_are_how_often_items_are_shown(
    policy: str, n_items: int, positions: int, steps: int
) -> None:
    """From the same state thousands of lists: five standard errors, and what was seen adds up to 1."""
    run = start(policy, HARD[:n_items], positions)
    run.advance(steps)
    n = 4000
    seen = np.zeros((positions, n_items))
    said = np.full((positions, n_items), np.nan)
    for _ in range(n):
        ranking, _, out = impression(run)
        for k, item in enumerate(ranking):
            seen[k, item] += 1
            assert np.isnan(said[k, item]) or said[k, item] == out[k]
            said[k, item] = out[k]
    shown = seen > 0
    assert np.nansum(said, axis=1) == pytest.approx(1)
    error = np.sqrt(said[shown] * (1 - said[shown]) / n)
    assert (abs(seen[shown] / n - said[shown]) <= 5 * error).all()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("n_items", "positions"), [(6, 3), (6, 6), (4, 1), (1, 1)])
def test_what_is_learned_can_be_told(policy: str, n_items: int, positions: int) -> None:
    run = start(policy, HARD[:n_items], positions)
    for _ in range(10):
        told = json.loads(json.dumps(run.problem.policy.function("describe")(run.state)))
        assert [entry["item"] for entry in told["items"]] == list(range(n_items))
        groups = told["groups"]
        assert sorted(item for group in groups for item in group["items"]) == list(range(n_items))
        positions_told = [k for g in groups if "first" in g for k in range(g["first"], g["last"] + 1)]
        assert positions_told == list(range(1, positions + 1))
        assert told.get("settled", False) <= (told.get("next_decision", 0) == 0)
        run.advance(400)


# --- TopRank ------------------------------------------------------------------------------------------------


@given(runs("toprank"))
def test_toprank_blocks_are_those_of_the_relation(run: Run) -> None:
    """The relation only grows, and the blocks are those peeled from it."""
    n_items, positions = run.problem.model.n_items, run.problem.positions
    before = np.zeros((n_items, n_items), np.int64)
    for _ in range(20):
        run.advance(50)
        state = run.state
        assert (state.beats >= before).all()
        assert (state.beaten == state.beats.sum(axis=0)).all()
        before = state.beats.copy()
        assert sorted(state.items) == list(range(n_items))
        twin = TopRank(n_items, positions, horizon=1000)
        twin.relation = {(int(i), int(j)) for i, j in np.argwhere(before)}
        place = 0
        for block in twin.peel():
            if place < positions:
                assert sorted(state.items[place : place + len(block)]) == block
                assert (state.block[block] == place).all()
                assert (state.end[place : place + len(block)] == place + len(block)).all()
            else:
                assert (state.block[block] == BELOW).all()
            place += len(block)


@pytest.mark.parametrize("model", ["CM", "PBM"])
def test_toprank_is_not_wrong_within_its_horizon(model: str) -> None:
    """A relation that is right has no cycle. Each of forty runs fails with a probability of at most L^2 / T."""
    steps = 20_000
    found = 0
    for seed in range(40):
        run = start("toprank", HARD, 3, seed=seed, model=model, horizon=steps)
        run.advance(steps)
        for i, j in np.argwhere(run.state.beats):
            assert HARD[i] > HARD[j], f"seed {seed}: {i} beats {j}"
            found += 1
    assert found > 40 * 6


@given(runs("toprank"))
def test_toprank_knows_how_long_nothing_changes(run: Run) -> None:
    """Every group stays as it is for one impression less than it says; and the time it says comes to an end."""
    describe = run.problem.policy.function("describe")
    for _ in range(30):
        told = describe(run.state)
        waits = sorted({group["at_least"] for group in told["groups"] if "at_least" in group})
        assert told["settled"] == (not waits)
        if waits:
            assert told["next_decision"] == waits[0] >= 1
        gone = 0
        for wait in waits:
            run.advance(wait - 1 - gone)
            gone = wait - 1
            now = [group["items"] for group in describe(run.state)["groups"]]
            for group in told["groups"]:
                assert group.get("at_least", wait) < wait or "first" not in group or group["items"] in now
        run.advance(1)


def test_toprank_with_a_cycle() -> None:
    """Whatever came after the cycle stays one block; it is driven by hand, for in truth it is next to impossible."""
    policy = parse_policy("toprank")
    state, twin = policy.start(5, 2, horizon=1000), TopRank(5, 2, horizon=1000)
    update, rank = interpreted(policy.function("update")), interpreted(policy.function("rank"))
    for better, worse in [(3, 0), (3, 1), (3, 2), (3, 4), (0, 1), (1, 2), (2, 0), (0, 4)]:
        memo = np.arange(5.0)
        memo[worse] = memo[better]
        for _ in range(60):
            update(state, np.array([better, worse]), np.array([1, 0]), memo)
            twin.update([better, worse], [1, 0], [(better, worse)])
        rngs = [np.random.default_rng(seed) for seed in (5, 5)]
        for _ in range(20):
            ranking = np.zeros(2, np.int64)
            rank(state, rngs[0], ranking, np.zeros(5))
            assert ranking.tolist() == twin.rank(rngs[1])
    assert ("cycle", 4) in twin.events
    assert sorted(twin.blocks[1]) == [0, 1, 2, 4]
    assert (state.block == [1, 1, 1, 0, 1]).all()
