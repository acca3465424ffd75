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
from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.policies import cascading
from clickbandit.policies.cascading import CascadingPolicy, State, put_highest
from clickbandit.policies.contract import Algorithm, Live, no_memo


def init(n_items: int, n_positions: int, *, horizon: int, feedback: str = "first") -> State:
    return cascading.start(n_items, feedback)


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    state.step[0] += 1
    z = rng.standard_normal()
    log_step = math.log(state.step[0] + 1)
    for item in range(len(state.value)):
        n = state.observed[item]
        share = state.clicks[item] / max(n, 1)
        most = log_step / (n + 1)
        state.value[item] = share + z * max(math.sqrt(share * (1 - share) * most), most)
    put_highest(state.value, state.order, rng, ranking)


def describe(state: State) -> dict[str, Any]:
    return cascading.describe_items(state.observed, state.clicks)


@dataclass(frozen=True)
class TSCascade(CascadingPolicy):
    """Thompson sampling for cascading bandits, with one normal variable for all items.

    >>> str(TSCascade(feedback="last"))
    'ts-cascade:feedback=last'
    """

    paper = "Zhong et al. 2021"
    title = "TS-Cascade"
    colour = "lilac dotted"
    algorithm = Algorithm(init, no_memo, rank, cascading.update, cascading.best, prime=cascading.prime)
    live = Live(
        describe=describe,
        admit=cascading.admit,
        retire=cascading.retire,
        possible=cascading.possible,
    )
