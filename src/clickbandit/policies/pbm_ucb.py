"""PBM-UCB: shows the items with the highest upper confidence bounds, where the examination is known.

It believes in the position-based model, and is told how often users examine each position. An item shown N times was
examined some M times, the sum of the examination of the positions where it stood, so clicks / M estimates its
attraction whatever these positions were; the bound above it is Hoeffding's. The highest bound goes to the position that
users examine most. Its regret is O(log T), though not the least possible: Hoeffding's bounds are as wide for items that
are hardly ever clicked. In other click models it has no guarantee.

Lagrée, Vernade, Cappé: Multiple-Play Bandits in the Position-Based Model (NIPS 2016), section 5. They number positions
by decreasing examination; any other order is only another numbering.

Draws of `rank`: where items have the same bound (those not seen yet have), a shuffle of those, as in `break_ties`.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.policies import pbm
from clickbandit.policies.bounds_on_demand import TIE
from clickbandit.policies.cascading import break_ties, highest_first, tie_propensity
from clickbandit.policies.contract import Algorithm, Live, Margins, no_memo
from clickbandit.policies.pbm import BoundedPBMPolicy, describe_items, first_seen, learn, learn_often, show
from clickbandit.priors import Prior

# --- settings and state -------------------------------------------------------------------------------------

UNSEEN = 1e300
"""The bound of an item that was never seen: above all others."""


class State(NamedTuple):
    """What was seen of each item (`pbm.first_seen`), and the bounds."""

    displays: IntArray
    clicks: IntArray
    examined: FloatArray
    estimate: FloatArray
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
    scale: float
    """1 + epsilon: the budget is this times log t."""


def init(
    n_items: int, n_positions: int, *, horizon: int, examination: Any = "", epsilon: float = 0.0
) -> State:
    return State(
        **first_seen(n_items, n_positions, examination),
        width=np.full(n_items, UNSEEN),
        bound=np.full(n_items, UNSEEN),
        order=np.arange(n_items),
        step=np.zeros(1, np.int64),
        scale=1 + epsilon,
    )


def prime(state: State, prior: Prior) -> State:
    state = pbm.prime(state, prior)
    state.width[:] = np.sqrt(state.displays.sum(axis=1) / 2) / state.examined
    return state


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
        state.width[item] = math.sqrt(n_displays(state, item) / 2) / state.examined[item]


@kernel
def n_displays(state: State, item: int) -> int:
    """How often an item was shown, N."""
    displays = 0
    for k in range(len(state.examination)):
        displays += state.displays[item, k]
    return displays


# --- leaps --------------------------------------------------------------------------------------------------


@kernel
def budget(state: State, steps: int) -> float:
    return state.scale * math.log(state.step[0] + steps)


@kernel
def span(
    state: State, place: int, looks: float, clicks: float, budget: float, later: float
) -> tuple[float, float]:
    """The estimate may be above 1 where users look less often than was told: then a click may also lower it."""
    item = state.order[place]
    if state.width[item] == UNSEEN:
        return -math.inf, math.inf
    shown, examined = n_displays(state, item), state.examined[item]
    clicked = state.estimate[item] * examined
    examination = state.examination[state.places[place]] if looks > 0 else 0.0
    most = examined + examination * looks
    low = min(clicked / (most - examination * clicks), (clicked + clicks) / most)
    high = max(clicked / examined, (clicked + clicks) / (examined + examination * clicks))
    radius = math.sqrt(budget * shown / 2) / most
    return low + radius, high + math.sqrt(later * (shown + looks) / 2) / examined


@kernel
def looked_at(state: State, clicks: IntArray) -> int:
    return len(clicks)


@kernel
def absorb(state: State, ranking: IntArray, observed: IntArray, clicked: IntArray, steps: int) -> None:
    state.step[0] += steps
    for k in range(len(ranking)):
        item = ranking[k]
        learn_often(state, item, k, steps, clicked[item])
        state.width[item] = math.sqrt(n_displays(state, item) / 2) / state.examined[item]


@dataclass(frozen=True)
class PBMUCB(BoundedPBMPolicy):
    """Upper confidence bounds in the position-based model with a known examination.

    >>> from clickbandit import PositionBasedModel, simulate
    >>> model = PositionBasedModel(attraction=[0.3, 0.9, 0.6], examination=[1, 0.5])
    >>> simulate(PBMUCB(), model, positions=2, steps=2_000, seed=1).summary().final_lists
    [[1, 2]]
    """

    paper = "Lagrée et al. 2016"
    title = "PBM-UCB"
    colour = "clay"
    algorithm = Algorithm(init, no_memo, rank, update, pbm.best, prime=prime)
    leaps = Margins(budget, span, looked_at, absorb)
    live = Live(propensity=propensity, describe=describe, possible=pbm.possible)
