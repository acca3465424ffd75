"""Click rates: baselines that know the position, or the item, or nothing, and no users.

A click model that describes a log no better than these has learned nothing. GCTR is one rate for everything; RCTR has
one for each position, whatever stands there, so it knows that users look at the top first; DCTR has one for each item,
wherever it stands: it takes every item that was shown for examined, so it undervalues what stood low.

Chuklin, Markov, de Rijke: Click Models for Web Search (2015), section 3.1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit.click_models.base import Law
from clickbandit.click_models.contract import Functions
from clickbandit.click_models.fitting import FitOptions, GroupedCounts, ParameterEstimate, shares, sums
from clickbandit.compiling.kernel import FloatArray, IntArray, kernel

# --- parameters ---------------------------------------------------------------------------------------------


class Params(NamedTuple):
    """The click rates as an array."""

    rate: FloatArray
    """One for all, one for each position, or one for each item."""
    by_position: bool
    by_item: bool


@kernel
def rate_at(params: Params, ranking: IntArray, k: int) -> float:
    """The rate of the item at a position."""
    if params.by_item:
        return float(params.rate[ranking[k]])
    return float(params.rate[k if params.by_position else 0])


# --- one user's clicks --------------------------------------------------------------------------------------


@kernel
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    for k in range(len(ranking)):
        clicks[k] = rng.random() < rate_at(params, ranking, k)


# --- the law of clicks given a list -------------------------------------------------------------------------


@kernel
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    for k in range(len(ranking)):
        out[k] = rate_at(params, ranking, k)


@kernel
def examination_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    for k in range(len(ranking)):
        out[k] = 1.0


@kernel
def log_likelihood(params: Params, ranking: IntArray, clicks: IntArray) -> float:
    total = 0.0
    for k in range(len(ranking)):
        p = rate_at(params, ranking, k)
        q = p if clicks[k] else 1 - p
        if q <= 0:
            return -math.inf
        total += math.log(q)
    return total


_FUNCTIONS = Functions(Params, click, click_probability, examination_probability, log_likelihood)


# --- fitting ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GlobalClickRate(Law):
    """Users who click anything anywhere alike.

    >>> GlobalClickRate(rate=0.25).click_probability([1, 0]).tolist()
    [0.25, 0.25]
    """

    paper = "Chuklin, Markov, de Rijke 2015"
    functions = _FUNCTIONS
    key = "GCTR"

    rate: float
    """The probability of a click."""

    @property
    def params(self) -> Params:
        return Params(np.array([self.rate]), by_position=False, by_item=False)

    @classmethod
    def fit(cls, counts: GroupedCounts, options: FitOptions) -> ParameterEstimate:
        """Clicks by items shown."""
        cells = counts.by_position
        return shares({"rate": (cells.clicked.sum(keepdims=True), cells.shown.sum(keepdims=True))}, options)


@dataclass(frozen=True)
class RankClickRate(Law):
    """Users who click positions, whatever they show.

    >>> RankClickRate(rate=[0.5, 0.25]).click_probability([1, 0]).tolist()
    [0.5, 0.25]
    """

    paper = "Chuklin, Markov, de Rijke 2015"
    functions = _FUNCTIONS
    key = "RCTR"

    rate: Sequence[float]
    """The probability of a click at each position."""

    @property
    def params(self) -> Params:
        return Params(np.asarray(self.rate, float), by_position=True, by_item=False)

    @property
    def max_positions(self) -> int:
        return len(self.rate)

    @classmethod
    def fit(cls, counts: GroupedCounts, options: FitOptions) -> ParameterEstimate:
        """Clicks by lists that are long enough."""
        cells, n = counts.by_position, counts.n_positions
        clicked, shown = sums(cells.position, cells.clicked, n), sums(cells.position, cells.shown, n)
        return shares({"rate": (clicked, shown)}, options)


@dataclass(frozen=True)
class DocumentClickRate(Law):
    """Users who examine everything, and click items with a probability of their own.

    >>> DocumentClickRate(rate=[0.5, 0.25]).click_probability([1, 0]).tolist()
    [0.25, 0.5]
    """

    paper = "Chuklin, Markov, de Rijke 2015"
    functions = _FUNCTIONS
    key = "DCTR"
    by_item = ("rate",)

    rate: Sequence[float]
    """The probability that each item is clicked."""

    @property
    def params(self) -> Params:
        return Params(np.asarray(self.rate, float), by_position=False, by_item=True)

    @classmethod
    def fit(cls, counts: GroupedCounts, options: FitOptions) -> ParameterEstimate:
        """An item's clicks by its impressions."""
        cells, n = counts.by_position, counts.n_pairs
        return shares(
            {"rate": (sums(cells.pair, cells.clicked, n), sums(cells.pair, cells.shown, n))}, options
        )
