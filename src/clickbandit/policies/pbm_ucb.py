"""PBM-UCB: shows the items with the highest upper confidence bounds, where the examination is known.

It believes in the position-based model, and is told how often users examine each position. An item shown N times was
examined some M times, the sum of the examination of the positions where it stood, so clicks / M estimates its
attraction whatever these positions were; the bound above it is Hoeffding's. The highest bound goes to the position that
users examine most. Its regret is O(log T), though not the least possible: Hoeffding's bounds are as wide for items that
are hardly ever clicked. In other click models it has no guarantee.

Lagrée, Vernade, Cappé: Multiple-Play Bandits in the Position-Based Model (NIPS 2016), section 5. They number positions
by decreasing examination; any other order is only another numbering (see `pbm`).

Draws of `rank`: where items have the same bound (those not seen yet have), a shuffle of those, as in `break_ties`.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.errors import InputError
from clickbandit.policies.bounds_on_demand import TIE
from clickbandit.policies.cascading import break_ties, highest_first, tie_propensity
from clickbandit.policies.contract import Algorithm, Live
from clickbandit.policies.pbm import (
    PBMPolicy,
    best,
    by_examination,
    describe_items,
    learn,
    read_examination,
    show,
)

__all__ = ["PBMUCB", "State", "best", "describe", "init", "memo_size", "propensity", "rank", "update"]

# --- settings and state -------------------------------------------------------------------------------------

UNSEEN = 1e300
"""The bound of an item that was never seen: above all others."""


class State(NamedTuple):
    """What was seen of each item, by position."""

    displays: IntArray
    """By item and position: how often it was shown there."""
    clicks: IntArray
    """By item and position: how often it was clicked there."""
    examined: FloatArray
    """By item: M, how often it should have been examined."""
    estimate: FloatArray
    """By item: its clicks / M."""
    width: FloatArray
    """By item: sqrt(N / 2) / M, by which its bound is above the estimate for a budget of 1."""
    bound: FloatArray
    """By item: its bound when the last list was made."""
    order: IntArray
    """All items, those shown last in front."""
    step: IntArray
    """How many lists were made, t."""
    examination: FloatArray
    places: IntArray
    """The positions, the most examined first."""
    scale: float
    """1 + epsilon: the budget is this times log t."""


def init(
    n_items: int, n_positions: int, *, horizon: int, examination: Any = "", epsilon: float = 0.0
) -> State:
    known = read_examination(examination, n_positions)
    return State(
        displays=np.zeros((n_items, n_positions), np.int64),
        clicks=np.zeros((n_items, n_positions), np.int64),
        examined=np.zeros(n_items),
        estimate=np.zeros(n_items),
        width=np.full(n_items, UNSEEN),
        bound=np.full(n_items, UNSEEN),
        order=np.arange(n_items),
        step=np.zeros(1, np.int64),
        examination=known,
        places=by_examination(known),
        scale=1 + epsilon,
    )


def memo_size(n_items: int, n_positions: int) -> int:
    return 0


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    state.step[0] += 1
    root = math.sqrt(state.scale * math.log(state.step[0]))
    for item in range(len(state.bound)):
        if state.width[item] < UNSEEN:
            state.bound[item] = state.estimate[item] + root * state.width[item]
    if highest_first(state.bound, state.order, len(ranking), TIE):
        break_ties(state.bound, state.order, rng, len(ranking), TIE)
    show(state.order, state.places, ranking)


@kernel
def propensity(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    tie_propensity(state.bound, ranking, TIE, out)


def describe(state: State) -> dict[str, Any]:
    return {"items": describe_items(state, high=state.bound)}


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    learn(state, ranking, clicks)
    for k in range(len(ranking)):
        item = ranking[k]
        displays = 0
        for j in range(len(ranking)):
            displays += state.displays[item, j]
        state.width[item] = math.sqrt(displays / 2) / state.examined[item]


@dataclass(frozen=True)
class PBMUCB(PBMPolicy):
    """Upper confidence bounds in the position-based model with a known examination.

    >>> from clickbandit import PositionBasedModel, simulate
    >>> model = PositionBasedModel(attraction=[0.3, 0.9, 0.6], examination=[1, 0.5])
    >>> simulate(PBMUCB(), model, positions=2, steps=20_000, seed=1).summary().final_lists
    [[1, 2]]
    """

    paper = "Lagrée et al. 2016"
    title = "PBM-UCB"
    colour = "clay"
    algorithm = Algorithm(init, memo_size, rank, update, best)
    live = Live(propensity=propensity, describe=describe)

    epsilon: float = 0.0
    """The budget of the bounds is (1 + epsilon) log t."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.epsilon >= 0:
            raise InputError(f"{self.name}: epsilon must be 0 or more, found {self.epsilon}")
