"""The dependent click model: a cascade with several clicks, where each position has its own chance to end it.

A user goes down the list and clicks what attracts. After a click at position k the user stops with
probability termination[k], and else goes on; after no click the user always goes on.

Guo, Liu, Wang: Efficient Multiple-Click Models in Web Search (WSDM 2009).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.contract import Functions
from clickbandit.click_models.fitting import FitOptions, GroupedCounts, ParameterEstimate, shares, sums
from clickbandit.compiling.kernel import FloatArray, IntArray, kernel

# --- parameters ---------------------------------------------------------------------------------------------


class Params(NamedTuple):
    """The model's probabilities as arrays."""

    attraction: FloatArray
    """For each item."""
    termination: FloatArray
    """For each position."""


# --- one user's clicks --------------------------------------------------------------------------------------


@kernel
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    clicks[:] = 0
    for k in range(len(ranking)):
        if rng.random() < params.attraction[ranking[k]]:
            clicks[k] = 1
            if rng.random() < params.termination[k]:
                break


# --- the law of clicks given a list -------------------------------------------------------------------------


@kernel
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    examined = 1.0
    for k in range(len(ranking)):
        a = params.attraction[ranking[k]]
        out[k] = examined * a
        examined *= 1 - a * params.termination[k]


@kernel
def examination_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    examined = 1.0
    for k in range(len(ranking)):
        a = params.attraction[ranking[k]]
        out[k] = examined
        examined *= 1 - a * params.termination[k]


@kernel
def log_likelihood(params: Params, ranking: IntArray, clicks: IntArray) -> float:
    total = 0.0
    examined = 1.0  # given the clicks above
    for k in range(len(ranking)):
        a = params.attraction[ranking[k]]
        p = examined * a
        q = p if clicks[k] else 1 - p
        if q <= 0:
            return -math.inf
        total += math.log(q)
        if clicks[k]:
            examined = 1 - params.termination[k]
        else:
            examined *= (1 - a) / q
    return total


# --- fitting ------------------------------------------------------------------------------------------------


def fit(counts: GroupedCounts, options: FitOptions) -> ParameterEstimate:
    """Clicks by times shown down to the last click; and of the clicks at a position, the share that were the
    last."""
    cells, n = counts.cells, counts.n_pairs
    last, clicked = (sums(cells.position, part, counts.n_positions) for part in (cells.last, cells.clicked))
    return shares(
        {
            "attraction": (sums(cells.pair, cells.clicked, n), sums(cells.pair, cells.until_last, n)),
            "termination": (last, clicked),
        },
        options,
    )


@dataclass(frozen=True)
class DependentClickModel(ClickModel):
    """Users who click what attracts them, and after a click stop with a probability that the position sets.

    >>> model = DependentClickModel(attraction=[0.9, 0.5, 0.2], termination=[0.5, 0.1])
    >>> model.click_probability([1, 0]).tolist()
    [0.5, 0.675]
    """

    paper = "Guo, Liu, Wang 2009"
    functions = Functions(Params, click, click_probability, examination_probability, log_likelihood, fit)

    termination: Sequence[float]
    """The probability that a click at each position is the last."""

    @property
    def max_positions(self) -> int:
        return min(self.n_items, len(self.termination))
