"""CascadeUCB-V: shows the items with the highest Bernstein bounds on their attraction, highest first.

It believes in the cascade model: the user goes down the list to the first attractive item, clicks it and leaves,
so the items down to there were examined and the others tell nothing. An item's index is its share of clicks m plus
sqrt(2 z m (1 - m) log t / n) + 3 z log t / n for n observations and z = 2: where attraction is low the variance is
low too, and the index is tighter than UCB1's. In that model its regret is of the order sqrt(L T), up to logarithms,
whatever the gaps, which no policy can beat; CascadeUCB1's may be sqrt(K) times that.

Vial, Sanghavi, Shakkottai, Srikant: Minimax Regret for Cascading Bandits (NeurIPS 2022); Audibert, Munos,
Szepesvári: Exploration-Exploitation Tradeoff Using Variance Estimates in Multi-Armed Bandits (TCS 2009).

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
from clickbandit.policies.common import check_exploration
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
    exploration: float
    """z, how wide the bounds are."""


def init(
    n_items: int, n_positions: int, *, horizon: int, feedback: str = "first", exploration: float = 2.0
) -> State:
    return State(
        observed=np.zeros(n_items, np.int64),
        clicks=np.zeros(n_items, np.int64),
        upper=np.zeros(n_items),
        order=np.arange(n_items),
        step=np.zeros(1, np.int64),
        feedback=FEEDBACK[feedback],
        exploration=exploration,
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
    budget = state.exploration * math.log(state.step[0])
    for item in range(len(state.upper)):
        n = state.observed[item]
        state.upper[item] = math.inf
        if n > 0:
            share = state.clicks[item] / n
            state.upper[item] = share + radius(share, budget / n)
    put_highest(state.upper, state.order, rng, ranking)


@kernel
def radius(share: float, most: float) -> float:
    """How far the index is above the share of clicks, where `most` is z log t / n."""
    return math.sqrt(2 * share * (1 - share) * most) + 3 * most


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
    budget = state.exploration * math.log(state.step[0] + 1)
    return describe_items(
        state.observed, state.clicks, lambda share, n: around(share, interpreted(radius)(share, budget / n))
    )


# --- items that come and go ---------------------------------------------------------------------------------

admit, retire = by_item(observed=0, clicks=0, upper=0.0, order=NUMBERS)


@dataclass(frozen=True)
class CascadeUCBV(Policy):
    """Cascading bandits with bounds that know the variance.

    >>> str(CascadeUCBV(feedback="last"))
    'cascade-ucb-v:feedback=last'
    """

    paper = "Vial et al. 2022"
    title = "CascadeUCB-V"
    colour = "lilac dashed"
    algorithm = Algorithm(init, memo_size, rank, update, best)
    live = Live(propensity=propensity, describe=describe, admit=admit, retire=retire)

    feedback: Feedback = "first"
    """Which positions are learned from: down to the first click, as in the cascade model; down to the last; or all."""
    exploration: float = 2.0
    """How wide the bounds are: z in sqrt(2 z m (1 - m) log t / n) + 3 z log t / n."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_exploration(self.name, self.exploration)
