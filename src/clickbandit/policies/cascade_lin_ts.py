"""CascadeLinTS: draws a linear function of the features of items, and shows the items that it likes most.

It believes in the cascade model, and that an item's attraction is a linear function of its features, the same for all
items. theta is drawn from the normal distribution with mean M^-1 B and the exploration squared times M^-1 as
covariance; items are shown by x . theta. In practice it is better than CascadeLinUCB; where attraction is not linear in
the features, it stays with the best linear order.

Zong, Ni, Sung, Ke, Wen, Kveton: Cascading Bandits for Large-Scale Recommendation Problems (UAI 2016), CascadeLinTS with
sigma = 1.

Draws of `rank`: a normal variable for each feature; then where items have the same index, a shuffle of those. Features
are those of the query in simulation; without any each item is learned by itself.
"""

import math
from dataclasses import dataclass

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.policies import linear
from clickbandit.policies.cascading import put_highest
from clickbandit.policies.contract import Algorithm, Live, no_memo
from clickbandit.policies.linear import LinearPolicy, State, estimate, mean_of


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    estimate(state)
    factorise(state)
    for j in range(len(state.theta)):
        z = state.exploration * rng.standard_normal()
        for i in range(j, len(state.theta)):
            state.theta[i] += state.factor[i, j] * z
    for item in range(len(state.value)):
        state.value[item] = mean_of(state, item)
    put_highest(state.value, state.order, rng, ranking)


@slow_path
def factorise(state: State) -> None:
    """The Cholesky factor of M^-1, below and on the diagonal."""
    factor = state.factor
    for p in range(len(factor)):
        for q in range(p + 1):
            total = state.inverse[p, q]
            for i in range(q):
                total -= factor[p, i] * factor[q, i]
            factor[p, q] = total / factor[q, q] if q < p else math.sqrt(max(total, 1e-12))


@dataclass(frozen=True)
class CascadeLinTS(LinearPolicy):
    """Thompson sampling for cascading bandits over features.

    >>> str(CascadeLinTS(feedback="last"))
    'cascade-lin-ts:feedback=last'
    """

    paper = "Zong et al. 2016"
    title = "CascadeLinTS"
    colour = "green dotted"
    algorithm = Algorithm(linear.init, no_memo, rank, linear.update, linear.best)
    live = Live(describe=linear.describe)
