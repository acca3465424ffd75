"""Any policy within a budget, step by step: a template that `compiling.specialise` specialises (see `budget`).

The last entry of the memo says what a list is: the policy's own where it is the given order, one that explores, or the
given order in place of one that did not fit the budget.
"""

import math
from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.policies.contract import ignore  # policy
from clickbandit.policies.random import propensity, rank, update  # policy

ANY_LIST = False  # policy
OWN, EXPLORING, INSTEAD = 0.0, 1.0, 2.0
GIVEN_LISTS, GIVEN_CLICKS, GIVEN_SQUARES, LISTS, CLICKS, SQUARES, WAITING = range(7)
"""What is tallied: of the given order and then of lists that explore how many were learned from, their clicks, and the
sum of the squares of these; and exploring lists of which nothing is known yet."""
MIXED = 30.0
"""rho: the variance by which sums are mixed; sequences are tightest some eight times beyond it."""
ROUNDING = 1e-9
EARNED_LEVEL, GIVEN_LEVEL = 0.05, 0.025
"""What is earned must hold on one side and the given order's clicks on both, each with half of 0.05."""


@kernel
def rank_within(state: Any, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    last = len(memo) - 1
    rank(state, rng, ranking, memo[:last])
    memo[last] = OWN
    if is_given(state, ranking):
        return
    if may_explore(state):
        memo[last] = EXPLORING
        state.tally[WAITING] += 1
    else:
        ignore(state, ranking, memo[:last])
        memo[last] = INSTEAD
        for k in range(len(ranking)):
            ranking[k] = state.given_order[k]


@kernel
def is_given(state: Any, ranking: IntArray) -> bool:
    """Whether a list is the given order."""
    differing = 0
    for k in range(len(ranking)):
        differing += ranking[k] != state.given_order[k]
    return differing == 0


@slow_path
def may_explore(state: Any) -> bool:
    """Whether one more list that explores, with no click on it, would surely leave what must be earned."""
    tally = state.tally
    n = tally[GIVEN_LISTS]
    if n == 0:
        return False
    earned = max(0.0, tally[CLICKS] - reach(tally[LISTS], tally[CLICKS], tally[SQUARES], EARNED_LEVEL))
    exploring = tally[LISTS] + tally[WAITING] + 1
    owed = (1 - state.max_loss) * exploring - state.max_loss * n  # in lists of the given order
    around = reach(n, tally[GIVEN_CLICKS], tally[GIVEN_SQUARES], GIVEN_LEVEL)
    clicks = tally[GIVEN_CLICKS] + (around if owed > 0 else -around)
    return bool(earned >= owed * max(0.0, clicks) / n - ROUNDING)


@kernel
def reach(n: float, clicks: float, squares: float, level: float) -> float:
    """How far the sum of n terms may be from that of their means, at all times at once, but for a chance of `level`.

    The normal mixture of `clickbandit.intervals`, for a sum with the variance that was found, at least 1.
    """
    variance = max(1.0, squares - clicks * clicks / max(n, 1.0))
    grown = (variance + MIXED) / MIXED
    return math.sqrt((variance + MIXED) * (math.log(grown) - 2 * math.log(level)))


@kernel
def propensity_within(state: Any, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    last = len(memo) - 1
    if memo[last] == INSTEAD:
        for k in range(len(out)):
            out[k] = 1.0
    else:
        propensity(state, ranking, memo[:last], out)


@kernel
def update_within(state: Any, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    last = len(memo) - 1
    kind = memo[last]
    first = LISTS if kind == EXPLORING else GIVEN_LISTS
    n_clicks = 0
    for k in range(len(clicks)):
        n_clicks += clicks[k]
    state.tally[first] += 1
    state.tally[first + 1] += n_clicks
    state.tally[first + 2] += n_clicks * n_clicks
    if kind == EXPLORING:
        state.tally[WAITING] -= 1
    if kind != INSTEAD or ANY_LIST:
        update(state, ranking, clicks, memo[:last])


@kernel
def void_within(state: Any, ranking: IntArray, memo: FloatArray) -> None:
    last = len(memo) - 1
    if memo[last] == EXPLORING:
        state.tally[WAITING] -= 1
    if memo[last] != INSTEAD:
        ignore(state, ranking, memo[:last])
