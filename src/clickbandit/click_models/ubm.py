"""The user browsing model: whether a user examines a position depends on where the last click above it was.

Position k is examined with probability examination[k][p] when the last click above it was at p, and with the
last entry of examination[k] when nothing above it was clicked. An item is clicked when it is examined and
attractive.

Dupret, Piwowarski: A User Browsing Model to Predict Search Engine Click Data from Past Observations (SIGIR
2008).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.contract import Functions
from clickbandit.click_models.empirical import fit_examination
from clickbandit.click_models.fitting import FitOptions, GroupedCounts, ParameterEstimate
from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.errors import InputError

# --- parameters ---------------------------------------------------------------------------------------------


class Params(NamedTuple):
    """The model's probabilities as arrays."""

    attraction: FloatArray
    """For each item."""
    examination: FloatArray
    """A square: [k, p] after a last click at p < k, [k, k] after none; the cells p > k are not used."""


# --- one user's clicks --------------------------------------------------------------------------------------


@kernel
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    last = -1
    for k in range(len(ranking)):
        examination = params.examination[k, last if last >= 0 else k]
        clicks[k] = rng.random() < examination * params.attraction[ranking[k]]
        if clicks[k]:
            last = k


# --- the law of clicks given a list -------------------------------------------------------------------------


@kernel
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    waiting = 1.0  # the probability that nothing was clicked so far
    for k in range(len(ranking)):
        p = params.examination[k, k] * params.attraction[ranking[k]]
        out[k] = waiting * p
        waiting *= 1 - p
    for last in range(len(ranking)):
        waiting = out[last]  # now, that the last click so far was there
        for k in range(last + 1, len(ranking)):
            p = params.examination[k, last] * params.attraction[ranking[k]]
            out[k] += waiting * p
            waiting *= 1 - p


@kernel
def examination_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    waiting = 1.0
    for k in range(len(ranking)):
        out[k] = waiting * params.examination[k, k]
        waiting *= 1 - params.examination[k, k] * params.attraction[ranking[k]]
    for last in range(len(ranking)):
        waiting = out[last] * params.attraction[ranking[last]]
        for k in range(last + 1, len(ranking)):
            out[k] += waiting * params.examination[k, last]
            waiting *= 1 - params.examination[k, last] * params.attraction[ranking[k]]


@kernel
def log_likelihood(params: Params, ranking: IntArray, clicks: IntArray) -> float:
    total = 0.0
    last = -1
    for k in range(len(ranking)):
        p = params.examination[k, last if last >= 0 else k] * params.attraction[ranking[k]]
        q = p if clicks[k] else 1 - p
        if q <= 0:
            return -math.inf
        total += math.log(q)
        if clicks[k]:
            last = k
    return total


# --- fitting ------------------------------------------------------------------------------------------------


def fit(counts: GroupedCounts, options: FitOptions) -> ParameterEstimate:
    """EM as in the PBM, with an examination for each position and last click above; its rows stand in one
    array."""
    cells, n = counts.cells, counts.n_positions
    slot = cells.position * (cells.position + 1) // 2 + cells.previous
    sizes = {"attraction": counts.n_pairs, "examination": n * (n + 1) // 2}
    return fit_examination(cells, slot, sizes, counts, options)


@dataclass(frozen=True)
class UserBrowsingModel(ClickModel):
    """Users whose attention to a position depends on how far above it they last clicked.

    >>> model = UserBrowsingModel(attraction=[0.9, 0.5, 0.2], examination=[[1], [0.8, 0.4]])
    >>> model.click_probability([1, 0]).round(6).tolist()
    [0.5, 0.54]
    """

    paper = "Dupret, Piwowarski 2008"
    functions = Functions(Params, click, click_probability, examination_probability, log_likelihood, fit)

    examination: Sequence[Sequence[float]]
    """For position k, k probabilities: after a last click at 1, 2, .., k - 1, and after no click."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for k, row in enumerate(self.examination, start=1):
            if len(row) != k:
                raise InputError(
                    f"{self.name}: examination must have {k} values in row {k} "
                    f"(one for each position above with the last click, and one for none), found {len(row)}"
                )

    @property
    def max_positions(self) -> int:
        return min(self.n_items, len(self.examination))

    @property
    def params(self) -> Params:
        square = np.zeros((len(self.examination), len(self.examination)))
        for k, row in enumerate(self.examination):
            square[k, : k + 1] = row
        return Params(np.asarray(self.attraction, float), square)
