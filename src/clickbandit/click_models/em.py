"""The one EM loop of all click models, with its stopping rule, its trace and the standard errors of what it
finds."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from clickbandit.click_models.fitting import Cells, Counts, Estimate, Options, penalty, smoothed
from clickbandit.compiling.kernel import FloatArray, IntArray, entry_point

FLOOR, CAP = 1e-12, 1 - 1e-6
"""EM keeps probabilities between these, so that what one list rules out stays possible in another."""
MAX_ITERATIONS = 10_000
"""Where EM ends even if it still improves."""

Values = tuple[FloatArray, ...]
"""A model's parameters, each an array: by pair first, then those that all queries share."""
Step = Callable[[Values, Values, Values], float]
"""`step(values, num, den)` adds the expected counts of each parameter, and gives the log-likelihood of
`values`."""


def maximise(
    sizes: Mapping[str, int],
    step: Step,
    counts: Counts,
    options: Options,
    *,
    exact: Step | None = None,
    by_pair: int = 1,
    separate: bool = False,
) -> Estimate:
    """Dempster, Laird, Rubin (1977): from 0.5, count what is expected, take the smoothed shares, repeat.

    `exact` is the step of exact EM where `step` is not. The first `by_pair` parameters have a value for each
    pair, the others are shared. `separate` says that given the shared parameters, pairs have nothing to do
    with each other.
    """
    values: Values = tuple(np.full(size, 0.5) for size in sizes.values())
    trace: list[float] = []
    limit = MAX_ITERATIONS if options.iterations is None else options.iterations
    while True:
        likelihood, num, den = _expect(step, values)
        trace.append(likelihood + penalty(values, options.smoothing))
        settled = len(trace) > 1 and trace[-1] - trace[-2] < options.tolerance * counts.n_sessions
        if len(trace) > limit or (settled and options.iterations is None):
            break
        values = tuple(
            np.clip(smoothed(n, d, options.smoothing), FLOOR, CAP) for n, d in zip(num, den, strict=True)
        )
    n_probes = 1 if separate else _PROBES
    errors = _standard_errors(values, exact or step, counts.n_pairs * by_pair, n_probes, options)
    names = list(sizes)
    return Estimate(
        dict(zip(names, values, strict=True)),
        dict(zip(names, errors, strict=True)),
        likelihood,
        trace,
        len(trace) - 1,
    )


def _expect(step: Step, values: Values) -> tuple[float, Values, Values]:
    num, den = tuple(map(np.zeros_like, values)), tuple(map(np.zeros_like, values))
    return step(values, num, den), num, den


# --- standard errors ----------------------------------------------------------------------------------------

_MOVE = 1e-4  # of a log-odds, to see how the gradient changes
_PROBES = 8
_LARGEST_CROSS = 30_000_000  # entries of the matrix between the parameters of pairs and the shared ones


def _standard_errors(values: Values, step: Step, n_local: int, n_probes: int, options: Options) -> Values:
    """From the curvature of the penalised log-likelihood in the log-odds of its parameters.

    By Fisher's identity the gradient is what EM expects: p + num - (p + q + den) value. Its differences give
    the information matrix: of the parameters of pairs the diagonal (estimated by random signs, Bekas,
    Kokiopoulou, Saad 2007; exact where pairs do not touch each other, as in the PBM), of the shared ones
    all, and what lies between. So a pair's error counts the doubt about the shared parameters, but not that
    about other pairs.
    """
    p, q = options.smoothing
    cuts = np.cumsum([len(value) for value in values])[:-1]
    value = np.concatenate(values)
    odds = np.log(value) - np.log1p(-value)
    n_shared = len(value) - n_local

    def gradient(at: FloatArray) -> FloatArray:
        moved = 1 / (1 + np.exp(-at))
        _, num, den = _expect(step, tuple(np.split(moved, cuts)))
        return p + np.concatenate(num) - (p + q + np.concatenate(den)) * moved

    here = gradient(odds)

    def information(direction: FloatArray) -> FloatArray:
        return (here - gradient(odds + _MOVE * direction)) / _MOVE

    rng = np.random.default_rng(0)
    local = np.zeros(n_local)
    for _ in range(n_probes):
        signs = np.concatenate([rng.choice([-1.0, 1.0], n_local), np.zeros(n_shared)])
        local += (information(signs) * signs)[:n_local] / n_probes
    floor = np.maximum((p + q) * value * (1 - value), 1e-12)
    local = np.maximum(local, floor[:n_local])
    if n_local * n_shared > _LARGEST_CROSS:
        shared = information(np.concatenate([np.zeros(n_local), np.ones(n_shared)]))[n_local:]
        variance = 1 / np.concatenate([local, np.maximum(shared, floor[n_local:])])
    else:
        columns = [information(np.eye(1, len(value), n_local + i)[0]) for i in range(n_shared)]
        matrix = np.array(columns).T
        cross = matrix[:n_local] / local[:, None]
        schur = matrix[n_local:] - matrix[:n_local].T @ cross
        size, vectors = np.linalg.eigh((schur + schur.T) / 2)
        covariance = (vectors / np.maximum(size, 1e-9)) @ vectors.T
        variance = np.concatenate(
            [1 / local + np.einsum("ig,gh,ih->i", cross, covariance, cross), np.diag(covariance)]
        )
    # No probability is known worse than to within a half.
    return tuple(np.split(np.minimum(value * (1 - value) * np.sqrt(variance), 0.5), cuts))


# --- models in which a position is examined whatever stands there (PBM, UBM) --------------------------------


def examination(cells: Cells, slot: IntArray) -> Step:
    """The EM step for attraction by pair and examination by `slot`, one for each row of cells."""
    n_missed = cells.shown - cells.clicked

    def step(values: Values, num: Values, den: Values) -> float:
        return _examination_step(values, num, den, cells.pair, slot, cells.clicked, n_missed)

    return step


@entry_point
def _examination_step(
    values: Values,
    num: Values,
    den: Values,
    pair: IntArray,
    slot: IntArray,
    clicked: FloatArray,
    missed: FloatArray,
) -> float:
    total = 0.0
    for i in range(len(pair)):
        a, e = values[0][pair[i]], values[1][slot[i]]
        unclicked = 1 - a * e
        share = missed[i] / unclicked
        num[0][pair[i]] += clicked[i] + share * (1 - e) * a
        num[1][slot[i]] += clicked[i] + share * (1 - a) * e
        den[0][pair[i]] += clicked[i] + missed[i]
        den[1][slot[i]] += clicked[i] + missed[i]
        if clicked[i] > 0:
            total += clicked[i] * math.log(a * e)
        if missed[i] > 0:
            total += missed[i] * math.log(unclicked)
    return total
