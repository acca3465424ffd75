"""The click rate by document: an item is clicked with a probability of its own, wherever it stands.

A baseline: it takes every item that was shown for examined, so it undervalues what stood low.
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
    """For each item."""


# --- one user's clicks --------------------------------------------------------------------------------------


@kernel
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    for k in range(len(ranking)):
        clicks[k] = rng.random() < params.rate[ranking[k]]


# --- the law of clicks given a list -------------------------------------------------------------------------


@kernel
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    for k in range(len(ranking)):
        out[k] = params.rate[ranking[k]]


@kernel
def examination_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    for k in range(len(ranking)):
        out[k] = 1.0


@kernel
def log_likelihood(params: Params, ranking: IntArray, clicks: IntArray) -> float:
    total = 0.0
    for k in range(len(ranking)):
        p = params.rate[ranking[k]]
        q = p if clicks[k] else 1 - p
        if q <= 0:
            return -math.inf
        total += math.log(q)
    return total


# --- fitting ------------------------------------------------------------------------------------------------


def fit(counts: Counts, options: Options) -> Estimate:
    """An item's clicks by its impressions."""
    cells, n = counts.by_position, counts.n_pairs
    return shares({"rate": (sums(cells.pair, cells.clicked, n), sums(cells.pair, cells.shown, n))}, options)


@dataclass(frozen=True)
class DocumentClickRate(Law):
    """Users who examine everything, and click items with a probability of their own.

    >>> DocumentClickRate(rate=[0.5, 0.25]).click_probability([1, 0]).tolist()
    [0.25, 0.5]
    """

    paper = "Chuklin, Markov, de Rijke 2015"
    by_item = ("rate",)

    rate: Sequence[float]
    """The probability that each item is clicked."""
