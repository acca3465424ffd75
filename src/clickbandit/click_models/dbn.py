"""The dynamic Bayesian model: a user goes on clicking until an item satisfies, or until patience ends.

A user goes down the list and clicks what attracts. An item that was clicked satisfies the user with a
probability of its own, satisfaction[d], and a satisfied user stops. Any other user, after a click or none,
goes on to the next position only with probability continuation (gamma in the paper).

Chapelle, Zhang: A Dynamic Bayesian Network Click Model for Web Search Ranking (WWW 2009).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit.click_models import pyclick
from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.contract import Functions
from clickbandit.click_models.em import Step, Values, maximise
from clickbandit.click_models.fitting import Endings, FitOptions, GroupedCounts, ParameterEstimate
from clickbandit.compiling.kernel import FloatArray, IntArray, entry_point, kernel

# --- parameters ---------------------------------------------------------------------------------------------


class Params(NamedTuple):
    """The model's probabilities."""

    attraction: FloatArray
    """For each item."""
    satisfaction: FloatArray
    """For each item."""
    continuation: float
    """The same everywhere."""


# --- one user's clicks --------------------------------------------------------------------------------------


@kernel
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    clicks[:] = 0
    for k in range(len(ranking)):
        goes_on = params.continuation
        if rng.random() < params.attraction[ranking[k]]:
            clicks[k] = 1
            goes_on *= 1 - params.satisfaction[ranking[k]]
        if rng.random() >= goes_on:
            break


# --- the law of clicks given a list -------------------------------------------------------------------------


@kernel
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    examined = 1.0
    for k in range(len(ranking)):
        a = params.attraction[ranking[k]]
        out[k] = examined * a
        examined *= params.continuation * (1 - a * params.satisfaction[ranking[k]])


@kernel
def examination_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    examined = 1.0
    for k in range(len(ranking)):
        a = params.attraction[ranking[k]]
        out[k] = examined
        examined *= params.continuation * (1 - a * params.satisfaction[ranking[k]])


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
            examined = params.continuation * (1 - params.satisfaction[ranking[k]])
        else:
            examined *= params.continuation * (1 - a) / q
    return total


# --- fitting ------------------------------------------------------------------------------------------------


def fit(counts: GroupedCounts, options: FitOptions) -> ParameterEstimate:
    """EM over lists and their last clicks: did users stop there, or go on and like nothing?"""
    sizes = {"attraction": counts.n_pairs, "satisfaction": counts.n_pairs, "continuation": 1}
    exact = expectation(counts)
    step = pyclick.step(pyclick.dbn, exact, counts.endings) if options.compat == "pyclick" else exact
    return maximise(sizes, step, counts, options, exact=exact, by_pair=2)


def expectation(counts: GroupedCounts) -> Step:
    """The step of exact EM."""
    endings, below = counts.endings, np.zeros(counts.n_positions + 1)
    return lambda values, num, den: _expect(values, num, den, endings, below)


@entry_point
def _expect(values: Values, num: Values, den: Values, endings: Endings, below: FloatArray) -> float:
    """Expected counts by one pass up and one down each list, whatever the number of its sessions.

    `below` has room for the chance of a click from each position of a list on, given that it is examined.
    """
    attraction, satisfaction, gamma = values[0], values[1], values[2][0]
    total = onward = 0.0
    for i in range(len(endings.none)):
        start, end = endings.start[i], endings.start[i + 1]
        below[end - start] = 0
        reached = 0.0  # sessions whose last click is here or below
        for j in range(end - 1, start - 1, -1):
            a = attraction[endings.pair[j]]
            below[j - start] = a + (1 - a) * gamma * below[j - start + 1]
            reached += endings.last[j]
        n_sessions = reached + endings.none[i]
        if endings.none[i] > 0:
            total += endings.none[i] * math.log(1 - below[0])
        quiet = endings.none[i]  # sessions that examine this position and click nothing from here on
        for j in range(start, end):
            d, here, more = endings.pair[j], endings.last[j], below[j - start + 1]
            den[0][d] += n_sessions
            num[0][d] += (n_sessions - reached - quiet) * attraction[d]  # where not examined
            reached -= here
            went_on = quiet * gamma * (1 - more) / (1 - gamma * more)
            den[2][0] += reached + quiet
            if here > 0:
                s = satisfaction[d]
                silent = 1 - (1 - s) * gamma * more  # the chance of no click after the one here
                total += here * math.log(silent)
                num[1][d] += here * s / silent
                den[2][0] += here * (1 - s / silent)
                went_on += here * gamma * (1 - s) * (1 - more) / silent
            num[2][0] += reached + went_on
            onward += reached
            quiet = went_on
    total += onward * math.log(gamma)
    for d in range(len(attraction)):
        clicked = endings.clicked[d]
        num[0][d] += clicked
        den[1][d] += clicked
        if clicked > 0:
            total += clicked * math.log(attraction[d])
        if endings.certain[d] > clicked:
            total += (endings.certain[d] - clicked) * math.log(1 - attraction[d])
        if clicked > endings.ended[d]:
            total += (clicked - endings.ended[d]) * math.log(1 - satisfaction[d])
    return total


@dataclass(frozen=True)
class DynamicBayesianModel(ClickModel):
    """Users who click what attracts them until an item that they clicked satisfies them, or they give up.

    >>> model = DynamicBayesianModel([0.9, 0.5, 0.2], satisfaction=[0.8, 0.5, 0.1], continuation=0.8)
    >>> model.click_probability([1, 0]).round(6).tolist()
    [0.5, 0.54]
    """

    paper = "Chapelle, Zhang 2009"
    functions = Functions(Params, click, click_probability, examination_probability, log_likelihood, fit)
    by_item = ("attraction", "satisfaction")

    satisfaction: Sequence[float]
    """The probability that each item satisfies the user who clicked it."""
    continuation: float
    """The probability that a user who is not satisfied goes on to the next position."""
