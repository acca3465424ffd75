"""What the policies for the position-based model share: the users' examination, which they are told, and the counts.

In the position-based model item i at position k is clicked with probability kappa_k theta_i: position k is examined
with probability kappa_k (the examination), and item i then attracts with probability theta_i. The papers number
positions by decreasing examination. Here they may come in any order, as on a page with two columns: the best item
goes where users look most, the next one where they look second most, and "the last position" is the one where they
look least.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clickbandit.errors import InputError
from clickbandit.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.policies._base import Policy

# --- what the policies are told -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PBMPolicy(Policy):
    """A policy that is told the examination: by the click model in simulation, by its setting live."""

    knows = ("examination",)

    examination: str = ""
    """The probability that each position is examined, as 1/0.8/0.5; empty: that of the simulated users."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.examination:
            read_examination(self.examination)


def read_examination(given: str | Sequence[float], n_positions: int = 0) -> FloatArray:
    """The examination of the first positions, from the setting's text or from a click model's numbers."""
    if len(given) == 0:
        raise InputError(
            "the users' examination must be told: set examination to a probability for each position, as 1/0.8/0.5"
        )
    try:
        values = [float(value) for value in (given.split("/") if isinstance(given, str) else given)]
    except ValueError:
        values = []
    if not values or not all(0 < value <= 1 for value in values[: n_positions or None]):
        raise InputError(
            f"examination must be probabilities above 0 and at most 1, as 1/0.8/0.5, found {given!r}"
        )
    if len(values) < n_positions:
        raise InputError(
            f"examination must have a probability for each of the {n_positions} positions, found {len(values)}: "
            f"{given!r}"
        )
    return np.array(values[:n_positions])


def by_examination(examination: FloatArray) -> IntArray:
    """The positions, those that users examine most first."""
    return np.argsort(-examination, kind="stable")


# --- what was seen ------------------------------------------------------------------------------------------


@kernel
def learn(state: Any, ranking: IntArray, clicks: IntArray) -> None:
    """Count a list's displays N_ik and clicks S_ik, and M_i = sum_k kappa_k N_ik of the items on it.

    M_i is summed up anew each time: as a running total it would gather rounding errors, and items with the same
    counts would not be the same.
    """
    for k in range(len(ranking)):
        item = ranking[k]
        state.displays[item, k] += 1
        state.clicks[item, k] += clicks[k]
        clicked, examined = 0, 0.0
        for j in range(len(ranking)):
            clicked += state.clicks[item, j]
            examined += state.examination[j] * state.displays[item, j]
        state.examined[item] = examined
        state.estimate[item] = clicked / examined


@kernel
def show(order: IntArray, places: IntArray, ranking: IntArray) -> None:
    """The first items in this order, the best one where users look most."""
    for k in range(len(ranking)):
        ranking[places[k]] = order[k]


def best(state: Any, ranking: IntArray) -> None:
    """The items with the highest estimated attraction, the best one where users look most."""
    ranking[state.places] = np.argsort(-state.estimate, kind="stable")[: len(ranking)]


def describe_items(state: Any, high: FloatArray | None = None) -> list[dict[str, Any]]:
    """For each item what was seen of it, its estimated attraction, and the bound from above if there is one."""
    rows = []
    for item, (shown, clicks) in enumerate(zip(state.displays, state.clicks, strict=True)):
        row: dict[str, Any] = {"item": item, "observed": int(shown.sum()), "clicks": int(clicks.sum())}
        if shown.any():
            row["estimate"] = float(state.estimate[item])
        if high is not None:
            row["high"] = min(1.0, float(high[item]))
        rows.append(row)
    return rows


# --- the likelihood of an item's attraction -----------------------------------------------------------------

MOST_ITERATIONS = 64
CLOSE = 1e-7
"""Newton's method is done when it moves by less than this share: the next step would be the square of it."""
NOWHERE = -1
"""Stands for a position to be left out where none is."""


@kernel
def log_likelihood(
    clicks: IntArray, displays: IntArray, examination: FloatArray, but: int, attraction: float
) -> float:
    """The sum of S_k log theta + (N_k - S_k) log(1 - kappa_k theta) over all positions k but one."""
    total = 0.0
    clicked = 0
    for k in range(len(clicks)):
        if k == but:
            continue
        clicked += clicks[k]
        if displays[k] > clicks[k]:
            missed = 1 - examination[k] * attraction
            if missed <= 0:
                return -math.inf
            total += (displays[k] - clicks[k]) * math.log(missed)
    if clicked > 0:
        if attraction <= 0:
            return -math.inf
        total += clicked * math.log(attraction)
    return total


@slow_path
def likeliest(clicks: IntArray, displays: IntArray, examination: FloatArray, but: int, start: float) -> float:
    """The attraction in [0, 1] that makes an item's clicks at all positions but one the most probable.

    Newton's method for `surplus` = 0, with a bisection wherever it would leave the bracket; 0 without any click.
    """
    if surplus(clicks, displays, examination, but, 0.0)[0] >= 0:
        return 0.0
    if surplus(clicks, displays, examination, but, 1.0)[0] <= 0:
        return 1.0
    low, high = 0.0, 1.0
    attraction = start if 0 < start < 1 else 0.5
    for _ in range(MOST_ITERATIONS):
        excess, slope = surplus(clicks, displays, examination, but, attraction)
        if excess > 0:
            high = attraction
        else:
            low = attraction
        step = excess / slope
        attraction -= step
        if abs(step) <= CLOSE * min(attraction, 1 - attraction):
            break
        if not low < attraction < high:
            attraction = (low + high) / 2
    return attraction


@kernel
def surplus(
    clicks: IntArray, displays: IntArray, examination: FloatArray, but: int, attraction: float
) -> tuple[float, float]:
    """The sum of (N_k - S_k) kappa_k q / (1 - kappa_k q) - S_k at attraction q, and its slope, which is positive.

    That is -q times the slope of the log-likelihood.
    """
    excess, slope = 0.0, 0.0
    for k in range(len(clicks)):
        if k != but:
            excess -= clicks[k]
            missed = displays[k] - clicks[k]
            if missed > 0:
                rest = 1 - examination[k] * attraction
                if rest <= 0:
                    return math.inf, math.inf
                ratio = missed * examination[k] / rest
                excess += ratio * attraction
                slope += ratio / rest
    return excess, slope
