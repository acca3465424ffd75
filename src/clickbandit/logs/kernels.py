"""A click model over many sessions: what users click, and how probable their clicks are.

This is a template, of which `compiling.specialise` makes one module for each click model.
"""

import math
from typing import Any

import numpy as np

from clickbandit.click_models.pbm import click, click_probability, log_likelihood  # model
from clickbandit.compiling.kernel import FloatArray, IntArray, entry_point

IMPOSSIBLE = 1e-6
"""The probability that stands for what a model considers impossible, such as a second click in the CM."""


@entry_point
def simulate(
    params: Any, rng: np.random.Generator, lists: IntArray, which: IntArray, clicks: IntArray
) -> None:
    """One user for each entry of `which`, who sees that row of `lists` and fills a row of `clicks`."""
    for i in range(len(which)):
        click(params, rng, lists[which[i]], clicks[i])


@entry_point
def marginal(params: Any, start: IntArray, item: IntArray, out: FloatArray) -> None:
    """The probability of a click at each position of each list, whatever is clicked above."""
    for i in range(len(start) - 1):
        click_probability(params, item[start[i] : start[i + 1]], out[start[i] : start[i + 1]])


@entry_point
def conditional(
    params: Any,
    start: IntArray,
    item: IntArray,
    which: IntArray,
    clicks: IntArray,
    seen: IntArray,
    out: FloatArray,
) -> None:
    """The log-probability of each click or non-click given the clicks above, a row for each pattern.

    The top of a list follows the law of a shorter list, so it is the difference of two log-likelihoods. An
    impossible click is charged once and then ignored. `seen` has room for the clicks on a list.
    """
    for i in range(len(which)):
        shown = item[start[which[i]] : start[which[i] + 1]]
        above = 0.0
        for k in range(len(shown)):
            seen[k] = (clicks[i] >> k) & 1
            upto = log_likelihood(params, shown[: k + 1], seen[: k + 1])
            out[i, k] = max(upto - above, math.log(IMPOSSIBLE))
            if upto == -math.inf:
                seen[k] = 1 - seen[k]
                upto = log_likelihood(params, shown[: k + 1], seen[: k + 1])
            above = upto
