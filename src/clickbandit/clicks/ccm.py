"""The click chain model: whether a user goes on depends on the click and on how relevant the item was.

A user goes down the list and clicks what attracts. After no click the user goes on with probability
continue_no_click (tau1 in the paper). A clicked item turns out to be relevant with the same probability with
which it attracts, drawn anew, and then the user goes on with probability continue_click_relevant (tau3), else
with continue_click_irrelevant (tau2).

Guo, Liu, Kannan, Minka, Taylor, Wang, Faloutsos: Click Chain Model in Web Search (WWW 2009).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit.clicks._base import ClickModel
from clickbandit.kernel import FloatArray, IntArray, kernel

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


@dataclass(frozen=True)
class ClickChainModel(ClickModel):
    """Users who click what attracts them, and go on or not by whether they clicked and found it relevant.

    >>> model = ClickChainModel([0.9, 0.5, 0.2], 0.8, 0.7, 0.3)
    >>> model.click_probability([1, 0]).round(6).tolist()
    [0.5, 0.585]
    """

    paper = "Guo, Liu, Kannan et al. 2009"

    continue_no_click: float
    """The probability of going on after a position that was not clicked (tau1)."""
    continue_click_irrelevant: float
    """The probability of going on after a click on an item that was not relevant (tau2)."""
    continue_click_relevant: float
    """The probability of going on after a click on an item that was relevant (tau3)."""
