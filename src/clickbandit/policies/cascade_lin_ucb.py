"""CascadeLinUCB: upper confidence bounds on attractions that are linear in the features of items.

It believes in the cascade model, and that an item's attraction is a linear function of its features, the same for all
items. The index of an item is x . theta plus the exploration times the deviation of that, at most 1; the highest are
shown first. Its regret grows with the number of features rather than that of items, as long as attraction is linear in
them; where it is not, it stays with the best linear order.

Zong, Ni, Sung, Ke, Wen, Kveton: Cascading Bandits for Large-Scale Recommendation Problems (UAI 2016), CascadeLinUCB
with sigma = 1.

Draws of `rank`: where items have the same index, a shuffle of those. Features are those of the query in simulation;
without any each item is learned by itself.
"""

from dataclasses import dataclass

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.policies import linear
from clickbandit.policies.cascading import put_highest, tie_propensity
from clickbandit.policies.contract import Algorithm, Live, no_memo
from clickbandit.policies.linear import LinearPolicy, State, deviation_of, estimate, mean_of


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    estimate(state)
    for item in range(len(state.value)):
        bound = mean_of(state, item) + state.exploration * deviation_of(state, item)
        state.value[item] = min(1.0, bound)
    put_highest(state.value, state.order, rng, ranking)


@kernel
def propensity(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    tie_propensity(state.value, ranking, 0.0, out)


@dataclass(frozen=True)
class CascadeLinUCB(LinearPolicy):
    """Cascading bandits with confidence bounds over features.

    >>> str(CascadeLinUCB(exploration=0.5))
    'cascade-lin-ucb:exploration=0.5'
    """

    paper = "Zong et al. 2016"
    title = "CascadeLinUCB"
    colour = "vermillion dotted"
    algorithm = Algorithm(linear.init, no_memo, rank, linear.update, linear.best)
    live = Live(propensity=propensity, describe=linear.describe)
