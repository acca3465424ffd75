"""CascadeUCB-V: shows the items with the highest Bernstein bounds on their attraction, highest first.

It believes in the cascade model: the user goes down the list to the first attractive item, clicks it and leaves,
so the items down to there were examined and the others tell nothing. An item's index is its share of clicks m plus
sqrt(2 z m (1 - m) log t / n) + 3 z log t / n for n observations and z = 2: where attraction is low the variance is
low too, and the index is tighter than UCB1's. In that model its regret is of the order sqrt(L T), up to logarithms,
whatever the gaps, which no policy can beat; CascadeUCB1's may be sqrt(K) times that.

Vial, Sanghavi, Shakkottai, Srikant: Minimax Regret for Cascading Bandits (NeurIPS 2022); Audibert, Munos,
Szepesvári: Exploration-Exploitation Tradeoff Using Variance Estimates in Multi-Armed Bandits (TCS 2009).

Draws of `rank`: see `cascading`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel
from clickbandit.policies import cascading
from clickbandit.policies.cascading import CascadingPolicy, State, look_first, put_highest, shares
from clickbandit.policies.common import check_exploration
from clickbandit.policies.contract import Algorithm, Live, Margins, no_memo


def init(
    n_items: int, n_positions: int, *, horizon: int, feedback: str = "first", exploration: float = 2.0
) -> State:
    return cascading.start(n_items, feedback, exploration)


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    if look_first(state, rng, ranking):
        return
    budget = state.exploration * math.log(state.step[0])
    for item in range(len(state.value)):
        n = state.observed[item]
        state.value[item] = math.inf
        if n > 0:
            share = state.clicks[item] / n
            state.value[item] = share + radius(share, budget / n)
    put_highest(state.value, state.order, rng, ranking)


@kernel
def radius(share: float, most: float) -> float:
    """How far the index is above the share of clicks, where `most` is z log t / n."""
    return math.sqrt(2 * share * (1 - share) * most) + 3 * most


@kernel
def budget(state: State, steps: int) -> float:
    return state.exploration * math.log(state.step[0] + steps)


@kernel
def span(
    state: State, place: int, looks: float, clicks: float, budget: float, later: float
) -> tuple[float, float]:
    """The variance of a share is least where that is nearest to 0 or 1, and greatest where it is nearest to 1/2."""
    item = state.order[place]
    n = state.observed[item]
    if n == 0:
        return -math.inf, math.inf
    low, high = shares(state.clicks[item], n, looks, clicks)
    extreme = low if low < 1 - high else high
    middle = min(max(0.5, low), high)
    return low + radius(extreme, budget / (n + looks)), high + radius(middle, later / n)


def describe(state: State) -> dict[str, Any]:
    budget = state.exploration * math.log(state.step[0] + 1)
    return cascading.describe_around(state, lambda share, n: interpreted(radius)(share, budget / n))


@dataclass(frozen=True)
class CascadeUCBV(CascadingPolicy):
    """Cascading bandits with bounds that adapt to the variance.

    >>> str(CascadeUCBV(feedback="last"))
    'cascade-ucb-v:feedback=last'
    """

    paper = "Vial et al. 2022"
    title = "CascadeUCB-V"
    colour = "lilac dashed"
    algorithm = Algorithm(init, no_memo, rank, cascading.update, cascading.best, prime=cascading.prime)
    leaps = Margins(budget, span, cascading.looked_at, cascading.absorb)
    live = Live(
        propensity=cascading.propensity,
        describe=describe,
        admit=cascading.admit,
        retire=cascading.retire,
        possible=cascading.possible,
    )

    exploration: float = 2.0
    """How wide the bounds are: z in sqrt(2 z m (1 - m) log t / n) + 3 z log t / n."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_exploration(self.name, self.exploration)
