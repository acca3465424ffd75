"""The click rate by rank: a position is clicked with a probability of its own, whatever stands there.

A baseline: it knows that users look at the top first, and nothing about items.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit.clicks._base import Law
from clickbandit.clicks._fitting import Counts, Estimate, Options, shares, sums
from clickbandit.kernel import FloatArray, IntArray, kernel

# --- parameters ---------------------------------------------------------------------------------------------


class Params(NamedTuple):
    """The click rates as an array."""

    rate: FloatArray
    """For each position."""


# --- one user's clicks --------------------------------------------------------------------------------------


@kernel
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    for k in range(len(ranking)):
        clicks[k] = rng.random() < params.rate[k]


# --- the law of clicks given a list -------------------------------------------------------------------------


@kernel
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    for k in range(len(ranking)):
        out[k] = params.rate[k]


@kernel
def examination_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    for k in range(len(ranking)):
        out[k] = 1.0


@kernel
def log_likelihood(params: Params, ranking: IntArray, clicks: IntArray) -> float:
    total = 0.0
    for k in range(len(ranking)):
        p = params.rate[k]
        q = p if clicks[k] else 1 - p
        if q <= 0:
            return -math.inf
        total += math.log(q)
    return total


# --- fitting ------------------------------------------------------------------------------------------------


def fit(counts: Counts, options: Options) -> Estimate:
    """Clicks by lists that are long enough."""
    cells, n = counts.by_position, counts.n_positions
    return shares(
        {"rate": (sums(cells.position, cells.clicked, n), sums(cells.position, cells.shown, n))}, options
    )


@dataclass(frozen=True)
class RankClickRate(Law):
    """Users who click positions, whatever they show.

    >>> RankClickRate(rate=[0.5, 0.25]).click_probability([1, 0]).tolist()
    [0.5, 0.25]
    """

    paper = "Chuklin, Markov, de Rijke 2015"

    rate: Sequence[float]
    """The probability of a click at each position."""

    @property
    def max_positions(self) -> int:
        return len(self.rate)
