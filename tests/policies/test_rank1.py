"""Rank1Elim: the lines that are left, its stages, and the pair that it finds."""

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.compiling.kernel import interpreted
from clickbandit.experiments.simulate import simulate
from clickbandit.policies import rank1
from clickbandit.policies.base import parse_policy
from naive.common import interval
from naive.recorded import Recorded


def lines(state: Any) -> tuple[list[int], list[int]]:
    """The rows and the columns that are left."""
    n_items = len(state.order)
    left = [line for line, other in enumerate(state.stands_in) if line == other]
    return [line for line in left if line < n_items], [line - n_items for line in left if line >= n_items]


def check_lines(state: Any) -> None:
    """Every line stands for one of its own kind that is left; all that are left are issued alike, up to a round."""
    n_items = len(state.order)
    for line, other in enumerate(state.stands_in):
        assert state.stands_in[other] == other
        assert (line < n_items) == (other < n_items)
    left = state.stands_in == np.arange(len(state.stands_in))
    assert (state.observed <= state.issued).all()
    assert (state.issued[left] <= state.needed[0]).all()
    assert left[state.leaders[0]]
    assert left[n_items + state.leaders[1]]
    if state.missing[0] < rank1.NEVER:
        assert state.missing[0] == (state.needed[0] - state.observed[left]).sum() > 0
    else:
        assert left.sum() == 2


@settings(max_examples=60)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.lists(st.floats(0.01, 1), min_size=1, max_size=4),
    st.booleans(),
    st.integers(5, 10**9),
)
def test_the_best_pair_is_never_eliminated_under_exact_means(
    attraction: list[float], examination: list[float], hoeffding: bool, horizon: int
) -> None:
    """Observations with the exact means, however the columns were drawn: the best row and column stay."""
    n_items, n_positions = len(attraction), len(examination)
    assume(n_positions <= n_items)
    u, v = np.array(attraction), np.array(examination)
    state = rank1.start(n_items, n_positions, name="x", horizon=horizon, factor=4.0, hoeffding=hoeffding)
    state = state._replace(clicks=np.zeros(n_items + n_positions))
    for _ in range(8):
        before = lines(state)
        if state.missing[0] >= rank1.NEVER:
            break
        mapped_v, mapped_u = v[state.stands_in[n_items:] - n_items], u[state.stands_in[:n_items]]
        new = state.needed[0] - state.round[0]
        for row in before[0]:
            state.clicks[row] += new * u[row] * mapped_v.mean()
        for column in before[1]:
            state.clicks[n_items + column] += new * v[column] * mapped_u.mean()
        live = state.stands_in == np.arange(n_items + n_positions)
        state.observed[live] = state.issued[live] = state.round[0] = state.needed[0]
        interpreted(rank1.end_stage)(state)
        check_lines(state)
        rows, columns = lines(state)
        assert set(rows) <= set(before[0])
        assert set(columns) <= set(before[1])
        assert u[rows].max() == u.max()
        assert v[columns].max() == v.max()


@settings(max_examples=60)
@given(st.data(), st.booleans())
def test_lines_stand_for_lines_that_are_left_whatever_is_clicked(data: Any, hoeffding: bool) -> None:
    """Also where the leader of one stage is eliminated in the next."""
    n_items, n_positions = 6, 3
    state = rank1.start(n_items, n_positions, name="x", horizon=5, factor=4.0, hoeffding=hoeffding)
    for _ in range(4):
        if state.missing[0] >= rank1.NEVER:
            break
        left = state.stands_in == np.arange(n_items + n_positions)
        new = int(state.needed[0] - state.round[0])
        for line in np.flatnonzero(left):
            state.clicks[line] += data.draw(st.one_of(st.just(0), st.just(new), st.integers(0, new)))
        state.observed[left] = state.issued[left] = state.round[0] = state.needed[0]
        share, n = state.clicks / np.maximum(state.observed, 1), int(state.needed[0])
        interpreted(rank1.end_stage)(state)
        check_lines(state)
        for first, end in ((0, n_items), (n_items, n_items + n_positions)):
            before = [line for line in range(first, end) if left[line]]
            kind = "hoeffding" if hoeffding else "kl"
            low, high = zip(*(interval(kind, share[line], n, state.budget) for line in before), strict=True)
            kept = [line for line, upper in zip(before, high, strict=True) if upper >= max(low)]
            assert [line for line in before if state.stands_in[line] == line] == kept


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([(1, 1), (2, 2), (4, 1), (5, 3)]), st.booleans())
def test_stages_whatever_the_feedback(seed: int, sizes: tuple[int, int], kl: bool) -> None:
    """Late, lost and void lists: lines only get fewer, and a stage ends when all it waited for is in."""
    n_items, n_positions = sizes
    policy = parse_policy("rank1elim-kl" if kl else "rank1elim")
    rank, update, void = map(
        interpreted, (policy.algorithm.rank, policy.algorithm.update, policy.algorithm.void)
    )
    state = policy.start(n_items, n_positions, horizon=5)
    rng, world = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    attraction = world.random(n_items)
    waiting = []
    before, stage = lines(state), 0
    for _ in range(600):
        ranking, memo = np.full(n_positions, -1), np.full(3, np.nan)
        rank(state, rng, ranking, memo)
        waiting.append((ranking, memo))
        while len(waiting) > world.integers(0, 10):
            ranking, memo = waiting.pop(world.integers(len(waiting)))
            if world.random() < 0.2:
                void(state, ranking, memo)
            else:
                clicks = (world.random(n_positions) < attraction[ranking]).astype(np.int64)
                update(state, ranking, clicks, memo)
                assert state.stage[0] in (stage, stage + 1)
                stage = int(state.stage[0])
            check_lines(state)
            after = lines(state)
            assert set(after[0]) <= set(before[0])
            assert set(after[1]) <= set(before[1])
            before = after
    if n_items > 1:
        assert stage >= 1


def test_feedback_of_a_stage_that_is_over_is_ignored() -> None:
    state = rank1.start(3, 2, name="x", horizon=5, factor=4.0, hoeffding=True)
    before = state.observed.copy()
    interpreted(rank1.update)(state, np.array([0, 1]), np.array([1, 1]), np.array([1.0, 0.0, 0.0]))
    interpreted(rank1.void)(state, np.array([0, 1]), np.array([1.0, 0.0, 0.0]))
    assert np.array_equal(state.observed, before)
    assert (state.issued == 0).all()


def test_the_pair_is_found_where_positions_are_in_no_order() -> None:
    model = Recorded(PositionBasedModel([0.3, 0.9, 0.2, 0.1], examination=[0.3, 0.2, 1.0]))
    for policy in ("rank1elim", "rank1elim-kl"):
        trace = simulate(policy, model, positions=3, steps=60_000, runs=3, seed=1)
        assert [ranking[2] for ranking in trace.final_lists] == [1, 1, 1]
