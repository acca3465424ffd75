"""Propensities by draws, for policies whose lists have no probability in closed form.

`rank` is run again on copies of the state that it was given, with a generator apart, so that neither what was learned
nor the policy's own stream changes.
"""

from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.policies.contract import State


class PropensityEstimate(NamedTuple):
    """By position of a list: how probably its item stands there, and the list is the same down to there."""

    chance: FloatArray
    """Of all draws and the list itself, those with the item there. Its inverse, which weighs a click in off-policy
    estimates, is right on average but for a share of (1 - chance)^(draws + 1); itself it is too high by less than
    1 / (draws + 1)."""
    error: FloatArray
    """Its standard error: the standard deviation of what the chance may be after these draws, above 0 even where all of
    them agree."""
    prefix: FloatArray
    prefix_error: FloatArray


def by_draws(
    rank: Any, state: State, ranking: IntArray, memo: FloatArray, rng: Any, draws: int
) -> PropensityEstimate:
    """The propensities of a list that `rank` made from this state, or one just like it."""
    trial = copy_of(state)
    shown, written = np.empty_like(ranking), np.empty_like(memo)
    found, whole = np.zeros(len(ranking), np.int64), np.zeros(len(ranking), np.int64)
    for _ in range(draws):
        for array, given in zip(trial, state, strict=True):
            if isinstance(given, np.ndarray):
                array[...] = given
        rank(trial, rng, shown, written)
        alike = shown == ranking
        found += alike
        whole += np.logical_and.accumulate(alike)
    return PropensityEstimate(*_estimate(found, draws), *_estimate(whole, draws))


def _estimate(found: IntArray, draws: int) -> tuple[FloatArray, FloatArray]:
    """A chance and its standard error, from this many draws and the list itself."""
    middle = (found + 1) / (draws + 2)
    return (found + 1) / (draws + 1), np.sqrt(middle * (1 - middle) / (draws + 3))


def of_groups(propensities: FloatArray) -> FloatArray:
    """How probably a list is the same down to each position, where it is made of groups in random order.

    Positions with the same propensity of one in n belong to a group of n items, as many as there are and n at most.

    >>> of_groups(np.array([1, 1 / 2, 1 / 2, 1 / 3, 1 / 3])).round(3).tolist()
    [1.0, 0.5, 0.5, 0.167, 0.083]
    """
    chances = np.empty_like(propensities)
    whole, k = 1.0, 0
    while k < len(propensities):
        size, first = round(1 / propensities[k]), k
        while k < len(propensities) and k - first < size and propensities[k] == propensities[first]:
            whole *= propensities[k] if k == first else 1 / (size - (k - first))
            chances[k] = whole
            k += 1
    return chances


def copy_of(state: State) -> Any:
    """A state that changes without the other."""
    return type(state)(*(value.copy() if isinstance(value, np.ndarray) else value for value in state))
