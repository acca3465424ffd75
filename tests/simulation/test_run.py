"""Runs: saved and continued bit for bit, seeds of their own, delayed feedback, windows."""

import io
import sys
from collections import namedtuple
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from clickbandit import (
    Algorithm,
    BatchRank,
    CascadeKLUCB,
    CascadeModel,
    InputError,
    MixtureModel,
    Policy,
    PositionBasedModel,
    Problem,
    RankedExp3,
    Run,
    simulate,
)
from clickbandit.policies.base import parse_policy, policy_names
from clickbandit.simulation.memory import Pattern
from naive.recorded import Recorded

PBM = PositionBasedModel(attraction=[0.9, 0.6, 0.5, 0.3, 0.2, 0.1], examination=[1, 0.6, 0.3])
CM = CascadeModel(attraction=[0.5, 0.4, 0.3, 0.2, 0.1, 0.05])


@pytest.mark.parametrize("name", policy_names())
@pytest.mark.parametrize("delay", [0, 3])
def test_a_saved_run_continues_bit_for_bit(name, delay):
    problem = Problem(
        parse_policy(name), Recorded(PBM), positions=3, horizon=6000, delay=delay, method="step"
    )
    whole = Run(problem, seed=7)
    whole.advance(3000)
    expected = whole.advance(3000)

    half = Run(problem, seed=7)
    half.advance(3000)
    file = io.BytesIO()
    np.savez(file, **half.snapshot())
    half.advance(500)  # what happens after the snapshot does not matter
    file.seek(0)
    resumed = Run(problem, seed=7).restore(np.load(file))

    assert resumed.step == 3000
    assert resumed.advance(3000) == expected
    for name, value in whole.snapshot().items():
        np.testing.assert_array_equal(resumed.snapshot()[name], value, err_msg=name)


@pytest.mark.parametrize("policy", [*policy_names(), "batchrank:variant=experiment"])
def test_without_a_delay_both_loops_are_the_same(policy):
    """List for list, as plain Python: other tests may then use either."""
    late, prompt = (
        Run(Problem(policy, users, positions=3, horizon=20, method="step"), seed=2)
        for users in (Recorded(PBM, 400, positions=3), PBM)
    )
    shown = []
    for run in (late, prompt):
        run.loop = run.problem.make_loop(compiled=False)
    for _ in range(400):
        assert prompt.advance(1) == pytest.approx(late.advance(1), abs=1e-12)
        shown.append(prompt.slots.rankings[0].tolist())
    assert shown == late.problem.model.shown.tolist()
    names = [run.loop.interact.__globals__["take_steps"].__module__ for run in (late, prompt)]
    assert names == ["clickbandit.simulation.delayed", "clickbandit.simulation.loop"]


def test_a_snapshot_of_another_run_is_refused():
    problem = Problem(BatchRank(), PBM, positions=3, horizon=1000)
    snapshot = Run(problem, seed=1).snapshot()
    with pytest.raises(InputError, match="another run"):
        Run(problem, seed=2).restore(snapshot)


def test_pieces_are_the_whole():
    problem = Problem(CascadeKLUCB(), CM, positions=2, horizon=1000)
    whole, pieces = Run(problem, seed=3), Run(problem, seed=3)
    regret, clicks = whole.advance(1000)
    parts = [pieces.advance(size) for size in (1, 99, 400, 500)]
    assert sum(part[1] for part in parts) == clicks
    assert sum(part[0] for part in parts) == pytest.approx(regret, rel=1e-12)


def test_every_run_has_its_own_stream():
    both = simulate(RankedExp3(), CM, positions=2, steps=500, runs=3, seed=1, threads=2)
    alone = simulate(RankedExp3(), CM, positions=2, steps=500, runs=1, seed=1, threads=1)
    np.testing.assert_array_equal(both.regret[0], alone.regret[0])
    assert len({tuple(row) for row in both.clicks}) == 3
    for other in ({"seed": 2}, {"query": "other"}):
        trace = simulate(RankedExp3(), CM, positions=2, steps=500, **{"seed": 1, **other})
        assert not np.array_equal(trace.regret[0], alone.regret[0])


def test_the_seed_does_not_depend_on_how_python_hashes():
    """A number from another process and day: it changes only if the streams do."""
    trace = simulate("random", CM, positions=2, steps=1000, seed=1, query="shoes")
    assert trace.clicks.sum() * 10 == pytest.approx(468)


def test_the_spelling_of_a_policy_is_part_of_its_seed_but_not_how_it_was_given():
    given = simulate("cascade-kl-ucb:feedback=first", CM, positions=2, steps=300, seed=1)
    same = simulate(CascadeKLUCB(), CM, positions=2, steps=300, seed=1)
    assert (given.policy, same.policy) == ("cascade-kl-ucb:feedback=first", "cascade-kl-ucb")
    np.testing.assert_array_equal(given.regret, same.regret)


@pytest.mark.parametrize(("steps", "windows"), [(7, 7), (100, 100), (1050, 100)])
def test_windows(steps, windows):
    trace = simulate("random", CM, positions=2, steps=steps, runs=2, seed=1)
    assert trace.regret.shape == trace.clicks.shape == (2, windows)
    assert trace.steps[-1] == steps
    assert trace.window_sizes.sum() == steps
    assert trace.window_sizes.max() - trace.window_sizes.min() <= 1


State = namedtuple("State", ["step"])
CALLS: list[tuple[str, int]] = []


def rank(state, rng, ranking, memo):
    state.step[0] += 1
    ranking[:] = np.arange(len(ranking))
    memo[0] = state.step[0]
    CALLS.append(("rank", int(state.step[0])))


def update(state, ranking, clicks, memo):
    CALLS.append(("update", int(memo[0])))


def best(state, ranking):
    ranking[:] = np.arange(len(ranking))


class Recorder(Policy):
    """A plain Python policy that notes in which order it is called."""

    algorithm = Algorithm(
        init=lambda n_items, n_positions, *, horizon: State(np.zeros(1, np.int64)),
        memo_size=lambda n_items, n_positions: 1,
        rank=rank,
        update=update,
        best=best,
    )


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_feedback_to_step_t_comes_just_before_step_t_plus_delay_plus_one(delay):
    CALLS.clear()
    Run(Problem(Recorder(), CM, positions=2, horizon=10, delay=delay), seed=1).advance(10)
    expected = []
    for t in range(1, 11):
        expected.append(("rank", t))
        if t > delay:
            expected.append(("update", t - delay))
    assert expected == CALLS


def degenerate_rank(state, rng, ranking, memo):
    rank(state, rng, ranking, memo)
    if state.step[0] > 1000:
        ranking[:] = 3


class Degenerate(Policy):
    """Shows the same item twice after its first thousand steps."""

    algorithm = replace(Recorder.algorithm, rank=degenerate_rank)


@pytest.mark.parametrize("delay", [0, 2])
def test_what_is_no_list_is_refused_later_too(delay):
    run = Run(Problem(Degenerate(), CM, positions=2, horizon=5000, delay=delay), seed=1)
    run.advance(1000)
    with pytest.raises(InputError, match=r"the list of step 1,001: expected different .*found \[3, 3\]"):
        run.advance(1)


def test_delay_beyond_the_run_gives_no_feedback():
    CALLS.clear()
    Run(Problem(Recorder(), CM, positions=2, horizon=10, delay=50), seed=1).advance(10)
    assert all(kind == "rank" for kind, _ in CALLS)


def test_expected_regret_is_that_of_the_shown_lists():
    """The optimal policy has none; the random one that of a random list."""
    assert simulate("optimal", PBM, positions=3, steps=100, seed=1).regret.max() == 0
    from itertools import permutations

    rewards = [PBM.reward(ranking) for ranking in permutations(range(6), 3)]
    random = simulate("random", PBM, positions=3, steps=100_000, seed=1).summary()
    spread = np.std(rewards) / np.sqrt(100_000)
    assert random.regret.mean / 100_000 == pytest.approx(max(rewards) - np.mean(rewards), abs=4 * spread)
    assert random.clicks.mean == pytest.approx(np.mean(rewards), abs=4 * np.sqrt(3) / np.sqrt(100_000))


def test_a_mixture_runs_compiled():
    model = MixtureModel([0.3, 0.7], [CM, PBM])
    trace = simulate(BatchRank(), model, positions=3, steps=50_000, seed=1)
    assert trace.regret[0, -1] < trace.regret[0, 0] / 2


def test_a_policy_beyond_its_horizon_goes_on_learning():
    trace = simulate(BatchRank(), PBM, positions=3, steps=100_000, horizon=1000, seed=1)
    assert trace.final_lists == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"positions": 7}, "7 positions need as many items"),
        ({"positions": 0}, "at least 1"),
        ({"steps": 4}, "at least 5 steps"),
        ({"runs": 0}, "runs must be at least 1"),
        ({"delay": -1}, "delay must be"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        simulate(BatchRank(), PBM, **{"positions": 3, "steps": 100, **arguments})


def test_too_few_examination_values():
    with pytest.raises(InputError, match="4 positions need as many values"):
        simulate(BatchRank(), PBM, positions=4, steps=100)


@pytest.mark.parametrize("method", ["step", "leap"])
def test_going_on_leaves_no_references_behind(method):
    """numba would keep a generator for ever that it is handed without counting."""
    model = PositionBasedModel([0.9, 0.6, 0.5, 0.3], examination=[1, 0.5])
    run = Run(Problem("batchrank", model, positions=2, horizon=1000, method=method), seed=1)
    run.advance(1)
    before = sys.getrefcount(run.rng), sys.getrefcount(run.users)
    for _ in range(20):
        run.advance(1)
    assert (sys.getrefcount(run.rng), sys.getrefcount(run.users)) == before


def test_a_run_lies_apart_in_memory():
    """Threads that write to the same line of the cache slow each other down."""
    run = Run(Problem(BatchRank(), CM, positions=2, horizon=1000), seed=1)
    arrays = [value for value in (*run.slots, *run.state) if isinstance(value, np.ndarray)]
    (memory,) = {id(array.base): array.base for array in arrays}.values()
    starts = [array.ctypes.data for array in arrays]
    ends = [array.ctypes.data + array.nbytes for array in arrays]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    assert starts[0] - memory.ctypes.data >= 128
    assert memory.ctypes.data + memory.nbytes - ends[-1] >= 128


@pytest.mark.parametrize("name", ["batchrank", "cascade-kl-ucb", "ranked-exp3", "click-ts"])
def test_a_run_leaves_nothing_to_the_next(name):
    """Runs of a problem start from copies of the same arrays, and leap with the same scratch."""
    problem = Problem(name, CM, positions=2, horizon=2_000_000)
    ends = np.array([10, 20_000])
    first, second = Run(problem, seed=1), Run(problem, seed=1, run=1)
    second.advance_windows(ends)
    regret, clicks = first.advance_windows(ends)
    assert len(problem.spare_scratch) == problem.leaps
    alone = Run(Problem(name, CM, positions=2, horizon=2_000_000), seed=1)
    assert [*map(list, alone.advance_windows(ends))] == [list(regret), list(clicks)]
    for state in zip(first.state, alone.state, strict=True):
        np.testing.assert_array_equal(*state)


class Arrays(NamedTuple):
    whole: np.ndarray
    other: np.ndarray
    number: int = 7


def test_arrays_that_share_memory_go_on_sharing_it():
    whole = np.arange(4)
    (shared,) = Pattern(Arrays(whole, whole[1:])).copies()
    shared.other[0] = 9
    assert shared.whole.tolist() == [0, 9, 2, 3]


@pytest.mark.parametrize(
    "other", [np.arange(4).reshape(2, 2), np.zeros((2, 0)), np.array(3.5), np.array([True])]
)
def test_arrays_are_the_same_elsewhere(other):
    before = Arrays(np.arange(3), other)
    first, second = Pattern(before, before._replace(whole=np.ones(1), other=np.zeros(2))).copies()
    assert not np.shares_memory(first.whole, before.whole)
    assert (first.whole.tolist(), first.other.tolist(), first.number) == ([0, 1, 2], other.tolist(), 7)
    assert (second.whole.tolist(), second.other.tolist()) == ([1.0], [0.0, 0.0])
    assert first.other.dtype == other.dtype
    assert first.other.shape == other.shape
    assert first.other.flags.aligned
    assert first.other.flags.c_contiguous
