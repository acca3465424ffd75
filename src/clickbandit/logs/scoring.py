"""How probable clicks are under a click model: a template, of which `compiling.specialise` makes one module for each
model."""

import math
from typing import Any

from clickbandit.click_models.pbm import click_probability, log_likelihood  # model
from clickbandit.compiling.kernel import FloatArray, IntArray, entry_point

IMPOSSIBLE = 1e-6
"""The probability that stands for what a model holds to be impossible, such as a second click in the CM."""


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
    """The logarithm of the probability of each click or none, given the clicks above, a row for each pattern.

    A list's beginning has the law of a shorter list, so it is the difference of two log-likelihoods. An
    impossible click is forgotten once it is paid for. `seen` has room for the clicks on a list.
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
