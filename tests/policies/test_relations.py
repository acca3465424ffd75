"""What the papers prove of the policies that learn which of two items is better, and what these say of themselves."""

import math
from collections import Counter
from copy import deepcopy
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from clickbandit.bounds import kl_upper
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.compiling.kernel import interpreted
from clickbandit.errors import InputError
from clickbandit.policies.assignment import assign, best_exchange
from clickbandit.policies.base import parse_policy
from clickbandit.policies.blocks import BELOW
from clickbandit.policies.grab import find_leader
from clickbandit.simulation.run import Problem, Run
from naive.recorded import Recorded
from naive.relations import GRAB, TopRank, UniRank

HARD = [0.5, 0.35, 0.45, 0.3, 0.6, 0.2]


def start(
    policy: str,
    attraction: list[float],
    positions: int,
    *,
    seed: int = 0,
    model: str = "PBM",
    horizon: int = 1000,
    recorded: int = 0,
) -> Run:
    users: Any = CascadeModel(attraction=attraction)
    if model == "PBM":
        users = PositionBasedModel(attraction=attraction, examination=[0.9**k for k in range(positions)])
    recording = Recorded(users, recorded, positions)
    return Run(Problem(parse_policy(policy), recording, positions=positions, horizon=horizon), seed=seed)


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


def impression(run: Run) -> tuple[Any, Any]:
    """A list and its memo, from a copy of the run's state."""
    policy, problem = run.problem.policy, run.problem
    ranking = np.full(problem.positions, -1)
    memo = np.zeros(policy.algorithm.memo_size(problem.model.n_items, problem.positions))
    interpreted(policy.algorithm.rank)(deepcopy(run.state), run.rng, ranking, memo)
    return ranking, memo


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
        for i, j in np.take(run.numbering, np.argwhere(run.state.beats)):
            assert HARD[i] > HARD[j], f"seed {seed}: {i} beats {j}"
            found += 1
    assert found > 40 * 6


@given(runs("toprank"))
def test_toprank_knows_how_long_nothing_changes(run: Run) -> None:
    """Every group stays as it is for one impression less than it says; and the time it says comes to an end."""
    describe = run.problem.policy.live.describe
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
    update, rank = interpreted(policy.algorithm.update), interpreted(policy.algorithm.rank)
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


# --- UniRank ------------------------------------------------------------------------------------------------


@given(runs("unirank"))
def test_unirank_leader_is_that_of_the_clicks(run: Run) -> None:
    """Whatever was kept from step to step: the leader is a partition, and the one that a fresh start would find."""
    n_items, positions = run.problem.model.n_items, run.problem.positions
    for _ in range(20):
        run.advance(25)
        state = run.state
        twin = UniRank(n_items, positions, horizon=1000)
        twin.total = Counter({(i, j): int(n) for (i, j), n in np.ndenumerate(state.wins - state.wins.T)})
        twin.n = Counter({(i, j): int(n) for (i, j), n in np.ndenumerate(state.wins + state.wins.T)})
        parts, below = twin.leader()
        assert state.items.tolist() == [item for part in [*parts, below] for item in part]
        assert (state.part[below] == BELOW).all()
        place = 0
        for part in parts:
            assert (state.part[part] == place).all()
            place += len(part)
            assert (state.end[place - len(part) : place] == place).all()
        assert place >= positions


@given(runs("unirank"))
def test_unirank_plays_the_leader_or_a_partition_a_step_away(run: Run) -> None:
    for _ in range(10):
        run.advance(23)
        leader = run.state.part
        parts = [set(np.flatnonzero(leader == first).tolist()) for first in sorted(set(leader) - {BELOW})]
        below = np.flatnonzero(leader == BELOW).tolist()
        allowed = [parts, *([*parts[:-1], parts[-1] | {item}] for item in below)]
        allowed += [[*parts[:c], parts[c] | parts[c + 1], *parts[c + 2 :]] for c in range(len(parts) - 1)]
        ranking, memo = impression(run)
        played = [set(np.flatnonzero(memo == first).tolist()) for first in sorted(set(memo) - {BELOW})]
        assert played in allowed
        place = 0
        for part in played:
            assert set(ranking[place : place + len(part)].tolist()) <= part
            place += len(part)


def test_unirank_never_misses_a_bound() -> None:
    """The tangents, which spare computing, are above the bounds for every budget."""
    run = start("unirank", HARD, 3)
    checked = 0
    for _ in range(40):
        run.advance(50)
        state = run.state
        for i, j in np.argwhere(state.slope > 0):
            for budget in (0.1, 3.0, 10.0, 30.0):
                n = state.wins[i, j] + state.wins[j, i]
                true = kl_upper(state.wins[i, j] / n, n, budget)
                assert state.level[i, j] + state.slope[i, j] * budget >= true - 1e-12
                checked += 1
    assert checked > 1000


@pytest.mark.parametrize("model", ["CM", "PBM"])
def test_unirank_loses_nothing_by_its_small_table(model: str) -> None:
    """Items so close that many lead, and some evict others: with room for all of them the regret is the same."""
    close = [0.3 + 0.01 * i for i in range(10)]
    regret = {}
    for slots in (256, 1 << 16):
        found = []
        for seed in range(100):
            run = start("unirank", close, 5, seed=seed, model=model)
            run.state = run.state._replace(keys=np.full(slots, -1), times=np.zeros(slots, np.int64))
            found.append(run.advance(10_000)[0])
        assert (run.state.keys != -1).sum() > 40
        regret[slots] = np.array(found)
    error = math.sqrt(regret[256].var() + regret[1 << 16].var()) / 10
    assert abs(regret[256].mean() - regret[1 << 16].mean()) < 3 * error < 0.2 * regret[256].mean()


# --- GRAB ---------------------------------------------------------------------------------------------------


def solved(value: Any) -> tuple[Any, Any, float]:
    """The kernels' best assignment, the position of each item, and what the best exchange would gain."""
    n_items, n_positions = value.shape
    items, position = np.full(n_positions, -1), np.full(n_items, -1)
    interpreted(assign)(value, items, position, np.zeros((3, n_items)), np.zeros((2, n_items), np.int64))
    gain = interpreted(best_exchange)(value, items, position, np.zeros((n_positions + 1, n_positions + 1)))
    return items, position, gain


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10_000), st.sampled_from([3, 1000]))
def test_the_best_and_the_second_best_assignment(n_positions: int, more: int, seed: int, levels: int) -> None:
    """Against all assignments, with few levels also where several are the best."""
    n_items = min(n_positions + more - 1, 7)
    value = (
        np.random.default_rng(seed).integers(-1, levels, (max(n_items, n_positions), n_positions)) / levels
    )
    n_items = len(value)
    every = sorted(
        sum(value[item, k] for k, item in enumerate(items))
        for items in permutations(range(n_items), n_positions)
    )
    items, position, gain = solved(value)
    assert len(set(items)) == n_positions
    assert all(position[item] == k for k, item in enumerate(items))
    assert (position == -1).sum() == n_items - n_positions
    assert value[items, range(n_positions)].sum() == pytest.approx(every[-1])
    second = every[-2] - every[-1] if len(every) > 1 else -math.inf
    assert gain == pytest.approx(second, abs=1e-12)


@pytest.mark.parametrize(("n_items", "n_positions"), [(200, 20), (50, 50), (1000, 1)])
def test_the_best_of_many_assignments(n_items: int, n_positions: int) -> None:
    value = np.random.default_rng(1).random((n_items, n_positions)) ** 3
    items, _, gain = solved(value)
    rows, columns = linear_sum_assignment(value, maximize=True)
    assert value[items, range(n_positions)].sum() == pytest.approx(value[rows, columns].sum())
    assert gain < 0


@given(runs("grab"))
def test_grab_leader_is_the_best_assignment_at_every_step(run: Run) -> None:
    """However little of it is computed anew."""
    for _ in range(200):
        run.advance(1)
        value, leader = run.state.value, run.state.leader
        rows, columns = linear_sum_assignment(value, maximize=True)
        assert value[leader, range(len(leader))].sum() >= value[rows, columns].sum() - 1e-13
        assert run.state.mean == pytest.approx(run.state.clicks / np.maximum(run.state.shown, 1))


@pytest.mark.parametrize(("n_items", "n_positions"), [(1, 1), (5, 5), (7, 3), (40, 12)])
def test_grab_starts_with_the_leader_of_equal_means(n_items: int, n_positions: int) -> None:
    state = parse_policy("grab").start(n_items, n_positions, horizon=1000)
    found = deepcopy(state)
    for array in (found.position, found.leader, found.key):
        array[:] = -7
    interpreted(find_leader)(found)
    for name in ("leader", "position", "key", "highest"):
        assert getattr(found, name).tolist() == getattr(state, name).tolist(), name
    assert state.leader.tolist() == list(range(n_positions))


@given(runs("grab"))
def test_grab_plays_the_leader_or_a_neighbour(run: Run) -> None:
    n_items, positions = run.problem.model.n_items, run.problem.positions
    for _ in range(10):
        run.advance(7)
        twin = GRAB(n_items, positions, horizon=1000)
        twin.clicks[:], twin.shown[:] = run.state.clicks, run.state.shown
        leader = run.state.leader.tolist()
        neighbours = twin.neighbours(leader)
        assert len({tuple(neighbour) for neighbour in neighbours}) == n_items - 1
        ranking, _ = impression(run)
        assert ranking.tolist() in [leader, *neighbours]


# --- BubbleRank ---------------------------------------------------------------------------------------------


def inverted(ranking: list[int], attraction: list[float]) -> int:
    """Pairs of which the worse item stands above the better one."""
    return sum(attraction[i] < attraction[j] for i, j in combinations(ranking, 2))


@pytest.mark.parametrize("model", ["CM", "PBM"])
@pytest.mark.parametrize("base", ["", "5/4/3/2/1/0", "4/0/2/1/3/5"])
def test_bubblerank_is_safe(model: str, base: str) -> None:
    """Where all items are shown no list has more than K / 2 inverted pairs more than the base list."""
    fell = 0
    for seed in range(4):
        settings = f"power=1,base={base}" if base else "power=1"
        size: dict[str, Any] = {"horizon": 3000, "recorded": 3000}
        run = start(f"bubblerank:{settings}", HARD, 6, seed=seed, model=model, **size)
        before = learned = inverted(run.best(), HARD)
        for _ in range(300):
            run.advance(10)
            now = inverted(run.best(), HARD)
            assert now <= learned, "what was learned got worse"
            learned = now
        for shown in np.unique(run.problem.model.shown, axis=0):
            assert inverted(np.take(run.numbering, shown).tolist(), HARD) <= before + 3
        fell += learned < before
    assert fell >= (0 if base == "4/0/2/1/3/5" else 2)


@given(runs("bubblerank:power=0.3"))
def test_bubblerank_changes_few_pairs_at_a_time(run: Run) -> None:
    """Neighbours of the list learned so far, each at most once, and at most the last item for one that is not shown."""
    n_items, positions = run.problem.model.n_items, run.problem.positions
    for _ in range(30):
        run.advance(11)
        known = run.best()
        shown = np.take(run.numbering, impression(run)[0]).tolist()
        if shown[-1] not in known:
            known[-1] = shown[-1]
        moved = [k for k in range(positions) if shown[k] != known[k]]
        assert len(moved) % 2 == 0
        for k, other in zip(moved[::2], moved[1::2], strict=True):
            assert other == k + 1
            assert [shown[k], shown[other]] == [known[other], known[k]]
        exchanged = len(moved) // 2 + (shown[-1] not in run.best())
        assert exchanged <= (positions // 2 if n_items == positions else (positions + 1) // 2)


@pytest.mark.parametrize("model", ["CM", "PBM"])
@pytest.mark.parametrize("positions", [1, 2, 3])
def test_bubblerank_finds_the_best_items_wherever_they_stand(model: str, positions: int) -> None:
    """Also those that no neighbour of the list has in sight."""
    attraction = [0.05, 0.1, 0.15, 0.2, 0.25, 0.8, 0.5, 0.65]
    run = start("bubblerank:power=1", attraction, positions, model=model, horizon=60_000)
    run.advance(60_000)
    assert run.best() == [5, 7, 6][:positions]


@pytest.mark.parametrize("base", ["0/1/9", "a", "0/1/1", "1//0", "-1"])
def test_bubblerank_refuses_a_base_list_that_is_none(base: str) -> None:
    with pytest.raises(InputError, match="bubblerank: base must"):
        parse_policy(f"bubblerank:base={base}").start(4, 2, horizon=100)


@pytest.mark.parametrize("power", ["0", "-1", "inf", "nan", "x"])
def test_bubblerank_refuses_a_power_that_is_none(power: str) -> None:
    with pytest.raises(InputError, match="power must be"):
        parse_policy(f"bubblerank:power={power}")
