"""What is known of a fit's parameters, as a distribution to draw from: with few impressions an item is like others that
usually stand where it does.

Of each parameter of an item the fit gives a share and how many trials it is worth. The prior is the beta distribution
over the items that usually stand at the same position (`beta_priors`), so that few clicks do not outrank many, and the
best of many is not taken for as good as it looks. What all queries share is jointly normal in log-odds, and an item's
parameter moves with it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from clickbandit.click_models.base import model_class
from clickbandit.click_models.empirical import beta_priors, usual_positions
from clickbandit.click_models.fitting import FitOptions
from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.logs.counts import Counts
from clickbandit.logs.fit import Fit, fit_with

_MIN_CHANCE, _MAX_CHANCE = 1e-6, 1 - 1e-6  # of probabilities, so that log-odds are finite
_WEAK = (0.1, 0.1)
"""Smoothing of models whose prior is estimated here and not by their fits: just enough to keep EM from 0 and 1."""
_MAX_ERROR = 0.5
"""Of log-odds: the largest standard error that is drawn from. What is vaguer, such as whether users look more or like
more, the log does not tell, and clicks hardly depend on it."""
_POOLED = 20
"""Positions where fewer items usually stand have a prior in common."""


def fit_posterior(counts: Counts, model: str) -> "Posterior":
    """Fit a click model, with an estimated prior where it can, and keep what is known of its parameters."""
    options = FitOptions(smoothing=_WEAK, empirical=None, joint=True)
    return Posterior(
        fit_with(counts, model, options),
        usual_positions(counts.by_position, counts.n_pairs),
        options.smoothing,
    )


@dataclass(frozen=True)
class Posterior:
    """What is known of a fit's parameters."""

    fit: Fit
    usual: IntArray
    """Where each pair usually stands."""
    smoothing: tuple[float, float]
    """Of the fit."""

    @cached_property
    def shares(self) -> Mapping[str, tuple[FloatArray, FloatArray]]:
        """For each parameter of pairs: what its beta distribution counts as successes and as failures."""
        return {name: (share * size, (1 - share) * size) for name, (share, size, _) in self._known.items()}

    @cached_property
    def means(self) -> Mapping[str, FloatArray]:
        """Each parameter of pairs, as it is expected to be."""
        return {name: share for name, (share, _, _) in self._known.items()}

    @cached_property
    def errors(self) -> Mapping[str, FloatArray]:
        """The standard error of each parameter of pairs."""
        found = {}
        for name, (share, size, slope) in self._known.items():
            variance = share * (1 - share) / (size + 1)
            if slope is not None:
                size, vectors = self._spread
                moved = ((slope @ vectors) ** 2) @ size
                variance = variance + (share * (1 - share)) ** 2 * moved
            found[name] = np.minimum(np.sqrt(variance), 0.5)  # no probability has more
        return found

    def shared_draws(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Rows of deviations of all shared parameters from their values v, in units of v (1 - v).

        Small ones are those of log-odds; near 0 and 1, where log-odds run away, none leaves what is possible.
        """
        if not self._shared:
            return np.zeros((n, 0))
        size, vectors = self._spread
        normal = rng.standard_normal((n, len(size)))
        value = self._shared_values
        drawn = (normal * np.sqrt(size)) @ vectors.T
        unit = value * (1 - value)
        return np.asarray(np.clip(drawn, (_MIN_CHANCE - value) / unit, (_MAX_CHANCE - value) / unit))

    def draws(
        self, rows: IntArray, deviations: FloatArray, rng: np.random.Generator
    ) -> Mapping[str, FloatArray]:
        """For each parameter of pairs: its values for these pairs, a row for each row of deviations."""
        found = {}
        for name, (a, b) in self.shares.items():
            drawn = np.clip(
                rng.beta(a[rows], b[rows], (len(deviations), len(rows))), _MIN_CHANCE, _MAX_CHANCE
            )
            slope = self._known[name][2]
            if slope is not None:
                limit = _odds(np.array(_MAX_CHANCE))
                drawn = _chance(np.clip(_odds(drawn) - deviations @ slope[rows].T, -limit, limit))
            found[name] = drawn
        return found

    def laws(self, deviations: FloatArray) -> Iterator[Any]:
        """The kernels' parameters for each row of deviations, with those of a single pair in them."""
        kind = model_class(self.fit.name)
        by_item = {name: [0.5] for name in kind.by_item}
        value = self._shared_values
        cuts = np.cumsum([len(self.fit.parameters[name]) for name in self._shared])[:-1]
        for row in deviations:
            parts = np.split(value + value * (1 - value) * row, cuts) if self._shared else []
            shared = {
                name: self.fit.in_form(name, part) for name, part in zip(self._shared, parts, strict=True)
            }
            yield kind(**by_item, **shared).params

    @cached_property
    def _shared(self) -> list[str]:
        return [name for name in self.fit.parameters if not self.fit.is_by_pair(name)]

    @cached_property
    def _shared_values(self) -> FloatArray:
        values = np.concatenate([self.fit.parameters[name] for name in self._shared] or [np.zeros(0)])
        return np.asarray(np.clip(values, 2 * _MIN_CHANCE, 1 - 2 * _MIN_CHANCE))

    @cached_property
    def _spread(self) -> tuple[FloatArray, FloatArray]:
        """The variances of the shared parameters along the axes of their distribution, and these axes."""
        size, vectors = np.linalg.eigh(self._covariance)
        return np.clip(size, 0, _MAX_ERROR**2), vectors

    @cached_property
    def _covariance(self) -> FloatArray:
        if self.fit.joint is not None:
            return self.fit.joint.covariance
        errors = [
            self.fit.standard_errors[name] / np.maximum(value * (1 - value), _MIN_CHANCE)
            for name in self._shared
            for value in [self.fit.parameters[name]]
        ]
        return np.diag(np.concatenate(errors or [np.zeros(0)]) ** 2)

    @cached_property
    def _known(self) -> dict[str, tuple[FloatArray, FloatArray, FloatArray | None]]:
        """For each parameter of pairs: its mean, how many trials it is worth, and its slopes."""
        names = [name for name in self.fit.parameters if self.fit.is_by_pair(name)]
        return {name: self._one(i, name) for i, name in enumerate(names)}

    def _one(self, i: int, name: str) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        value = np.clip(self.fit.parameters[name], _MIN_CHANCE, _MAX_CHANCE)
        joint, slope, n = self.fit.joint, None, len(value)
        if joint is None:
            trials = value * (1 - value) / np.maximum(self.fit.standard_errors[name], _MIN_CHANCE) ** 2
        else:
            trials = joint.precision[i * n : (i + 1) * n] / (value * (1 - value))
            slope = joint.slope[i * n : (i + 1) * n]
        if self.fit.is_empirical:
            return value, trials, slope
        p, q = self.smoothing
        seen = np.maximum(trials - p - q, 0)
        yes = np.clip(value * trials - p, 0, seen)
        p_others, q_others = beta_priors(yes, seen, self._groups)
        size = seen + p_others + q_others
        if slope is not None:
            slope = slope * (trials / size)[:, None]
        return (yes + p_others) / size, size, slope

    @cached_property
    def _groups(self) -> IntArray:
        """The usual position of each pair, or -1 where few pairs stand."""
        often = np.bincount(self.usual, minlength=1)[self.usual] >= _POOLED
        return np.where(often, self.usual, -1)


def _odds(chance: FloatArray) -> FloatArray:
    return np.log(chance) - np.log1p(-chance)


def _chance(odds: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-odds)))
