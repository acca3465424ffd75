"""CascadeUCB1: shows the items with the highest UCB1 indices, highest first.

It believes in the cascade model: the user goes down the list to the first attractive item, clicks it and leaves,
so the items down to there were examined and the others tell nothing. An item's index is its share of clicks plus
sqrt(1.5 log t / n) for n observations. Its regret in that model is O((L - K) / gap log T): the order of
CascadeKL-UCB's, but far more of it where attraction is low, since the index is blind to how near a share is to 0.

Kveton, Szepesvári, Wen, Ashkan: Cascading Bandits (ICML 2015), Algorithm 1 with UCB1 and Theorem 2.

Draws of `rank`: see `cascading`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel
from clickbandit.policies import cascading
from clickbandit.policies.cascading import CascadingPolicy, State, look_first, put_highest, shares
from clickbandit.policies.contract import Algorithm, Live, Margins, no_memo


def init(n_items: int, n_positions: int, *, horizon: int, feedback: str = "first") -> State:
    return cascading.start(n_items, feedback)


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    if look_first(state, rng, ranking):
        return
    log_step = math.log(state.step[0])
    for item in range(len(state.value)):
        n = state.observed[item]
        state.value[item] = state.clicks[item] / n + radius(n, log_step) if n > 0 else math.inf
    put_highest(state.value, state.order, rng, ranking)


@kernel
def radius(n: float, log_step: float) -> float:
    """How far the index is above the share of clicks."""
    return math.sqrt(1.5 * log_step / n)


@kernel
def budget(state: State, steps: int) -> float:
    return math.log(state.step[0] + steps)


@kernel
def span(
    state: State, place: int, looks: float, clicks: float, budget: float, later: float
) -> tuple[float, float]:
    item = state.order[place]
    n = state.observed[item]
    if n == 0:
        return -math.inf, math.inf
    low, high = shares(state.clicks[item], n, looks, clicks)
    return low + radius(n + looks, budget), high + radius(n, later)


def describe(state: State) -> dict[str, Any]:
    log_step = math.log(state.step[0] + 1)
    return cascading.describe_around(state, lambda share, n: interpreted(radius)(n, log_step))


@dataclass(frozen=True)
class CascadeUCB1(CascadingPolicy):
    """Cascading bandits with UCB1 indices.

    >>> str(CascadeUCB1(feedback="last"))
    'cascade-ucb1:feedback=last'
    """

    paper = "Kveton et al. 2015"
    title = "CascadeUCB1"
    colour = "lilac"
    algorithm = Algorithm(init, no_memo, rank, cascading.update, cascading.best, prime=cascading.prime)
    leaps = Margins(budget, span, cascading.looked_at, cascading.absorb)
    live = Live(
        propensity=cascading.propensity,
        describe=describe,
        admit=cascading.admit,
        retire=cascading.retire,
        possible=cascading.possible,
    )
