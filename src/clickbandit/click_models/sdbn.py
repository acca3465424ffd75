"""The simplified dynamic Bayesian model: a user goes on clicking until an item satisfies.

A user goes down the list and clicks what attracts. An item that was clicked satisfies the user with a
probability of its own, satisfaction[d], and a satisfied user stops; any other user goes on to the end of the
list.

Chapelle, Zhang: A Dynamic Bayesian Network Click Model for Web Search Ranking (WWW 2009), with gamma = 1.
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
    satisfaction: FloatArray
    """For each item."""


# --- one user's clicks --------------------------------------------------------------------------------------


@kernel
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    clicks[:] = 0
    for k in range(len(ranking)):
        if rng.random() < params.attraction[ranking[k]]:
            clicks[k] = 1
            if rng.random() < params.satisfaction[ranking[k]]:
                break


# --- the law of clicks given a list -------------------------------------------------------------------------


@kernel
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    examined = 1.0
    for k in range(len(ranking)):
        a = params.attraction[ranking[k]]
        out[k] = examined * a
        examined *= 1 - a * params.satisfaction[ranking[k]]


@kernel
def examination_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    examined = 1.0
    for k in range(len(ranking)):
        a = params.attraction[ranking[k]]
        out[k] = examined
        examined *= 1 - a * params.satisfaction[ranking[k]]


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
            examined = 1 - params.satisfaction[ranking[k]]
        else:
            examined *= (1 - a) / q
    return total


# --- fitting ------------------------------------------------------------------------------------------------


def fit(counts: GroupedCounts, options: FitOptions) -> ParameterEstimate:
    """Clicks by times shown down to the last click; and of an item's clicks, the share that were the last."""
    cells, n = counts.cells, counts.n_pairs
    clicked = sums(cells.pair, cells.clicked, n)
    return shares(
        {
            "attraction": (clicked, sums(cells.pair, cells.until_last, n)),
            "satisfaction": (sums(cells.pair, cells.last, n), clicked),
        },
        options,
    )


@dataclass(frozen=True)
class SimplifiedDynamicBayesianModel(ClickModel):
    """Users who click what attracts them until an item that they clicked satisfies them.

    >>> model = SimplifiedDynamicBayesianModel(attraction=[0.9, 0.5, 0.2], satisfaction=[0.8, 0.5, 0.1])
    >>> model.click_probability([1, 0]).tolist()
    [0.5, 0.675]
    """

    paper = "Chapelle, Zhang 2009"
    functions = Functions(Params, click, click_probability, examination_probability, log_likelihood, fit)
    by_item = ("attraction", "satisfaction")

    satisfaction: Sequence[float]
    """The probability that each item satisfies the user who clicked it."""
