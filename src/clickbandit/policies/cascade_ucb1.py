"""CascadeUCB1: shows the items with the highest UCB1 indices, highest first.

It believes in the cascade model: the user goes down the list to the first attractive item, clicks it and leaves,
so the items down to there were examined and the others tell nothing. An item's index is its share of clicks plus
sqrt(1.5 log t / n) for n observations. Its regret in that model is O((L - K) / gap log T): the order of
CascadeKL-UCB's, but far more of it where attraction is low, for the index is blind to how near a share is to 0.

Kveton, Szepesvári, Wen, Ashkan: Cascading Bandits (ICML 2015), Algorithm 1 with UCB1 and Theorem 2.

Draws of `rank`: at each of the first L steps a shuffle of the items behind the one in front; later only where
items have the same index, a shuffle of those.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel
from clickbandit.policies.base import Policy
from clickbandit.policies.cascading import (
    FEEDBACK,
    Feedback,
    around,
    count,
    describe_items,
    examined,
    first_propensity,
    most_clicked,
    put_highest,
    put_in_front,
    tie_propensity,
)
from clickbandit.policies.contract import Algorithm, Live
from clickbandit.policies.items import NUMBERS, by_item

# --- settings and state -------------------------------------------------------------------------------------


class State(NamedTuple):
    """What was observed of each item."""

    observed: IntArray
    clicks: IntArray
    upper: FloatArray
    """By item: its index when the last list was made, an upper bound on its attraction."""
    order: IntArray
    """All items, those shown last in front."""
    step: IntArray
    """How many lists were made, t."""
    feedback: int


def init(n_items: int, n_positions: int, *, horizon: int, feedback: str = "first") -> State:
    return State(
        observed=np.zeros(n_items, np.int64),
        clicks=np.zeros(n_items, np.int64),
        upper=np.zeros(n_items),
        order=np.arange(n_items),
        step=np.zeros(1, np.int64),
        feedback=FEEDBACK[feedback],
    )


def memo_size(n_items: int, n_positions: int) -> int:
    return 0


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    state.step[0] += 1
    if state.step[0] <= len(state.order):
        put_in_front(state.order, state.step[0] - 1, rng, ranking)
        return
    log_step = math.log(state.step[0])
    for item in range(len(state.upper)):
        n = state.observed[item]
        state.upper[item] = state.clicks[item] / n + radius(n, log_step) if n > 0 else math.inf
    put_highest(state.upper, state.order, rng, ranking)


@kernel
def radius(n: float, log_step: float) -> float:
    """How far the index is above the share of clicks."""
    return math.sqrt(1.5 * log_step / n)


@kernel
def propensity(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    if state.step[0] <= len(state.order):
        first_propensity(len(state.order), out)
    else:
        tie_propensity(state.upper, ranking, 0.0, out)


def best(state: State, ranking: IntArray) -> None:
    """The items with the highest shares of clicks."""
    most_clicked(state.observed, state.clicks, ranking)


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    count(state.observed, state.clicks, ranking, clicks, examined(clicks, state.feedback))


# --- what is learned ----------------------------------------------------------------------------------------


def describe(state: State) -> dict[str, Any]:
    log_step = math.log(state.step[0] + 1)
    return describe_items(
        state.observed, state.clicks, lambda share, n: around(share, interpreted(radius)(n, log_step))
    )


# --- items that come and go ---------------------------------------------------------------------------------

admit, retire = by_item(observed=0, clicks=0, upper=0.0, order=NUMBERS)


@dataclass(frozen=True)
class CascadeUCB1(Policy):
    """Cascading bandits with UCB1 indices.

    >>> str(CascadeUCB1(feedback="last"))
    'cascade-ucb1:feedback=last'
    """

    paper = "Kveton et al. 2015"
    title = "CascadeUCB1"
    colour = "lilac"
    algorithm = Algorithm(init, memo_size, rank, update, best)
    live = Live(propensity=propensity, describe=describe, admit=admit, retire=retire)

    feedback: Feedback = "first"
    """Which positions are learned from: down to the first click, as in the cascade model; down to the last; or all."""
