"""The cascade model: a user goes down the list to the first item that attracts, clicks it, and is done.

The first position is always examined, and each next one only if nothing above it was clicked. So there is at
most one click, and what stands below it was not seen.

Craswell, Zoeter, Taylor, Ramsey: An Experimental Comparison of Click Position-Bias Models (WSDM 2008);
section 2.2 of Zoghi et al. (ICML 2017).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.contract import Functions, Patterns
from clickbandit.click_models.fitting import FitOptions, GroupedCounts, ParameterEstimate, shares, sums
from clickbandit.click_models.patterns import CHANCE, CHOOSE, add_factor
from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path

# --- parameters ---------------------------------------------------------------------------------------------


class Params(NamedTuple):
    """The model's probabilities as arrays."""

    attraction: FloatArray
    """For each item."""


# --- one user's clicks --------------------------------------------------------------------------------------


@kernel
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    """One random number says how far the user gets: to each position and no further with the probability of a click."""
    u = rng.random()
    examined = 1.0
    for k in range(len(ranking)):
        further = examined * (1 - params.attraction[ranking[k]])
        clicks[k] = further <= u < examined
        examined = further


# --- the law of clicks given a list -------------------------------------------------------------------------


@kernel
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    examined = 1.0
    for k in range(len(ranking)):
        a = params.attraction[ranking[k]]
        out[k] = examined * a
        examined *= 1 - a


@kernel
def examination_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    examined = 1.0
    for k in range(len(ranking)):
        a = params.attraction[ranking[k]]
        out[k] = examined
        examined *= 1 - a


@kernel
def log_likelihood(params: Params, ranking: IntArray, clicks: IntArray) -> float:
    total = 0.0
    examined = 1.0  # given the clicks above
    for k in range(len(ranking)):
        p = examined * params.attraction[ranking[k]]
        q = p if clicks[k] else 1 - p
        if q <= 0:
            return -math.inf
        total += math.log(q)
        if clicks[k]:
            examined = 0.0
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
    """As `patterns.pattern_law`, in closed form: at most one item is clicked.

    An item of a batch is clicked when the user gets there, it attracts, and nothing above it in its batch does. Those
    above are a random subset of the others, of a size that is uniform too.
    """
    n = len(shown)
    n_fillers = len(batch) - n if len(pool) > 0 else 0
    fillers, others = work[: len(pool) + 2], work[len(pool) + 2 :]
    fillers[0] = 1.0
    for i in range(len(pool)):
        add_factor(fillers, i, 1 - params.attraction[pool[i]])
    reached = 1.0
    left = 1.0
    for k in range(n):
        if batch[k] == k:
            reached = left
        n_others = 0
        others[0] = 1.0
        for other in range(batch[k], n):
            if other != k and batch[other] == batch[k]:
                add_factor(others, n_others, 1 - params.attraction[shown[other]])
                n_others += 1
        n_filled = n_fillers if batch[k] == batch[-1] else 0
        unattracted = 0.0
        for known in range(n_others + 1):
            for filled in range(n_filled + 1):
                ways = CHOOSE[n_filled, filled] * CHANCE[n_others + n_filled, known + filled]
                unattracted += others[known] * ways * fillers[filled] * CHANCE[len(pool), filled]
        outcomes[k] = 1 << k
        law[k] = reached * params.attraction[shown[k]] * unattracted / (n_others + n_filled + 1)
        left *= 1 - params.attraction[shown[k]]
    outcomes[n] = 0
    law[n] = left * fillers[n_fillers] * CHANCE[len(pool), n_fillers]
    if n_fillers == 0:
        return n + 1
    outcomes[n + 1] = 1 << n
    law[n + 1] = 1.0
    for i in range(n + 1):
        law[n + 1] -= law[i]
    law[n + 1] = max(0.0, law[n + 1])
    return n + 2


# --- fitting ------------------------------------------------------------------------------------------------


def fit(counts: GroupedCounts, options: FitOptions) -> ParameterEstimate:
    """Clicks by times shown with no click above: users look no further than their first click."""
    cells = counts.cells
    first = cells.previous == cells.position
    pair, n = cells.pair[first], counts.n_pairs
    clicked, shown = sums(pair, cells.clicked[first], n), sums(pair, cells.shown[first], n)
    return shares({"attraction": (clicked, shown)}, options)


@dataclass(frozen=True)
class CascadeModel(ClickModel):
    """Users who click the first item that attracts them, and look no further.

    >>> model = CascadeModel(attraction=[0.9, 0.5, 0.2])
    >>> model.click_probability([1, 0]).tolist()
    [0.5, 0.45]
    """

    paper = "Craswell et al. 2008"
    functions = Functions(Params, click, click_probability, examination_probability, log_likelihood, fit)
    patterns = Patterns(pattern_law, closed_form=True, first_attractive=True)

    def best_list(self, n_positions: int) -> list[int]:
        return self.by_attraction()[:n_positions]
