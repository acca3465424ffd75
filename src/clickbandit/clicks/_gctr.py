"""The global click rate: every item at every position is clicked with the same probability.

A baseline: a click model that describes a log no better has learned nothing.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit.clicks._base import Law
from clickbandit.clicks._fitting import Counts, Estimate, Options, shares
from clickbandit.kernel import FloatArray, IntArray, kernel

# --- parameters ---------------------------------------------------------------------------------------------


class Params(NamedTuple):
    """The click rate."""

    rate: float
    """Of all items at all positions."""


# --- one user's clicks --------------------------------------------------------------------------------------


@kernel
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    for k in range(len(ranking)):
        clicks[k] = rng.random() < params.rate


# --- the law of clicks given a list -------------------------------------------------------------------------


@kernel
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    for k in range(len(ranking)):
        out[k] = params.rate


@kernel
def examination_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    for k in range(len(ranking)):
        out[k] = 1.0


@kernel
def log_likelihood(params: Params, ranking: IntArray, clicks: IntArray) -> float:
    total = 0.0
    for k in range(len(ranking)):
        p = params.rate
        q = p if clicks[k] else 1 - p
        if q <= 0:
            return -math.inf
        total += math.log(q)
    return total


# --- fitting ------------------------------------------------------------------------------------------------


def fit(counts: Counts, options: Options) -> Estimate:
    """Clicks by items shown."""
    cells = counts.by_position
    return shares({"rate": (cells.clicked.sum(keepdims=True), cells.shown.sum(keepdims=True))}, options)


@dataclass(frozen=True)
class GlobalClickRate(Law):
    """Users who click anything anywhere alike.

    >>> GlobalClickRate(rate=0.25).click_probability([1, 0]).tolist()
    [0.25, 0.25]
    """

    paper = "Chuklin, Markov, de Rijke 2015"

    rate: float
    """The probability of a click."""
