"""The same list at every step, the items in the order given: what not learning at all earns where an order is good.

Is told the order in which the query names its items, or that of a prior, shows it, and learns nothing: the yardstick
of a page as it is today.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.policies.base import Policy
from clickbandit.policies.contract import Algorithm, Live, certain, no_memo
from clickbandit.policies.items import NUMBERS, by_item
from clickbandit.priors import Prior

# --- settings and state -------------------------------------------------------------------------------------


class State(NamedTuple):
    """What the policy was told."""

    order: IntArray
    """The items in the order given."""


def init(n_items: int, n_positions: int, *, horizon: int, order: Sequence[int]) -> State:
    return State(order=np.array(order, np.int64))


def prime(state: State, prior: Prior) -> State:
    state.order[:] = prior.order
    return state


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    for k in range(len(ranking)):
        ranking[k] = state.order[k]


def best(state: State, ranking: IntArray) -> None:
    ranking[:] = state.order[: len(ranking)]


def describe(state: State) -> dict[str, Any]:
    """Nothing is known of any item."""
    return {"items": [{"item": item} for item in range(len(state.order))]}


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    pass


# --- items that come and go ---------------------------------------------------------------------------------


admit, retire = by_item(order=NUMBERS)


@dataclass(frozen=True)
class Given(Policy):
    """The order given, at every step.

    >>> from clickbandit import CascadeModel, simulate
    >>> simulate(Given(), CascadeModel(attraction=[0.2, 0.5, 0.1]), positions=2, steps=100).summary().final_lists
    [[0, 1]]
    """

    paper = "yardstick: the order given"
    title = "the given order"
    colour = "gray dashed"
    algorithm = Algorithm(init, no_memo, rank, update, best, prime=prime)
    live = Live(propensity=certain, describe=describe, admit=admit, retire=retire)
    knows = ("order",)
