"""CascadeDUCB: CascadeUCB1 that forgets slowly, for users whose taste may change at any time.

It believes in the cascade model with an attraction that now and then changes. What was observed s lists ago counts
g^s, with the discount g = 1 - 1 / (4 sqrt T): an item's index is its discounted share of clicks plus
2 sqrt(0.5 log N / n), with n its discounted observations and N those of all items. An item that is not shown is
forgotten, and so it is tried again. Its regret is of the order sqrt(T) log T times the number of changes, which is
near the best possible; while nothing changes it loses more than a policy that does not forget.

Li, de Rijke: Cascading Non-Stationary Bandits: Online Learning to Rank in the Non-Stationary Cascade Model (IJCAI
2019); Garivier, Moulines: On Upper-Confidence Bound Policies for Switching Bandit Problems (ALT 2011).

Time is counted in lists made, with or without feedback: what is learned late counts as if it had been known at once and
forgotten since.

Draws of `rank`: see `cascading`.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.errors import InputError
from clickbandit.policies.cascading import (
    FEEDBACK,
    CascadingPolicy,
    admit,
    around,
    best,
    describe_items,
    examined,
    look_first,
    possible,
    prime,
    propensity,
    put_highest,
    retire,
)
from clickbandit.policies.common import check_exploration
from clickbandit.policies.contract import Algorithm, Live

# --- settings and state -------------------------------------------------------------------------------------

MAX_WEIGHT = 1e100
"""Above this the weight of a list starts from 1 again."""
MIN_OBSERVED = 1e-100
"""Observations that are discounted below this, in weights of that time, never were."""


class State(NamedTuple):
    """What was observed of each item, in weights that grow from list to list rather than shrink with age."""

    observed: FloatArray
    clicks: FloatArray
    weight: FloatArray
    """What the list made last weighs; the one before it weighs that times the discount, and so on."""
    value: FloatArray
    """By item: its index when the last list was made."""
    order: IntArray
    """All items, those shown last in front."""
    step: IntArray
    """How many lists were made, t."""
    feedback: int
    discount: float
    exploration: float


def init(
    n_items: int,
    n_positions: int,
    *,
    horizon: int,
    feedback: str = "first",
    discount: float = 0.0,
    exploration: float = 0.5,
) -> State:
    return State(
        observed=np.zeros(n_items),
        clicks=np.zeros(n_items),
        weight=np.ones(1),
        value=np.zeros(n_items),
        order=np.arange(n_items),
        step=np.zeros(1, np.int64),
        feedback=FEEDBACK[feedback],
        discount=discount or 1 - 1 / (4 * math.sqrt(horizon)),
        exploration=exploration,
    )


def memo_size(n_items: int, n_positions: int) -> int:
    """The step at which the list was made."""
    return 1


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    memo[0] = state.step[0] + 1
    if not look_first(state, rng, ranking):
        budget = budget_now(state)
        for item in range(len(state.value)):
            n = state.observed[item]
            state.value[item] = state.clicks[item] / n + radius(n, budget) if n > 0 else math.inf
        put_highest(state.value, state.order, rng, ranking)
    state.weight[0] /= state.discount
    if state.weight[0] > MAX_WEIGHT:
        lighten(state)


@kernel
def budget_now(state: State) -> float:
    """0.5 log N, in weights: what is divided by an item's observations."""
    total = 0.0
    for item in range(len(state.observed)):
        total += state.observed[item]
    if total <= state.weight[0]:
        return 0.0
    return float(state.exploration * state.weight[0] * math.log(total / state.weight[0]))


@kernel
def radius(n: float, budget: float) -> float:
    """How far the index is above the share of clicks."""
    return 2 * math.sqrt(budget / n)


@slow_path
def lighten(state: State) -> None:
    """Divide all weights by that of the last list, before they leave the range of floats."""
    for item in range(len(state.observed)):
        state.observed[item] /= state.weight[0]
        state.clicks[item] /= state.weight[0]
        if state.observed[item] < MIN_OBSERVED:
            state.observed[item] = 0.0
            state.clicks[item] = 0.0
    state.weight[0] = 1.0


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    weight = state.weight[0]
    age = state.step[0] - memo[0]
    if age > 0:
        weight *= state.discount**age
    for k in range(examined(clicks, state.feedback)):
        state.observed[ranking[k]] += weight
        if clicks[k]:
            state.clicks[ranking[k]] += weight


# --- what is learned ----------------------------------------------------------------------------------------


def describe(state: State) -> dict[str, Any]:
    """Observations and clicks are discounted."""
    weight = state.weight[0]
    budget = interpreted(budget_now)(state) / weight
    return describe_items(
        state.observed / weight,
        state.clicks / weight,
        lambda share, n: around(share, interpreted(radius)(n, budget)),
    )


@dataclass(frozen=True)
class CascadeDUCB(CascadingPolicy):
    """Cascading bandits for users who change: what is old counts less.

    >>> str(CascadeDUCB(discount=0.999))
    'cascade-ducb:discount=0.999'
    """

    paper = "Li and de Rijke 2019"
    title = "CascadeDUCB"
    colour = "black dash-dotted"
    algorithm = Algorithm(init, memo_size, rank, update, best, prime=prime)
    live = Live(propensity=propensity, describe=describe, admit=admit, retire=retire, possible=possible)

    discount: float = 0.0
    """What an observation counts one list later, below 1; 0 stands for 1 - 1 / (4 sqrt T)."""
    exploration: float = 0.5
    """How wide the bounds are: the factor of log N / n under the root."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.discount <= 1:
            raise InputError(
                f"{self.name}: discount must be above 0 and at most 1, or 0 to derive it from the horizon, "
                f"found {self.discount}"
            )
        check_exploration(self.name, self.exploration)
