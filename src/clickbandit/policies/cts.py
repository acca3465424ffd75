"""CTS: orders the items by a draw of each one's attraction from what may still be true of it.

It believes in the cascade model: the user goes down the list to the first attractive item, clicks it and leaves,
so the items down to there were examined and the others tell nothing. What it knows of an item's attraction is
Beta(1 + clicks, 1 + observations without a click), independent of the others; an item is shown as often as it may
still be one of the best. In that model its regret is of the order of L log T over the gaps, and in practice
below that of confidence bounds.

Zhong, Cheung, Tan: Thompson Sampling Algorithms for Cascading Bandits (JMLR 2021), CTS; Hüyük, Tekin: Analysis of
Thompson Sampling for Combinatorial Multi-armed Bandit with Probabilistically Triggered Arms (AISTATS 2019).

Draws of `rank`: for each item, in the order of their numbers, its attraction (`draw_beta`); then where items were
drawn the same, which hardly happens, a shuffle of those.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.policies import cascading
from clickbandit.policies.cascading import FEEDBACK, CascadingPolicy, put_highest
from clickbandit.policies.contract import Algorithm, Live, no_memo
from clickbandit.policies.sampling import draw_beta


class State(NamedTuple):
    """What was observed of each item."""

    observed: IntArray
    clicks: IntArray
    value: FloatArray
    """By item: the attraction that was drawn for the last list."""
    order: IntArray
    """All items, those shown last in front."""
    feedback: int


def init(n_items: int, n_positions: int, *, horizon: int, feedback: str = "first") -> State:
    return State(
        observed=np.zeros(n_items, np.int64),
        clicks=np.zeros(n_items, np.int64),
        value=np.zeros(n_items),
        order=np.arange(n_items),
        feedback=FEEDBACK[feedback],
    )


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    for item in range(len(state.value)):
        clicks = state.clicks[item]
        state.value[item] = draw_beta(rng, 1.0 + clicks, 1.0 + state.observed[item] - clicks)
    put_highest(state.value, state.order, rng, ranking)


def best(state: State, ranking: IntArray) -> None:
    """The items with the highest mean attraction, (1 + clicks) / (2 + observations)."""
    cascading.most_clicked(2 + state.observed, 1 + state.clicks, ranking)


def describe(state: State) -> dict[str, Any]:
    """The estimate is the mean of the posterior."""
    described = cascading.describe_items(state.observed, state.clicks)
    for known in described["items"]:
        known["estimate"] = (1 + known["clicks"]) / (2 + known["observed"])
    return described


@dataclass(frozen=True)
class CTS(CascadingPolicy):
    """Thompson sampling for cascading bandits, from a Beta distribution for each item.

    >>> str(CTS(feedback="last"))
    'cts:feedback=last'
    """

    paper = "Zhong et al. 2021"
    title = "CTS"
    colour = "lilac dash-dotted"
    algorithm = Algorithm(init, no_memo, rank, cascading.update, best, prime=cascading.prime_counts)
    live = Live(describe=describe, admit=cascading.admit, retire=cascading.retire)
