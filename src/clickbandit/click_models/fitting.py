"""What all fits of click models share: the grouped counts that they start from, the options, and smoothing.

Nothing here sees single sessions. Cells suffice for models in which a click depends only on its item, its
position and the last click above; endings suffice for models in which what happens after the last click must
be guessed from the whole list.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.errors import InputError


class Cells(NamedTuple):
    """Counts by (query, item), position and last click above, in this order. A (query, item) is a `pair`."""

    pair: IntArray
    position: IntArray
    """From 0."""
    previous: IntArray
    """The position of the last click above; the row's own position stands for none."""
    shown: FloatArray
    clicked: FloatArray
    until_last: FloatArray
    """Shown at or above the session's last click, or in a session without a click."""
    last: FloatArray
    """Clicked, and no click below."""

    def by_position(self) -> "Cells":
        """The same counts whatever was clicked above."""
        if len(self.pair) == 0:
            return self
        new = (np.diff(self.pair, prepend=-1) != 0) | (np.diff(self.position, prepend=-1) != 0)
        starts = np.flatnonzero(new)
        sums = (np.add.reduceat(counts, starts) for counts in self[3:])
        return Cells(self.pair[starts], self.position[starts], self.position[starts], *sums)


class Endings(NamedTuple):
    """For each list: what it showed, and where its sessions' last clicks were."""

    start: IntArray
    """Where each list starts in `pair` and `last`; one more entry marks the end."""
    pair: IntArray
    last: FloatArray
    """How many sessions had their last click here."""
    none: FloatArray
    """How many sessions of each list had no click."""
    clicked: FloatArray
    """How often each pair was clicked, last or not."""
    ended: FloatArray
    """How often each pair was the last click."""
    certain: FloatArray
    """How often each pair was surely examined: at or above a last click."""


class GroupedCounts(Protocol):
    """What a model's `fit` takes: see `clickbandit.logs.Counts`."""

    @property
    def n_pairs(self) -> int: ...
    @property
    def n_positions(self) -> int: ...
    @property
    def n_sessions(self) -> int: ...
    @property
    def cells(self) -> Cells: ...
    @property
    def by_position(self) -> Cells: ...
    @property
    def endings(self) -> Endings: ...


@dataclass(frozen=True)
class FitOptions:
    """How to fit."""

    smoothing: tuple[float, float] = (1.0, 1.0)
    """Each parameter is (p + numerator) / (p + q + denominator): the mode under a Beta(1 + p, 1 + q) prior."""
    iterations: int | None = None
    """Run EM for exactly as many iterations; without, until `tolerance`."""
    tolerance: float = 1e-8
    """EM stops when the penalised log-likelihood improves by less than this for each session."""
    compat: str | None = None
    """`pyclick` for the formulas of PyClick where they differ from exact EM."""
    empirical: bool | None = False
    """Whether the prior of items is estimated from the data, instead of `smoothing`; None: where the model can."""
    joint: bool = False
    """Whether to keep how the errors of parameters are related (`ParameterEstimate.joint`)."""

    def __post_init__(self) -> None:
        if len(self.smoothing) != 2 or not all(0 <= value < math.inf for value in self.smoothing):
            raise InputError(f"expected smoothing as two numbers of at least 0, found {self.smoothing!r}")
        if self.iterations is not None and self.iterations < 0:
            raise InputError(f"expected at least 0 iterations, found {self.iterations}")
        if not self.tolerance >= 0:
            raise InputError(f"expected a tolerance of at least 0, found {self.tolerance!r}")
        if self.compat not in (None, "pyclick"):
            raise InputError(f"expected compat to be pyclick or None, found {self.compat!r}")


class Joint(NamedTuple):
    """How the errors of a fit's parameters are related, in log-odds: those that all queries share are jointly normal,
    and given these, each parameter of a pair is normal by itself."""

    precision: FloatArray
    """Of each parameter of a pair, given the shared ones: all of the first name, then all of the second."""
    slope: FloatArray
    """How much each of them falls when a shared one rises: a column for each."""
    covariance: FloatArray
    """Of the shared ones."""


@dataclass(frozen=True)
class ParameterEstimate:
    """A model's parameters as fitted, each an array over pairs, over positions, or of one value."""

    parameters: Mapping[str, FloatArray]
    errors: Mapping[str, FloatArray]
    """The standard error of each parameter: the curvature of the penalised log-likelihood at its mode."""
    log_likelihood: float
    """Of all sessions, without the penalty of smoothing."""
    trace: Sequence[float] = field(default_factory=list)
    """The penalised log-likelihood before each iteration of EM, and at the end."""
    iterations: int = 0
    is_empirical: bool = False
    """Whether the prior was estimated."""
    joint: Joint | None = None
    """If it was asked for; parameters that are counted shares are independent, and have none."""


def smoothed(num: FloatArray, den: FloatArray, smoothing: tuple[float, float]) -> FloatArray:
    """(p + num) / (p + q + den), and 0.5 where nothing was seen."""
    p, q = smoothing
    total = p + q + den
    share: FloatArray = np.divide(p + num, total, out=np.full(num.shape, 0.5), where=total > 0)
    return share


def bernoulli_errors(value: FloatArray, den: FloatArray, smoothing: tuple[float, float]) -> FloatArray:
    """Standard errors of smoothed shares: the curvature of p + num successes in p + q + den trials."""
    total = sum(smoothing) + den
    unknown = np.full(value.shape, 0.25)
    variance: FloatArray = np.divide(value * (1 - value), total, out=unknown, where=total > 0)
    return np.sqrt(variance)


def bernoulli_log_likelihood(value: FloatArray, num: FloatArray, den: FloatArray) -> float:
    """The log-likelihood of `num` successes in `den` trials; what never happened adds nothing."""
    return float(_times_log(num, value).sum() + _times_log(den - num, 1 - value).sum())


def _times_log(weight: FloatArray, value: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weight > 0, weight * np.log(value), 0.0)


def penalty(parameters: Sequence[FloatArray], smoothing: tuple[float, float]) -> float:
    """The logarithm of the prior under which `smoothed` gives the mode."""
    p, q = smoothing
    return sum(
        float(
            _times_log(np.full(value.shape, p), value).sum()
            + _times_log(np.full(value.shape, q), 1 - value).sum()
        )
        for value in parameters
    )


def shares(counted: Mapping[str, tuple[FloatArray, FloatArray]], options: FitOptions) -> ParameterEstimate:
    """The fit of a model whose parameters are shares (num, den) that can be counted: no iterations."""
    values = {name: smoothed(num, den, options.smoothing) for name, (num, den) in counted.items()}
    likelihood = sum(bernoulli_log_likelihood(values[name], *counted[name]) for name in counted)
    return ParameterEstimate(
        values,
        {name: bernoulli_errors(values[name], den, options.smoothing) for name, (_, den) in counted.items()},
        likelihood,
        [likelihood + penalty(list(values.values()), options.smoothing)],
    )


def sums(index: IntArray, weights: FloatArray, size: int) -> FloatArray:
    """Weights added up by index."""
    return np.bincount(index, weights, size).astype(float)
