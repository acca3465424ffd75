"""CascadeKL-UCB: shows the items with the highest upper confidence bounds on their attraction, highest first.

It believes in the cascade model: the user goes down the list to the first attractive item, clicks it and leaves,
so the items down to there were examined and the others tell nothing. In that model its regret is near the best
possible; in others it has no guarantee, and may settle on a list that is not the best.

Kveton, Szepesvári, Wen, Ashkan: Cascading Bandits (ICML 2015), Algorithm 1 with KL bounds.

Draws of `rank`: at each of the first L steps a shuffle of the items behind the one in front; later only where
items have the same bound, a shuffle of those.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from clickbandit.bounds import kl_upper, newton_upper
from clickbandit.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.policies._base import Policy
from clickbandit.policies._common import draw_index, sort_by_decreasing

# --- settings and state -------------------------------------------------------------------------------------

TIE = 1e-12
"""Bounds that are nearer than this are the same, and differ only by rounding."""
FIRST, LAST, FULL = 0, 1, 2


class State(NamedTuple):
    """What was observed of each item, and what that says of its bound.

    The bound of an item is computed only when it could change the list. Until then it is known to lie between
    `low` and `high + slope * (budget - at_budget)`: it is concave in the budget; a look without a click lowers it,
    by no more than the share of n in n + 1 (the KL scaling lemma of Zoghi et al. 2017); a click raises it.
    """

    observed: IntArray
    clicks: IntArray
    low: FloatArray
    high: FloatArray
    slope: FloatArray
    at_budget: FloatArray
    order: IntArray
    """All items, those shown last in front."""
    step: IntArray
    """How many lists were made, t."""
    feedback: int
    iterated: float
    """How many times log log t is part of the budget."""


def init(
    n_items: int,
    n_positions: int,
    *,
    horizon: int,
    feedback: str = "first",
    budget: str = "log t + 3 log log t",
) -> State:
    return State(
        observed=np.zeros(n_items, np.int64),
        clicks=np.zeros(n_items, np.int64),
        low=np.zeros(n_items),
        high=np.ones(n_items),
        slope=np.zeros(n_items),
        at_budget=np.full(n_items, -1.0),
        order=np.arange(n_items),
        step=np.zeros(1, np.int64),
        feedback={"first": FIRST, "last": LAST, "full": FULL}[feedback],
        iterated=0.0 if budget == "log t" else 3.0,
    )


def memo_size(n_items: int, n_positions: int) -> int:
    return 0


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    state.step[0] += 1
    n_items, n_positions = len(state.order), len(ranking)
    if state.step[0] <= n_items:
        put_in_front(state, state.step[0] - 1, rng, n_positions)
    else:
        log_step = math.log(state.step[0])
        budget = max(0.0, log_step + state.iterated * math.log(log_step))
        if highest_first(state, budget, n_positions):
            break_ties(state, budget, rng, n_positions)
    for k in range(n_positions):
        ranking[k] = state.order[k]


@slow_path
def put_in_front(state: State, item: int, rng: np.random.Generator, n_positions: int) -> None:
    """One item first, random others behind it."""
    order = state.order
    for i in range(len(order)):
        order[i] = i
    order[0], order[item] = order[item], order[0]
    for k in range(1, n_positions):
        other = k + draw_index(rng, len(order) - k)
        order[k], order[other] = order[other], order[k]


@kernel
def highest_first(state: State, budget: float, n_positions: int) -> bool:
    """Bring the items with the highest bounds to the front, highest first; whether there was a tie.

    An insertion sort from the last list's order, which is nearly right already.
    """
    order = state.order
    tie = False
    for i in range(1, len(order)):
        item = order[i]
        k = i
        if i >= n_positions:
            k = n_positions - 1
            outcome = compare(state, item, order[k], budget)
            tie = tie or outcome == 0
            if outcome <= 0:
                continue
            order[i] = order[k]
        while k > 0:
            outcome = compare(state, item, order[k - 1], budget)
            tie = tie or outcome == 0
            if outcome <= 0:
                break
            order[k] = order[k - 1]
            k -= 1
        order[k] = item
    return tie


@kernel
def compare(state: State, item: int, other: int, budget: float) -> int:
    """1 if the item has the higher bound, -1 if the lower, 0 if they are the same."""
    high = state.high[item] + state.slope[item] * (budget - state.at_budget[item])
    other_high = state.high[other] + state.slope[other] * (budget - state.at_budget[other])
    if state.low[other] > high + TIE:
        return -1
    if state.low[item] > other_high + TIE:
        return 1
    compute_bound(state, item, budget)
    compute_bound(state, other, budget)
    difference = state.low[item] - state.low[other]
    return 0 if abs(difference) <= TIE else (1 if difference > 0 else -1)


@slow_path
def compute_bound(state: State, item: int, budget: float) -> None:
    """Compute an item's bound for this budget, from what was known of it."""
    if state.at_budget[item] == budget and state.low[item] == state.high[item]:
        return
    n = state.observed[item]
    share = state.clicks[item] / max(n, 1)
    last = state.low[item] if state.high[item] == 1 else state.high[item]
    bound = 1.0
    if 0 < share < last < 1:
        bound = newton_upper(share, budget / n, last)
    if bound == 1:  # there was no last bound, or it was too far off for Newton's method
        bound = kl_upper(share, n, budget)
    state.low[item] = bound
    state.high[item] = bound
    state.slope[item] = bound * (1 - bound) / (n * (bound - share)) if bound > share and n > 0 else 0.0
    state.at_budget[item] = budget


@slow_path
def break_ties(state: State, budget: float, rng: np.random.Generator, n_positions: int) -> None:
    """Sort all items, and shuffle those with the same bound as far as they are shown."""
    order = state.order
    for item in range(len(order)):
        compute_bound(state, item, budget)
    sort_by_decreasing(state.low, order, TIE)
    start = 0
    while start < n_positions:
        end = start + 1
        while end < len(order) and state.low[order[end - 1]] - state.low[order[end]] <= TIE:
            end += 1
        for k in range(start, min(end - 1, n_positions)):
            other = k + draw_index(rng, end - k)
            order[k], order[other] = order[other], order[k]
        start = end


def best(state: State, ranking: IntArray) -> None:
    """The items with the highest shares of clicks."""
    share = state.clicks / np.maximum(state.observed, 1)
    ranking[:] = np.argsort(-share, kind="stable")[: len(ranking)]


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    for k in range(examined(clicks, state.feedback)):
        item = ranking[k]
        state.observed[item] += 1
        if clicks[k]:
            state.clicks[item] += 1
            state.high[item] = 1.0
            state.slope[item] = 0.0
        else:
            state.low[item] *= (state.observed[item] - 1) / state.observed[item]


@kernel
def examined(clicks: IntArray, feedback: int) -> int:
    """How many positions count as examined: down to the first or the last click, all without one."""
    if feedback == FIRST:
        for k in range(len(clicks)):
            if clicks[k]:
                return k + 1
    if feedback == LAST:
        for k in range(len(clicks) - 1, -1, -1):
            if clicks[k]:
                return k + 1
    return len(clicks)


@dataclass(frozen=True)
class CascadeKLUCB(Policy):
    """Cascading bandits with KL bounds.

    >>> str(CascadeKLUCB(feedback="last"))
    'cascade-kl-ucb:feedback=last'
    """

    paper = "Kveton et al. 2015"

    feedback: Literal["first", "last", "full"] = "first"
    """Which positions are learned from: down to the first click, as in the cascade model; down to the last, as in
    the paper's runs with the position-based model; or all."""
    budget: Literal["log t + 3 log log t", "log t"] = "log t + 3 log log t"
    """The budget of the bounds: as in the algorithm's paper, or as in the runs of Zoghi et al. 2017."""
