"""A policy's functions as the live ranker calls them: a template for `compiling.specialise`."""

from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, counted_entry_point, entry_point
from clickbandit.policies.batchrank import void  # void
from clickbandit.policies.defaults import propensity  # propensity
from clickbandit.policies.random import rank, update  # policy


@counted_entry_point
def serve(
    state: Any, rng: np.random.Generator, ranking: IntArray, memo: FloatArray, chances: FloatArray
) -> None:
    """A list, its memo, and by position the probability that its item stands there."""
    rank(state, rng, ranking, memo)
    propensity(state, ranking, memo, chances)


@entry_point
def learn(state: Any, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    update(state, ranking, clicks, memo)


@entry_point
def give_back(state: Any, ranking: IntArray, memo: FloatArray) -> None:
    void(state, ranking, memo)
