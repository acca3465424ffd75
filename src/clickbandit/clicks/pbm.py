"""The position-based model: a user examines each position with a probability of its own, and clicks what
attracts.

Positions are examined independently of each other and of the items: position k with probability
examination[k]. The item there is clicked when it is examined and attractive.

Richardson, Dominowska, Ragno: Predicting Clicks (WWW 2007); section 2.1 of Zoghi et al. (ICML 2017).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit.clicks._base import ClickModel
from clickbandit.clicks._em import examination, maximise
from clickbandit.clicks._fitting import Counts, Estimate, Options
from clickbandit.kernel import FloatArray, IntArray, kernel

# --- parameters ---------------------------------------------------------------------------------------------


class Params(NamedTuple):
    """The model's probabilities as arrays."""

    attraction: FloatArray
    """For each item."""
    examination: FloatArray
    """For each position."""


# --- one user's clicks --------------------------------------------------------------------------------------


@kernel
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    for k in range(len(ranking)):
        clicks[k] = rng.random() < params.examination[k] * params.attraction[ranking[k]]


# --- the law of clicks given a list -------------------------------------------------------------------------


@kernel
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    for k in range(len(ranking)):
        out[k] = params.examination[k] * params.attraction[ranking[k]]


@kernel
def examination_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    for k in range(len(ranking)):
        out[k] = params.examination[k]


@kernel
def log_likelihood(params: Params, ranking: IntArray, clicks: IntArray) -> float:
    total = 0.0
    for k in range(len(ranking)):
        p = params.examination[k] * params.attraction[ranking[k]]
        q = p if clicks[k] else 1 - p
        total += math.log(q) if q > 0 else -math.inf
    return total


# --- fitting ------------------------------------------------------------------------------------------------


def fit(counts: Counts, options: Options) -> Estimate:
    """EM over (query, item, position): without a click, the item did not attract or nobody looked."""
    cells = counts.by_position
    sizes = {"attraction": counts.n_pairs, "examination": counts.n_positions}
    return maximise(sizes, examination(cells, cells.position), counts, options, separate=True)


@dataclass(frozen=True)
class PositionBasedModel(ClickModel):
    """Users who examine each position with a probability of its own, whatever stands there.

    >>> model = PositionBasedModel(attraction=[0.9, 0.5, 0.2], examination=[1, 0.6])
    >>> model.click_probability([1, 0]).tolist()
    [0.5, 0.54]
    """

    paper = "Richardson et al. 2007"

    examination: Sequence[float]
    """The probability that each position is examined."""

    @property
    def max_positions(self) -> int:
        return min(self.n_items, len(self.examination))

    def best_list(self, n_positions: int) -> list[int]:
        """The more attractive item where more users look."""
        items = np.argsort(-np.asarray(self.attraction), kind="stable")[:n_positions]
        positions = np.argsort(-np.asarray(self.examination[:n_positions]), kind="stable")
        ranking = np.empty(n_positions, np.int64)
        ranking[positions] = items
        return [int(item) for item in ranking]
