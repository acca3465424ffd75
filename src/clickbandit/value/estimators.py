"""Estimators of what lists would have earned, under the names of the Open Bandit Pipeline.

All weigh the reward at each position by how much more probable the list was to be the target's than the policy's: the
whole list (sips), the item at its position (iips), or the list down to there (rips). McInerney et al. 2020
(Counterfactual evaluation of slate recommendations with sequential reward interactions); their self-normalised variants
divide by the mean weight of each position; cascade-dr corrects a click model's prediction by what was seen (Kiyohara et
al. 2022, Doubly robust off-policy evaluation for ranking policies under the cascade behavior model).

Rows are lists, columns positions. `ratios` are the target's probabilities over the log's. Every function gives the
estimate, and of each list the residual: what it contributes beyond what it was expected to.
"""

import numpy as np

from clickbandit.compiling.kernel import FloatArray

Estimated = tuple[float, FloatArray]


def weighted(rewards: FloatArray, ratios: FloatArray) -> Estimated:
    """sips, iips and rips, by the ratios that are given.

    >>> weighted(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[2.0, 2.0], [0.0, 0.0]]))[0]
    1.0
    """
    values = (ratios * rewards).sum(axis=1)
    return float(values.mean()), values - values.mean()


def normalised(rewards: FloatArray, ratios: FloatArray) -> Estimated:
    """snsips, sniips and snrips: as if the weights of each position had the mean 1.

    >>> normalised(np.array([[1.0], [0.0], [1.0]]), np.array([[2.0], [2.0], [0.0]]))[0]
    0.5
    """
    means = ratios.mean(axis=0)
    means[means == 0] = 1.0  # then there is nothing to divide
    by_position = (ratios * rewards).mean(axis=0) / means
    return float(by_position.sum()), (ratios * (rewards - by_position) / means).sum(axis=1)


def cascade_dr(
    rewards: FloatArray, ratios: FloatArray, predicted: FloatArray, expected: FloatArray
) -> Estimated:
    """cascade-dr: `predicted` is what a model says of the rewards from a position on, of the list down to there, and
    `expected` the same of the target's item at this position after the items above.

    >>> cascade_dr(np.array([[1.0], [0.0]]), np.array([[2.0], [0.0]]), np.full((2, 1), 0.5), np.full((2, 1), 0.5))[0]
    1.0
    """
    above = np.column_stack([np.ones(len(ratios)), ratios[:, :-1]])
    values = (ratios * (rewards - predicted) + above * expected).sum(axis=1)
    return float(values.mean()), values - values.mean()


def effective(ratios: FloatArray) -> float:
    """How many lists of the target's own would be as much evidence, at the position with the least (Kish)."""
    squares = (ratios**2).sum(axis=0)
    return float(np.min(np.where(squares > 0, ratios.sum(axis=0) ** 2 / np.maximum(squares, 1e-300), 0.0)))
