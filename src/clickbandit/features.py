"""Features of items as a prior: one ridge regression over all queries, as sure as it is and no surer."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from clickbandit.defaults import STRENGTH
from clickbandit.errors import InputError
from clickbandit.priors import Prior

LOWEST, HIGHEST = 0.01, 0.95
_MIN_FREEDOM = 5.0
"""Items beyond what the regression fits by itself, from which on it is known how far items differ from it."""
_FAR = 1e6
"""Standard deviations, more than which make no difference."""
_CONSTANT = 1e-12
"""Of a feature's largest value: what differs by less does not differ."""


class Ridge:
    """How attractive items are by their features, learned from the items of many queries.

    >>> ridge = Ridge(2)
    >>> ridge.add([[1, 0], [1, 1]], clicks=[10, 40], examined=[100, 100])
    >>> [round(value, 2) for value in ridge.prior([[1, 0], [1, 1]]).attraction]
    [0.1, 0.39]
    """

    def __init__(self, n_features: int, penalty: float = 5.0) -> None:
        """`penalty` is as many examinations without a click of a usual item, and of one that is usual but for a feature
        that lies a standard deviation off."""
        self.n_features = n_features
        self._penalty = penalty
        self._rows: list[tuple[Any, Any, Any]] = []
        self._fitted: _Fitted | None = None

    def add(
        self, features: Sequence[Sequence[float]], clicks: Sequence[float], examined: Sequence[float]
    ) -> None:
        """Learn from items: their clicks, and how often they were examined."""
        x = self._read(features)
        c, m = np.array(clicks, float), np.array(examined, float)
        if not len(x) == len(c) == len(m):
            raise InputError(
                f"there must be features, clicks and examinations for each item, found {len(x)}, {len(c)} and {len(m)}"
            )
        seen = m > 0
        self._rows.append((x[seen], c[seen], m[seen]))
        self._fitted = None

    def prior(self, features: Sequence[Sequence[float]]) -> Prior:
        """What is expected of items with these features, with the strength that the regression's own errors leave.

        An item differs from what its features say, by as much as items did so far beyond the chance of their clicks,
        so that the strength stays low where features say little, however many queries there were. As those differed,
        so is what they taught uncertain, besides the chance of their clicks.
        """
        x = self._read(features)
        if self._fitted is None:
            empty = np.zeros((0, self.n_features)), np.zeros(0), np.zeros(0)
            x_all, c, m = (np.concatenate(parts) for parts in zip(empty, *self._rows, strict=True))
            self._fitted = _fit(x_all, c, m, self._penalty)
        fitted = self._fitted
        z = fitted.scale(x)
        mean = np.clip(z @ fitted.theta, LOWEST, HIGHEST)
        noise = mean * (1 - mean)
        chance, differing = (((z @ matrix) * z).sum(axis=1) for matrix in (fitted.inverse, fitted.sandwich))
        error = noise * chance + fitted.misfit * (1 + differing)
        strength = np.clip(noise / np.maximum(error, 1e-9) - 1, 0.1, STRENGTH)
        return Prior(mean.tolist(), strength.tolist())

    def _read(self, features: Sequence[Sequence[float]]) -> Any:
        lengths = sorted({len(row) for row in features})
        if lengths != [self.n_features]:
            found = ", ".join(map(str, lengths)) or "none"
            raise InputError(f"each item must have {self.n_features} features, found {found}")
        x = np.array(features, float)
        if not np.isfinite(x).all():
            raise InputError("features must be finite numbers, found one that is not")
        return x


class _Scale(NamedTuple):
    """How features become standard deviations from the means of those that taught, after a constant."""

    largest: Any
    centre: Any
    deviation: Any

    def __call__(self, x: Any) -> Any:
        z = np.clip((x / self.largest - self.centre) / self.deviation, -_FAR, _FAR)
        return np.column_stack([np.ones(len(x)), z])


def _scale_of(x: Any) -> _Scale:
    """Of features that are all the same: what new ones differ by, against their size."""
    n = max(len(x), 1)
    largest = np.abs(x).max(axis=0, initial=0.0)
    largest[largest == 0] = 1.0
    centre = (x / largest).sum(axis=0) / n
    deviation = np.sqrt(((x / largest - centre) ** 2).sum(axis=0) / n)
    deviation[deviation < _CONSTANT] = 1.0
    return _Scale(largest, centre, deviation)


class _Fitted(NamedTuple):
    """What the regression found."""

    scale: _Scale
    theta: Any
    inverse: Any
    """P^-1, with P = penalty + sum m z z'."""
    sandwich: Any
    """P^-1 (sum m^2 z z') P^-1: the error of theta if attractions differ by 1 from what features say."""
    misfit: float
    """The variance of attractions around what features say."""


def _fit(x: Any, c: Any, m: Any, penalty: float) -> _Fitted:
    """By eigenvalues, which there are of any features: also of equal, constant and very large ones."""
    scale = _scale_of(x)
    z = scale(x)
    values, vectors = np.linalg.eigh((z * m[:, None]).T @ z)
    values = np.maximum(values, 0.0)
    inverse = (vectors / (values + penalty)) @ vectors.T
    theta = inverse @ (z.T @ c)
    weighted = (z @ inverse) * m[:, None]
    misfit = 0.25
    if len(x) - float((values / (values + penalty)).sum()) >= _MIN_FREEDOM:
        # the squares of the residuals, times m, have the expectation sum q v if shares of clicks have variances v: a
        # regression fits them the better the more features there are
        q = m - 2 * m * (weighted * z).sum(axis=1) + ((weighted @ vectors) ** 2 @ values)
        rate = np.minimum(1, (c + 0.5) / (m + 1))
        squares = m @ (c / m - z @ theta) ** 2
        misfit = float(np.clip((squares - q @ (rate * (1 - rate) / m)) / q.sum(), 1e-4, 0.25))
    return _Fitted(scale, theta, inverse, weighted.T @ weighted, misfit)
