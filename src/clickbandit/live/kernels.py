"""A policy's functions as the live ranker calls them: a template for `compiling.specialise`."""

import math
from typing import Any

from clickbandit.compiling.generator import generator_at
from clickbandit.compiling.kernel import (
    FloatArray,
    IntArray,
    counted_quick_entry_point,
    kernel,
    quick_entry_point,
)
from clickbandit.policies.batchrank.algorithm import rank, update  # policy
from clickbandit.policies.batchrank.describe import prefix, propensity  # chances
from clickbandit.policies.batchrank.late import void  # policy


@counted_quick_entry_point
def serve(
    state: Any, random: Any, ranking: IntArray, memo: FloatArray, chances: FloatArray, whole: FloatArray
) -> None:
    """A list, its memo, and by position the probability that its item stands there, and that all is so down to there.

    `random` is what `compiling.generator.addresses` gives; as plain Python, a generator.
    """
    rank(state, generator_at(random), ranking, memo)
    propensity(state, ranking, memo, chances)
    prefix(state, ranking, memo, whole)


@quick_entry_point
def learn(state: Any, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    update(state, ranking, clicks, memo)


@quick_entry_point
def give_back(state: Any, ranking: IntArray, memo: FloatArray) -> None:
    void(state, ranking, memo)


@kernel
def unknown(state: Any, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    """What a policy states none of."""
    for k in range(len(out)):
        out[k] = math.nan
