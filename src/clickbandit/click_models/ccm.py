"""The click chain model: whether a user goes on depends on the click and on how relevant the item was.

A user goes down the list and clicks what attracts. After no click the user goes on with probability
continue_no_click (tau1 in the paper). A clicked item turns out to be relevant with the same probability with
which it attracts, drawn again, and then the user goes on with probability continue_click_relevant (tau3), else
with continue_click_irrelevant (tau2).

Guo, Liu, Kannan, Minka, Taylor, Wang, Faloutsos: Click Chain Model in Web Search (WWW 2009).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit.click_models import pyclick
from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.contract import Functions
from clickbandit.click_models.em import Values, maximise
from clickbandit.click_models.fitting import Endings, FitOptions, GroupedCounts, ParameterEstimate
from clickbandit.compiling.kernel import FloatArray, IntArray, entry_point, kernel

# --- parameters ---------------------------------------------------------------------------------------------


class Params(NamedTuple):
    """The model's probabilities."""

    attraction: FloatArray
    """For each item."""
    continue_no_click: float
    continue_click_irrelevant: float
    continue_click_relevant: float


# --- one user's clicks --------------------------------------------------------------------------------------


@kernel
def click(params: Params, rng: np.random.Generator, ranking: IntArray, clicks: IntArray) -> None:
    clicks[:] = 0
    for k in range(len(ranking)):
        a = params.attraction[ranking[k]]
        goes_on = params.continue_no_click
        if rng.random() < a:
            clicks[k] = 1
            goes_on = params.continue_click_irrelevant * (1 - a) + params.continue_click_relevant * a
        if rng.random() >= goes_on:
            break


# --- the law of clicks given a list -------------------------------------------------------------------------


@kernel
def click_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    examined = 1.0
    for k in range(len(ranking)):
        a = params.attraction[ranking[k]]
        out[k] = examined * a
        after_click = params.continue_click_irrelevant * (1 - a) + params.continue_click_relevant * a
        examined *= a * after_click + (1 - a) * params.continue_no_click


@kernel
def examination_probability(params: Params, ranking: IntArray, out: FloatArray) -> None:
    examined = 1.0
    for k in range(len(ranking)):
        a = params.attraction[ranking[k]]
        out[k] = examined
        after_click = params.continue_click_irrelevant * (1 - a) + params.continue_click_relevant * a
        examined *= a * after_click + (1 - a) * params.continue_no_click


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
            examined = params.continue_click_irrelevant * (1 - a) + params.continue_click_relevant * a
        else:
            examined *= params.continue_no_click * (1 - a) / q
    return total


# --- fitting ------------------------------------------------------------------------------------------------


def fit(counts: GroupedCounts, options: FitOptions) -> ParameterEstimate:
    """EM over lists and their last clicks; whether a clicked item was relevant is a second draw of
    attraction."""
    endings = counts.endings
    sizes = {"attraction": counts.n_pairs}
    sizes |= dict.fromkeys(("continue_no_click", "continue_click_irrelevant", "continue_click_relevant"), 1)
    below = np.zeros(counts.n_positions + 1)

    def exact(values: Values, num: Values, den: Values) -> float:
        return _expect(values, num, den, endings, below)

    step = pyclick.step(pyclick.ccm, exact, endings) if options.compat == "pyclick" else exact
    return maximise(sizes, step, counts, options, exact=exact)


@entry_point
def _expect(values: Values, num: Values, den: Values, endings: Endings, below: FloatArray) -> float:
    """Expected counts by one pass up and one down each list, whatever the number of its sessions.

    `below` has room for the chance of a click from each position of a list on, given that it is examined.
    """
    attraction, tau1, tau2, tau3 = values[0], values[1][0], values[2][0], values[3][0]
    total = 0.0
    for i in range(len(endings.none)):
        start, end = endings.start[i], endings.start[i + 1]
        below[end - start] = 0
        reached = 0.0  # sessions whose last click is here or below
        for j in range(end - 1, start - 1, -1):
            a = attraction[endings.pair[j]]
            below[j - start] = a + (1 - a) * tau1 * below[j - start + 1]
            reached += endings.last[j]
        n_sessions = reached + endings.none[i]
        if endings.none[i] > 0:
            total += endings.none[i] * math.log(1 - below[0])
        quiet = endings.none[i]  # sessions that examine this position and click nothing from here on
        for j in range(start, end):
            d, here, more = endings.pair[j], endings.last[j], below[j - start + 1]
            a = attraction[d]
            den[0][d] += n_sessions
            num[0][d] += (n_sessions - reached - quiet) * a  # where not examined
            reached -= here
            went_on = quiet * tau1 * (1 - more) / (1 - tau1 * more)
            num[1][0] += reached + went_on  # less the clicks among those that reached further: see below
            den[1][0] += reached + quiet
            if here > 0:
                silent = 1 - (tau2 * (1 - a) + tau3 * a) * more  # the chance of no click after the one here
                share = here / silent
                total += here * math.log(silent)
                num[0][d] += share * a * (1 - tau3 * more)
                num[2][0] += share * (1 - a) * tau2 * (1 - more)
                den[2][0] += share * (1 - a) * (1 - tau2 * more)
                num[3][0] += share * a * tau3 * (1 - more)
                den[3][0] += share * a * (1 - tau3 * more)
                went_on += share * (tau2 * (1 - a) + tau3 * a) * (1 - more)
            quiet = went_on
    for d in range(len(attraction)):
        a, clicked = attraction[d], endings.clicked[d]
        more = clicked - endings.ended[d]  # clicks after which the user went on, and clicked again
        onward = tau2 * (1 - a) + tau3 * a
        relevant = more * tau3 * a / onward
        num[0][d] += clicked + relevant
        den[0][d] += clicked
        num[1][0] -= more
        den[1][0] -= more
        num[2][0] += more - relevant
        den[2][0] += more - relevant
        num[3][0] += relevant
        den[3][0] += relevant
        if clicked > 0:
            total += clicked * math.log(a)
        if endings.certain[d] > clicked:
            total += (endings.certain[d] - clicked) * (math.log(1 - a) + math.log(tau1))
        if more > 0:
            total += more * math.log(onward)
    return total


@dataclass(frozen=True)
class ClickChainModel(ClickModel):
    """Users who click what attracts them, and go on or not by whether they clicked and found it relevant.

    >>> model = ClickChainModel([0.9, 0.5, 0.2], 0.8, 0.7, 0.3)
    >>> model.click_probability([1, 0]).round(6).tolist()
    [0.5, 0.585]
    """

    paper = "Guo, Liu, Kannan et al. 2009"
    functions = Functions(Params, click, click_probability, examination_probability, log_likelihood, fit)

    continue_no_click: float
    """The probability of going on after a position that was not clicked (tau1)."""
    continue_click_irrelevant: float
    """The probability of going on after a click on an item that was not relevant (tau2)."""
    continue_click_relevant: float
    """The probability of going on after a click on an item that was relevant (tau3)."""
