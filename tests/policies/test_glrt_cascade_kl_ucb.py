"""GLRT-CascadeKL-UCB finds changes soon, and none where there is none."""

import numpy as np
import pytest

from clickbandit.compiling.kernel import interpreted
from clickbandit.policies.base import parse_policy
from naive.cascading import GLRTCascadeKLUCB


def restarts_of(attractions: list[float], seed: int, n: int = 2000) -> list[int]:
    """At which observations of a single item GLRT-CascadeKL-UCB starts afresh, if so many have each attraction."""
    settings = parse_policy("glrt-cascade-kl-ucb")
    state = settings.start(1, 1, horizon=10_000)
    update = interpreted(settings.algorithm.update)
    users, found = np.random.default_rng(seed), []
    for step in range(n * len(attractions)):
        before = state.restarts[0]
        clicks = (users.random(1) < attractions[step // n]).astype(np.int64)
        update(state, np.zeros(1, np.int64), clicks, np.array([float(before)]))
        if state.restarts[0] > before:
            found.append(step + 1)
            assert (state.step[0], state.observed[0], state.clicks[0]) == (0, 0, 0)
            assert (state.filled.sum(), state.recent[0]) == (0, 0)
    return found


@pytest.mark.parametrize(
    ("attractions", "within"), [([0.1, 0.5], 100), ([0.5, 0.3], 700), ([0.02, 0.1], 500)]
)
def test_a_change_is_found_soon_and_once(attractions: list[float], within: int) -> None:
    for seed in range(3):
        (found,) = restarts_of(attractions, seed)
        assert 2000 < found < 2000 + within
        assert found % 16 == 0


def test_no_change_is_found_where_there_is_none() -> None:
    assert not any(restarts_of([0.3], seed, 4000) for seed in range(4))


def test_feedback_of_before_a_restart_is_ignored() -> None:
    settings = parse_policy("glrt-cascade-kl-ucb")
    state = settings.start(3, 2, horizon=1000)
    state.restarts[0] = 2
    interpreted(settings.algorithm.update)(state, np.array([0, 1]), np.array([0, 1]), np.array([1.0]))
    assert state.observed.sum() == 0


def test_blocks_grow_with_their_age() -> None:
    """As in the twin: at most four of a size, and everything is in one of them."""
    settings = parse_policy("glrt-cascade-kl-ucb")
    state, twin = settings.start(1, 1, horizon=10_000), GLRTCascadeKLUCB(1, 1, horizon=10_000)
    users = np.random.default_rng(1)
    for _ in range(1600):
        clicks = (users.random(1) < 0.3).astype(np.int64)
        interpreted(settings.algorithm.update)(state, np.zeros(1, np.int64), clicks, np.zeros(1))
        twin.update([0], clicks.tolist(), 0)
    found = [
        (16 * 2**size, state.blocks[size, i, 0])
        for size in reversed(range(32))
        for i in range(state.filled[size, 0])
    ]
    assert found == twin.blocks[0]
    assert sum(length for length, _ in found) == 1600
