"""What linear cascading policies share: items with features, and one ridge regression of clicks on these for all items.

An item's attraction is taken for x . theta, with its features x. From observations (x, click) down to the first click,
M = I + sum x x^T and B = sum x click; theta is estimated by M^-1 B. The inverse of M is kept up to date by the formula
of Sherman and Morrison. Without features each item has one of its own, and is learned by itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.errors import InputError
from clickbandit.policies.cascading import FEEDBACK, CascadingPolicy, examined
from clickbandit.policies.common import check_exploration

MAX_FEATURES = 200


@dataclass(frozen=True)
class LinearPolicy(CascadingPolicy):
    """A policy that is told the features of items, by the query in simulation."""

    key = ""
    knows = ("features",)

    exploration: float = 1.0
    """How many standard deviations it explores by."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_exploration(self.name, self.exploration)


class State(NamedTuple):
    """D features."""

    features: FloatArray
    """By item and feature."""
    inverse: FloatArray
    """M^-1."""
    evidence: FloatArray
    """B."""
    theta: FloatArray
    """By feature: the estimate, or what was drawn for the last list."""
    factor: FloatArray
    """A Cholesky factor of M^-1, where theta is drawn."""
    along: FloatArray
    """By feature, while learning: M^-1 x."""
    value: FloatArray
    """By item: its index when the last list was made."""
    order: IntArray
    """All items, those shown last in front."""
    feedback: int
    exploration: float


def init(
    n_items: int,
    n_positions: int,
    *,
    horizon: int,
    feedback: str = "first",
    exploration: float = 1.0,
    features: Sequence[Sequence[float]] | None = None,
) -> State:
    told = np.eye(n_items) if features is None else np.array(features, float)
    if told.shape[0] != n_items or told.ndim != 2 or not np.isfinite(told).all():
        raise InputError(f"features must be a list of as many numbers for each of the {n_items} items")
    if told.shape[1] > MAX_FEATURES:
        raise InputError(f"there may be at most {MAX_FEATURES} features, found {told.shape[1]}: give fewer")
    n_features = told.shape[1]
    return State(
        features=told,
        inverse=np.eye(n_features),
        evidence=np.zeros(n_features),
        theta=np.zeros(n_features),
        factor=np.zeros((n_features, n_features)),
        along=np.zeros(n_features),
        value=np.zeros(n_items),
        order=np.arange(n_items),
        feedback=FEEDBACK[feedback],
        exploration=exploration,
    )


@slow_path
def estimate(state: State) -> None:
    """theta = M^-1 B."""
    for i in range(len(state.theta)):
        total = 0.0
        for j in range(len(state.theta)):
            total += state.inverse[i, j] * state.evidence[j]
        state.theta[i] = total


@kernel
def mean_of(state: State, item: int) -> float:
    """x . theta."""
    total = 0.0
    for i in range(len(state.theta)):
        total += state.features[item, i] * state.theta[i]
    return total


@slow_path
def deviation_of(state: State, item: int) -> float:
    """The square root of x^T M^-1 x."""
    total = 0.0
    for i in range(len(state.theta)):
        for j in range(len(state.theta)):
            total += state.features[item, i] * state.inverse[i, j] * state.features[item, j]
    return math.sqrt(max(0.0, total))


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    for k in range(examined(clicks, state.feedback)):
        observe(state, ranking[k], clicks[k])


@slow_path
def observe(state: State, item: int, click: int) -> None:
    """M^-1 - M^-1 x x^T M^-1 / (1 + x^T M^-1 x), and B + x click."""
    size = 1.0
    for i in range(len(state.along)):
        total = 0.0
        for j in range(len(state.along)):
            total += state.inverse[i, j] * state.features[item, j]
        state.along[i] = total
        size += total * state.features[item, i]
    for i in range(len(state.along)):
        for j in range(len(state.along)):
            state.inverse[i, j] -= state.along[i] * state.along[j] / size
        state.evidence[i] += state.features[item, i] * click


def best(state: State, ranking: IntArray) -> None:
    """The items with the highest estimates."""
    means = state.features @ (state.inverse @ state.evidence)
    ranking[:] = np.argsort(-means, kind="stable")[: len(ranking)]


def describe(state: State) -> dict[str, Any]:
    """What the regression expects of each item."""
    means = state.features @ (state.inverse @ state.evidence)
    return {
        "items": [{"item": item, "estimate": float(np.clip(mean, 0, 1))} for item, mean in enumerate(means)]
    }
