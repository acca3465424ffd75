"""A uniformly random list at every step: what not learning at all costs.

Believes nothing about users, learns nothing, and its regret grows linearly: the yardstick at the bottom.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.policies.base import Policy
from clickbandit.policies.common import draw_index
from clickbandit.policies.contract import Algorithm, Live, no_memo
from clickbandit.policies.items import NUMBERS, by_item

# --- settings and state -------------------------------------------------------------------------------------


class State(NamedTuple):
    """Nothing is learned; the array only saves making a new one at each step."""

    items: IntArray
    """All items, in the order that the last shuffle left."""


def init(n_items: int, n_positions: int, *, horizon: int) -> State:
    return State(items=np.arange(n_items))


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    items = state.items
    for k in range(len(ranking)):
        other = k + draw_index(rng, len(items) - k)
        items[k], items[other] = items[other], items[k]
        ranking[k] = items[k]


@kernel
def propensity(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    for k in range(len(out)):
        out[k] = 1 / len(state.items)


def best(state: State, ranking: IntArray) -> None:
    ranking[:] = np.arange(len(ranking))


def describe(state: State) -> dict[str, Any]:
    """Nothing is known of any item."""
    return {"items": [{"item": item} for item in range(len(state.items))]}


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    pass


# --- items that come and go ---------------------------------------------------------------------------------


admit, retire = by_item(items=NUMBERS)


@dataclass(frozen=True)
class Random(Policy):
    """A uniformly random list at every step.

    >>> str(Random())
    'random'
    """

    paper = "yardstick: no learning"
    title = "random lists"
    colour = "black dotted"
    algorithm = Algorithm(init, no_memo, rank, update, best)
    live = Live(propensity=propensity, describe=describe, admit=admit, retire=retire)
