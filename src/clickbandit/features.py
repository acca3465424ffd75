"""Features of items as a prior: one ridge regression over all queries, as sure as it is and no surer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from clickbandit.defaults import STRENGTH
from clickbandit.errors import InputError
from clickbandit.priors import Prior

LOWEST, HIGHEST = 0.01, 0.95


class Ridge:
    """How attractive items are by their features, learned from the items of many queries.

    >>> ridge = Ridge(2)
    >>> ridge.add([[1, 0], [1, 1]], clicks=[10, 40], examined=[100, 100])
    >>> [round(value, 2) for value in ridge.prior([[1, 0], [1, 1]]).attraction]
    [0.11, 0.39]
    """

    def __init__(self, n_features: int, penalty: float = 5.0) -> None:
        """`penalty` is as many examinations without a click of an item with each feature alone."""
        self.n_features = n_features
        self._precision = penalty * np.eye(n_features)
        self._evidence = np.zeros(n_features)
        self._squares = self._examined = self._noise = 0.0

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
        x, c, m = x[seen], c[seen], m[seen]
        self._precision += (x * m[:, None]).T @ x
        self._evidence += x.T @ c
        self._squares += float((c * c / m).sum())
        self._examined += float(m.sum())
        rate = np.minimum(1, (c + 0.5) / (m + 1))
        self._noise += float((rate * (1 - rate)).sum())

    def prior(self, features: Sequence[Sequence[float]]) -> Prior:
        """What is expected of items with these features, with the strength that the regression's own errors leave.

        An item differs from what its features say, by as much as items did so far beyond the chance of their clicks,
        so that the strength stays low where features say little, however many queries there were.
        """
        x = self._read(features)
        inverse = np.linalg.inv(self._precision)
        theta = inverse @ self._evidence
        mean = np.clip(x @ theta, LOWEST, HIGHEST)
        noise = mean * (1 - mean)
        error = noise * np.einsum("ij,jk,ik->i", x, inverse, x) + self._misfit(theta)
        strength = np.clip(noise / np.maximum(error, 1e-9) - 1, 0.1, STRENGTH)
        return Prior(mean.tolist(), strength.tolist())

    def _misfit(self, theta: Any) -> float:
        """The variance of attractions around what features say."""
        if self._examined == 0:
            return 0.25
        residual = self._squares - 2 * theta @ self._evidence + theta @ self._precision @ theta
        return float(np.clip((residual - self._noise) / self._examined, 1e-4, 0.25))

    def _read(self, features: Sequence[Sequence[float]]) -> Any:
        lengths = sorted({len(row) for row in features})
        if lengths != [self.n_features]:
            found = ", ".join(map(str, lengths)) or "none"
            raise InputError(f"each item must have {self.n_features} features, found {found}")
        x = np.array(features, float)
        if not np.isfinite(x).all():
            raise InputError("features must be finite numbers, found one that is not")
        return x
