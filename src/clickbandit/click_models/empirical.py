"""Empirical Bayes for models in which a position is examined whatever stands there: the prior comes from the data.

Where a ranker has put what attracts on top, items that stand at different positions are different items, and a prior
that is the same for all of them takes the difference for examination. So what is shared is fitted with next to no
prior, and the prior of an item's attraction is the distribution over the items that usually stand where it does.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from clickbandit.click_models.em import (
    CAP,
    FLOOR,
    Step,
    examination,
    expect,
    information,
    maximise,
    standard_errors,
)
from clickbandit.click_models.fitting import Cells, FitOptions, GroupedCounts, ParameterEstimate, sums
from clickbandit.compiling.kernel import FloatArray, IntArray

NO_PRIOR = (0.001, 0.001)
"""Smoothing that only keeps what was never seen from 0 and 1."""
_ROUNDS = 500
_SETTLED = 1e-9
_MAX_STRENGTH = 1e4  # of a prior, in impressions


def fit_examination(
    cells: Cells, slot: IntArray, sizes: Mapping[str, int], counts: GroupedCounts, options: FitOptions
) -> ParameterEstimate:
    """EM for attraction by pair and examination by slot, with the prior that is given or with an estimated one."""
    step = examination(cells, slot, list(sizes.values()))
    if options.empirical is False:
        return maximise(sizes, step, counts, options, separate=True)
    # without a prior the likelihood has a long ridge, which EM climbs slowly
    alone = replace(options, smoothing=NO_PRIOR, tolerance=options.tolerance / 10)
    found = maximise(sizes, step, counts, alone, separate=True)
    values = tuple(found.parameters.values())
    look = sums(cells.pair, cells.shown * values[1][slot], counts.n_pairs)
    clicks = np.minimum(sums(cells.pair, cells.clicked, counts.n_pairs), look)
    p, q = beta_priors(clicks, look, usual_positions(cells, counts.n_pairs))
    attraction = _attraction(step, values, p, q)
    weak = np.full(len(values[1]), NO_PRIOR[0])
    with information(values, step, _everywhere(NO_PRIOR, values), counts.n_pairs, separate=True) as without:
        covariance = without.covariance()
    prior = np.append(p, weak), np.append(q, weak)
    with information((attraction, values[1]), step, prior, counts.n_pairs, separate=True) as with_prior:
        errors = standard_errors((attraction, values[1]), with_prior, covariance)
        joint = with_prior.joint(covariance) if options.joint else None
    names = list(sizes)
    likelihood, _, _ = expect(step, (attraction, values[1]))
    return replace(
        found,
        parameters=dict(zip(names, (attraction, values[1]), strict=True)),
        errors=dict(zip(names, errors, strict=True)),
        log_likelihood=likelihood,
        is_empirical=True,
        joint=joint,
    )


def usual_positions(cells: Cells, n_pairs: int) -> IntArray:
    """Where each pair stands on average, from 0."""
    shown = np.maximum(sums(cells.pair, cells.shown, n_pairs), 1)
    return np.rint(sums(cells.pair, cells.shown * cells.position, n_pairs) / shown).astype(np.int64)


def beta_priors(clicks: FloatArray, trials: FloatArray, group: IntArray) -> tuple[FloatArray, FloatArray]:
    """For each item p and q of the beta distribution over its group: its mean and variance are those of what is known
    of the group's items under it.

    >>> clicks, trials = np.array([20.0, 40.0, 60.0]), np.array([100.0, 100.0, 100.0])
    >>> p, q = beta_priors(clicks, trials, np.zeros(3, np.int64))
    >>> (p / (p + q)).round(2).tolist(), bool(p[0] + q[0] < 20)
    ([0.4, 0.4, 0.4], True)
    """
    _, group = np.unique(group, return_inverse=True)
    n = int(group.max(initial=-1)) + 1
    size = sums(group, np.ones(len(group)), n)
    p, q = np.ones(n), np.ones(n)
    for _ in range(_ROUNDS):
        a, total = p[group] + clicks, (p + q)[group] + trials
        mean = sums(group, a / total, n) / size
        squares = sums(group, a * (a + 1) / (total * (total + 1)), n) / size
        spread = np.maximum(squares - mean**2, 1e-12)
        strength = np.clip(mean * (1 - mean) / spread - 1, 0.01, _MAX_STRENGTH)
        before, p, q = p, strength * mean, strength * (1 - mean)
        if np.abs(p - before).max(initial=0) < _SETTLED:
            break
    return p[group], q[group]


def _attraction(step: Step, values: tuple[FloatArray, ...], p: FloatArray, q: FloatArray) -> FloatArray:
    """EM of the attraction alone, what is shared being known."""
    attraction, shared = values
    for _ in range(_ROUNDS):
        now = attraction, shared
        _, num, den = expect(step, now)
        attraction = np.clip((p + num[0]) / (p + q + den[0]), FLOOR, CAP)
        if np.abs(attraction - now[0]).max(initial=0) < _SETTLED:
            break
    return attraction


def _everywhere(smoothing: tuple[float, float], values: tuple[FloatArray, ...]) -> tuple[FloatArray, ...]:
    size = sum(map(len, values))
    return tuple(np.full(size, strength) for strength in smoothing)
