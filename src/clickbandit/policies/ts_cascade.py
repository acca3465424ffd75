"""TS-Cascade: orders the items by shares of clicks that are all shifted by the same random number of deviations.

It believes in the cascade model: the user goes down the list to the first attractive item, clicks it and leaves,
so the items down to there were examined and the others tell nothing. One normal variable z a step stands for how
optimistic it is: an item's index is its share of clicks m plus z times max{sqrt(m (1 - m) log(t + 1) / (n + 1)),
log(t + 1) / (n + 1)} for n observations. In that model its regret is of the order sqrt(K L T), up to logarithms.

Zhong, Cheung, Tan: Thompson Sampling Algorithms for Cascading Bandits (JMLR 2021), TS-Cascade.

Draws of `rank`: z; then where items have the same index, as all have at first, a shuffle of those.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.policies.base import Policy
from clickbandit.policies.cascading import (
    FEEDBACK,
    Feedback,
    count,
    describe_items,
    examined,
    most_clicked,
    put_highest,
)
from clickbandit.policies.contract import Algorithm, Live
from clickbandit.policies.items import NUMBERS, by_item

# --- settings and state -------------------------------------------------------------------------------------


class State(NamedTuple):
    """What was observed of each item."""

    observed: IntArray
    clicks: IntArray
    drawn: FloatArray
    """By item: its index when the last list was made."""
    order: IntArray
    """All items, those shown last in front."""
    step: IntArray
    """How many lists were made, t."""
    feedback: int


def init(n_items: int, n_positions: int, *, horizon: int, feedback: str = "first") -> State:
    return State(
        observed=np.zeros(n_items, np.int64),
        clicks=np.zeros(n_items, np.int64),
        drawn=np.zeros(n_items),
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
    z = rng.standard_normal()
    log_step = math.log(state.step[0] + 1)
    for item in range(len(state.drawn)):
        n = state.observed[item]
        share = state.clicks[item] / max(n, 1)
        most = log_step / (n + 1)
        state.drawn[item] = share + z * max(math.sqrt(share * (1 - share) * most), most)
    put_highest(state.drawn, state.order, rng, ranking)


def best(state: State, ranking: IntArray) -> None:
    """The items with the highest shares of clicks."""
    most_clicked(state.observed, state.clicks, ranking)


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    count(state.observed, state.clicks, ranking, clicks, examined(clicks, state.feedback))


# --- what is learned ----------------------------------------------------------------------------------------


def describe(state: State) -> dict[str, Any]:
    return describe_items(state.observed, state.clicks)


# --- items that come and go ---------------------------------------------------------------------------------

admit, retire = by_item(observed=0, clicks=0, drawn=0.0, order=NUMBERS)


@dataclass(frozen=True)
class TSCascade(Policy):
    """Thompson sampling for cascading bandits, with one normal variable for all items.

    >>> str(TSCascade(feedback="last"))
    'ts-cascade:feedback=last'
    """

    paper = "Zhong et al. 2021"
    title = "TS-Cascade"
    colour = "lilac dotted"
    algorithm = Algorithm(init, memo_size, rank, update, best)
    live = Live(describe=describe, admit=admit, retire=retire)

    feedback: Feedback = "first"
    """Which positions are learned from: down to the first click, as in the cascade model; down to the last; or all."""
