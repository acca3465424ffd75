"""What the policies for the position-based model share: the users' examination, which they are told, and the counts.

In the position-based model item i at position k is clicked with probability kappa_k theta_i: position k is examined
with probability kappa_k (the examination), and item i then attracts with probability theta_i. The papers number
positions by decreasing examination. Here they may come in any order, as on a page with two columns: the best item
goes where users look most, the next one where they look second most, and "the last position" is the one where they
look least.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.errors import InputError
from clickbandit.policies.base import Policy
from clickbandit.policies.common import pseudo_counts
from clickbandit.policies.contract import State
from clickbandit.policies.possible import like, unchanged
from clickbandit.priors import Prior

# --- what the policies are told -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PBMPolicy(Policy):
    """A policy that is told the examination: by the click model in simulation, by its setting live."""

    key = ""
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
            "examination is required: set it to a probability for each position, such as 1/0.8/0.5"
        )
    try:
        values = [float(value) for value in (given.split("/") if isinstance(given, str) else given)]
    except ValueError:
        values = []
    if not values or not all(0 < value <= 1 for value in values[: n_positions or None]):
        raise InputError(
            f"examination must be probabilities above 0 and at most 1, such as 1/0.8/0.5, found {given!r}"
        )
    if len(values) < n_positions:
        raise InputError(
            f"examination must have a probability for each of the {n_positions} positions, found {len(values)}: "
            f"{given!r}"
        )
    return np.array(values[:n_positions])


@dataclass(frozen=True)
class BoundedPBMPolicy(PBMPolicy):
    """A PBM policy that uses confidence bounds."""

    key = ""

    epsilon: float = 0.0
    """The budget of the bounds is (1 + epsilon) log t, in PBM-PIE (1 + epsilon) log T."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.epsilon >= 0:
            raise InputError(f"{self.name}: epsilon must be 0 or more, found {self.epsilon}")


# --- what was seen ------------------------------------------------------------------------------------------


def first_seen(n_items: int, n_positions: int, examination: str | Sequence[float]) -> dict[str, Any]:
    """The part of a state that all members have, before the first list: what was seen of each item, by position.

    `displays` and `clicks`, by item and position, how often it was shown and clicked there, N and S; `examined`, by
    item, how often it should have been examined, M; `estimate`, by item, its clicks / M; `examination`, which they
    were told; and `places`, the positions, the most examined first.
    """
    known = read_examination(examination, n_positions)
    return {
        "displays": np.zeros((n_items, n_positions), np.int64),
        "clicks": np.zeros((n_items, n_positions), np.int64),
        "examined": np.zeros(n_items),
        "estimate": np.zeros(n_items),
        "examination": known,
        "places": np.argsort(-known, kind="stable"),
    }


def prime(state: State, prior: Prior) -> State:
    """The prior as displays where users look most, and clicks on these."""
    observed, clicks = pseudo_counts(prior)
    place = state.places[0]
    state.displays[:, place] = np.rint(observed / state.examination[place])
    state.clicks[:, place] = clicks
    state.examined[:] = state.examination[place] * state.displays[:, place]
    state.estimate[:] = state.clicks[:, place] / state.examined
    state.order[:] = prior.order
    return state


@kernel
def learn(state: State, ranking: IntArray, clicks: IntArray) -> None:
    """Count a list's displays N_ik and clicks S_ik, and M_i = sum_k kappa_k N_ik of the items on it.

    M_i is summed up each time: a running total would accumulate rounding errors, and items with the same
    counts would not be the same.
    """
    for k in range(len(ranking)):
        learn_often(state, ranking[k], k, 1, clicks[k])


@kernel
def learn_often(state: State, item: int, position: int, displays: int, clicks: int) -> None:
    """The same of many displays of an item at a position, and the clicks on these."""
    state.displays[item, position] += displays
    state.clicks[item, position] += clicks
    clicked, examined = 0, 0.0
    for j in range(len(state.examination)):
        clicked += state.clicks[item, j]
        examined += state.examination[j] * state.displays[item, j]
    state.examined[item] = examined
    state.estimate[item] = clicked / examined


@kernel
def show(order: IntArray, places: IntArray, ranking: IntArray) -> None:
    """The first items in this order, the best one where users look most."""
    for k in range(len(ranking)):
        ranking[places[k]] = order[k]


def best(state: State, ranking: IntArray) -> None:
    """The items with the highest estimated attraction, the best one where users look most."""
    ranking[state.places] = np.argsort(-state.estimate, kind="stable")[: len(ranking)]


def describe_items(state: State, high: FloatArray | None = None) -> list[dict[str, Any]]:
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


def possible(state: State, fresh: State) -> bool:
    """Nothing changes what was told of the positions."""
    return like(state, fresh) and unchanged(state, fresh, "examination", "places")
