"""How relevant items are by the dynamic Bayesian model, told apart with few clicks.

A ranker has put what it holds for relevant on top, and that is evidence besides the clicks: so the priors of attraction
and satisfaction lie along the place where an item usually stands, a line in log-odds that EM fits together with the
model (empirical Bayes). Given its place an item that attracts more need not satisfy as much, since the ranker uses
both. So what is shrunk in the end is relevance itself: how many of those who looked at an item were satisfied, as
gamma-Poisson counts whose mean is a line in the logarithm and whose spread is in proportion to it.
"""

from typing import NamedTuple

import numpy as np

from clickbandit.click_models import dbn
from clickbandit.click_models.em import expect
from clickbandit.click_models.fitting import sums
from clickbandit.compiling.kernel import FloatArray
from clickbandit.logs.counts import Counts

_ROUNDS, _STEPS = 30, 8
"""Of the priors, and of EM between two of them."""
_MAX_CLICKS = 16.0
"""That the prior of satisfaction is worth at most: few last clicks look alike, whatever items are."""
_MIN_WORTH, _MAX_WORTH = 0.05, 1e4
"""That a prior may be worth."""
_MAX_SHAPE = 2.0
"""The largest shape used for errors: expectations of who was satisfied lie nearer to the line than the truth."""
_TINY = 1e-6


class Relevance(NamedTuple):
    """Of each pair."""

    mean: FloatArray
    error: FloatArray
    looked: FloatArray
    """How many users looked at it, of those to whom it was shown."""


def dbn_relevance(counts: Counts) -> Relevance:
    """How many of those who look at an item it attracts and satisfies."""
    place = np.log1p(usual_places(counts))
    line = np.column_stack([np.ones(len(place)), place - place.mean()])
    satisfied, looked = _expected(counts, line)
    coefficients, shape = np.array([np.log((satisfied.sum() + 0.5) / (looked.sum() + 1)), 0.0]), 2.0
    for _ in range(_ROUNDS * _STEPS):
        mean = np.exp(np.clip(line @ coefficients, -20, 0))
        weight = 1 / (1 + looked * mean / shape)
        residual, curvature = weight * (satisfied - looked * mean), weight * looked * mean
        coefficients = _towards(coefficients, line, residual, curvature)
        a, b = shape + satisfied, shape / mean + looked
        spread = float(np.mean(((a / b - mean) ** 2 + a / b**2) / mean**2))
        shape = float(np.clip(1 / spread, _MIN_WORTH, _MAX_WORTH))
    surest = min(shape, _MAX_SHAPE)
    error = np.sqrt(surest + satisfied) / (surest / mean + looked)
    found = np.minimum((shape + satisfied) / (shape / mean + looked), 1.0)
    return Relevance(found, np.minimum(error, 0.5), looked)


def usual_places(counts: Counts) -> FloatArray:
    """Where each pair stands on average, from 0; where its query was shown without it, as if just below the list."""
    cells, n = counts.by_position, counts.n_pairs
    query = np.unique(np.array(counts.pairs["query"].to_pylist()), return_inverse=True)[1]
    shown = sums(cells.pair, cells.shown, n)
    on_top = sums(cells.pair, cells.shown * (cells.position == 0), n)
    without = np.maximum(np.bincount(query, on_top)[query] - shown, 0)
    places = sums(cells.pair, cells.shown * cells.position, n) + without * counts.n_positions
    return np.asarray(places / np.maximum(shown + without, 1))


def _expected(counts: Counts, line: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How many were satisfied with each pair, and looked at it, by EM whose priors lie along the place."""
    step, n, clicked = dbn.expectation(counts), counts.n_pairs, counts.endings.clicked
    values = np.full(n, 0.3), np.full(n, 0.5), np.full(1, 0.8)
    attracts, satisfies = _Prior(line, 0.3, _MAX_WORTH), _Prior(line, 0.5, _MAX_CLICKS)
    for _ in range(_ROUNDS):
        for _ in range(_STEPS):
            _, num, den = expect(step, values)
            looked = np.maximum(den[0] - (num[0] - clicked) / values[0], clicked)  # the rest is imputed
            values = (
                attracts.mean_with(num[0], den[0]),
                satisfies.mean_with(num[1], den[1]),
                np.clip((1 + num[2]) / (2 + den[2]), _TINY, 1 - _TINY),
            )
        attracts.learn(clicked, looked)
        satisfies.learn(num[1], den[1])
    return num[1], looked


class _Prior:
    """Beta distributions of one strength, with means that are a line in log-odds."""

    def __init__(self, line: FloatArray, mean: float, most: float) -> None:
        self._line = line
        self._coefficients = np.array([np.log(mean / (1 - mean)), 0.0])
        self._strength = 4.0
        self._most = most

    @property
    def _mean(self) -> FloatArray:
        return np.asarray(1 / (1 + np.exp(-np.clip(self._line @ self._coefficients, -20, 20))))

    def mean_with(self, yes: FloatArray, trials: FloatArray) -> FloatArray:
        """With what was seen."""
        found = (self._strength * self._mean + yes) / (self._strength + trials)
        return np.asarray(np.clip(found, _TINY, 1 - _TINY))

    def learn(self, yes: FloatArray, trials: FloatArray) -> None:
        """From all pairs: the line, and how far they are from it."""
        weight = self._strength / (self._strength + trials)
        for _ in range(3):
            mean = self._mean
            residual, curvature = weight * (yes - trials * mean), weight * trials * mean * (1 - mean)
            self._coefficients = _towards(self._coefficients, self._line, residual, curvature)
        mean, found = self._mean, self.mean_with(yes, trials)
        doubt = found * (1 - found) / (self._strength + trials + 1)
        spread = max(float(np.mean((found - mean) ** 2 + doubt)), 1e-12)
        strength = float(np.mean(mean * (1 - mean))) / spread - 1
        self._strength = float(np.clip(strength, _MIN_WORTH, self._most))


def _towards(
    coefficients: FloatArray, line: FloatArray, residual: FloatArray, weight: FloatArray
) -> FloatArray:
    """A step of Newton's towards the line that leaves no residual; short, so that a bad start does no harm.

    No line rises: what the ranker put lower is not held for better before anyone has looked at it.
    """
    curvature = (line * weight[:, None]).T @ line + _TINY * np.eye(line.shape[1])
    level, slope = coefficients + np.clip(np.linalg.solve(curvature, line.T @ residual), -1, 1)
    return np.array([level, min(slope, 0.0)])
