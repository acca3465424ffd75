"""Propensities by draws, for policies whose lists have no probability in closed form.

`rank` is run again on copies of the state that it was given, with a generator apart, so that neither what was learned
nor the policy's own stream changes.
"""

from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.policies.contract import State


class Estimate(NamedTuple):
    """By position of a list: how probably its item stands there."""

    chance: FloatArray
    """Of all draws and the list itself, those with the item there. Its inverse, which weighs a click in off-policy
    estimates, is right on average but for a share of (1 - chance)^(draws + 1); itself it is too high by less than
    1 / (draws + 1)."""
    error: FloatArray
    """Its standard error: the standard deviation of what the chance may be after so many draws, above 0 also where all
    of them agree."""


def by_draws(rank: Any, state: State, ranking: IntArray, memo: FloatArray, rng: Any, draws: int) -> Estimate:
    """The propensities of a list that `rank` made from this state, or one just like it."""
    trial = copy_of(state)
    shown, written = np.empty_like(ranking), np.empty_like(memo)
    found = np.zeros(len(ranking), np.int64)
    for _ in range(draws):
        for array, given in zip(trial, state, strict=True):
            if isinstance(given, np.ndarray):
                array[...] = given
        rank(trial, rng, shown, written)
        found += shown == ranking
    middle = (found + 1) / (draws + 2)
    return Estimate((found + 1) / (draws + 1), np.sqrt(middle * (1 - middle) / (draws + 3)))


def copy_of(state: State) -> Any:
    """A state that changes without the other."""
    return type(state)(*(value.copy() if isinstance(value, np.ndarray) else value for value in state))
