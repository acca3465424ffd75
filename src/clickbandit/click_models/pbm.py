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

from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.contract import Functions, Patterns
from clickbandit.click_models.empirical import fit_examination
from clickbandit.click_models.fitting import FitOptions, GroupedCounts, ParameterEstimate
from clickbandit.click_models.patterns import CHANCE, CHOOSE, add_factor, bits
from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path

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


@slow_path
def pattern_law(
    params: Params,
    shown: IntArray,
    batch: IntArray,
    first: int,
    pool: IntArray,
    outcomes: IntArray,
    law: FloatArray,
    work: FloatArray,
    spare: IntArray,
) -> int:
    """As `patterns.pattern_law`, in closed form.

    For a set of items and a number of fillers to be clicked, all of them must attract and all of their positions must
    be examined. These are a random subset of the batch's positions, so how probable that is depends only on how many
    they are. The probabilities that exactly these are clicked follow from those that at least these are.
    """
    n = len(shown) - first
    n_fillers = len(batch) - len(shown) if len(pool) > 0 else 0
    size = n + n_fillers
    examined, attracted = work[: size + 1], work[size + 1 :]
    examined[0] = attracted[0] = 1.0
    for k in range(size):
        add_factor(examined, k, params.examination[first + k])
    for i in range(len(pool)):
        add_factor(attracted, i, params.attraction[pool[i]])
    n_outcomes = n_fillers + 1 << n
    for outcome in range(n_outcomes):
        outcomes[outcome] = outcome
    law[0] = 1.0
    for k in range(n):
        for pattern in range(1 << k):
            law[pattern | 1 << k] = law[pattern] * params.attraction[shown[first + k]]
    for exactly in range(n_fillers, -1, -1):
        for clicked in range(n + 1):
            weight = 0.0
            for at_least in range(exactly, n_fillers + 1):
                sign = 1 - 2 * ((at_least - exactly) & 1)
                these = CHOOSE[n_fillers, at_least] * attracted[at_least] * CHANCE[len(pool), at_least]
                seen = examined[clicked + at_least] * CHANCE[size, clicked + at_least]
                weight += sign * CHOOSE[at_least, exactly] * these * seen
            for pattern in range(1 << n):
                if bits(pattern) == clicked:
                    law[pattern | exactly << n] = law[pattern] * weight
    make_exact(law, n, n_outcomes)
    return n_outcomes


@kernel
def make_exact(law: FloatArray, n: int, n_outcomes: int) -> None:
    """From the probabilities that at least these of n items are clicked, those that exactly these are."""
    for k in range(n):
        for outcome in range(n_outcomes):
            if not outcome >> k & 1:
                law[outcome] = max(0.0, law[outcome] - law[outcome | 1 << k])


# --- fitting ------------------------------------------------------------------------------------------------


def fit(counts: GroupedCounts, options: FitOptions) -> ParameterEstimate:
    """EM over (query, item, position): without a click, the item did not attract or nobody looked."""
    cells = counts.by_position
    sizes = {"attraction": counts.n_pairs, "examination": counts.n_positions}
    return fit_examination(cells, cells.position, sizes, counts, options)


@dataclass(frozen=True)
class PositionBasedModel(ClickModel):
    """Users who examine each position with a probability of its own, whatever stands there.

    >>> model = PositionBasedModel(attraction=[0.9, 0.5, 0.2], examination=[1, 0.6])
    >>> model.click_probability([1, 0]).tolist()
    [0.5, 0.54]
    """

    paper = "Richardson et al. 2007"
    functions = Functions(Params, click, click_probability, examination_probability, log_likelihood, fit)
    patterns = Patterns(pattern_law, closed_form=True, independent_batches=True, independent_positions=True)

    examination: Sequence[float]
    """The probability that each position is examined."""

    @property
    def max_positions(self) -> int:
        return min(self.n_items, len(self.examination))

    def best_list(self, n_positions: int) -> list[int]:
        """The more attractive item where more users look."""
        positions = np.argsort(-np.asarray(self.examination[:n_positions]), kind="stable")
        ranking = np.empty(n_positions, np.int64)
        ranking[positions] = self.by_attraction()[:n_positions]
        return [int(item) for item in ranking]
