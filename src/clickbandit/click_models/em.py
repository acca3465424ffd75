"""The one EM loop of all click models, with its stopping rule, its trace and the standard errors of what it
finds."""

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from clickbandit.click_models.fitting import (
    Cells,
    FitOptions,
    GroupedCounts,
    Joint,
    ParameterEstimate,
    penalty,
    smoothed,
    sums,
)
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
    counts: GroupedCounts,
    options: FitOptions,
    *,
    exact: Step | None = None,
    by_pair: int = 1,
    separate: bool = False,
) -> ParameterEstimate:
    """Dempster, Laird, Rubin (1977): from 0.5, count what is expected, take the smoothed shares, repeat.

    `exact` is the step of exact EM where `step` is not. The first `by_pair` parameters have a value for each
    pair, the others are shared. `separate` says that given the shared parameters, pairs have nothing to do
    with each other.
    """
    values: Values = tuple(np.full(size, 0.5) for size in sizes.values())
    trace: list[float] = []
    limit = MAX_ITERATIONS if options.iterations is None else options.iterations
    while True:
        likelihood, num, den = expect(step, values)
        trace.append(likelihood + penalty(values, options.smoothing))
        settled = len(trace) > 1 and trace[-1] - trace[-2] < options.tolerance * counts.n_sessions
        if len(trace) > limit or (settled and options.iterations is None):
            break
        values = tuple(
            np.clip(smoothed(n, d, options.smoothing), FLOOR, CAP) for n, d in zip(num, den, strict=True)
        )
    prior = tuple(np.full(len(np.concatenate(values)), strength) for strength in options.smoothing)
    with information(
        values,
        exact or step,
        prior,
        counts.n_pairs * by_pair,
        separate=separate,
        spacing=_PROBE_SPACING if options.joint else 1,
    ) as found:
        covariance = found.covariance()
        errors = standard_errors(values, found, covariance)
        joint = found.joint(covariance) if options.joint else None
    names = list(sizes)
    return ParameterEstimate(
        dict(zip(names, values, strict=True)),
        dict(zip(names, errors, strict=True)),
        likelihood,
        trace,
        len(trace) - 1,
        joint=joint,
    )


def expect(step: Step, values: Values) -> tuple[float, Values, Values]:
    """The log-likelihood of values, and the expected counts of each parameter, by one step of EM."""
    num, den = tuple(map(np.zeros_like, values)), tuple(map(np.zeros_like, values))
    return step(values, num, den), num, den


# --- standard errors ----------------------------------------------------------------------------------------

_MOVE = 1e-4  # of a log-odds, to see how the gradient changes
_PROBES = 8
_PROBE_SPACING = 64
"""Where parameters are drawn, those of this many adjacent pairs are told apart, which takes longer."""
_MAX_MATRIX = 30_000_000
"""Entries of what lies between the parameters of pairs and the shared ones: more are kept in a file."""
_BLOCK = 100_000  # pairs at a time
_SOLVING = 200  # steps of conjugate gradients, at most


class Information(NamedTuple):
    """The information matrix: the curvature of the penalised log-likelihood in the log-odds of its parameters."""

    local: FloatArray
    """Its diagonal for the parameters of pairs."""
    between: FloatArray
    """Its columns of the shared parameters."""
    solved: FloatArray
    """The inverse of its part for pairs, times the part of these columns."""

    def blocks(self) -> list[slice]:
        """The pairs, some at a time."""
        n = len(self.local)
        return [slice(first, min(first + _BLOCK, n)) for first in range(0, n, _BLOCK)]

    def covariance(self) -> FloatArray:
        """Of the shared parameters: their part of the inverse of the whole matrix."""
        _, between, solved = self
        schur = between[len(self.local) :] - sum(between[block].T @ solved[block] for block in self.blocks())
        size, vectors = np.linalg.eigh((schur + schur.T) / 2)
        return np.asarray((vectors / np.maximum(size, 1e-9)) @ vectors.T)

    def joint(self, covariance: FloatArray) -> Joint:
        """The same as a distribution, given the covariance of the shared parameters."""
        return Joint(self.local, np.array(self.solved), covariance)


def standard_errors(values: Values, found: Information, covariance: FloatArray) -> Values:
    """Of all parameters, given the covariance of the shared ones.

    A pair's error counts the doubt about the shared parameters, but not that about pairs that it is not separate from.
    """
    variance = 1 / found.local
    for block in found.blocks():
        cross = found.solved[block]
        variance[block] += np.einsum("ig,gh,ih->i", cross, covariance, cross)
    value = np.concatenate(values)
    error = value * (1 - value) * np.sqrt(np.concatenate([variance, np.diag(covariance)]))
    # No probability is known worse than to within a half.
    return tuple(np.split(np.minimum(error, 0.5), _cuts(values)))


@contextmanager
def information(
    values: Values, step: Step, prior: Values, n_local: int, *, separate: bool, spacing: int = 1
) -> Iterator[Information]:
    """By Fisher's identity the gradient is what EM expects: p + num - (p + q + den) value. Its differences give the
    matrix: of the parameters of pairs the diagonal (estimated by random signs, Bekas, Kokiopoulou, Saad 2007; exact
    where pairs are separate), of the shared ones all, and what lies between. `prior` is p and q of each parameter.

    Pairs of one query stand together, and those of different queries are separate: so signs that are `spacing`
    places apart hardly disturb each other.
    """
    p, q = prior
    value = np.concatenate(values)
    odds = np.log(value) - np.log1p(-value)
    n_shared = len(value) - n_local

    def gradient(at: FloatArray) -> FloatArray:
        moved = 1 / (1 + np.exp(-at))
        _, num, den = expect(step, tuple(np.split(moved, _cuts(values))))
        return p + np.concatenate(num) - (p + q + np.concatenate(den)) * moved

    here = gradient(odds)

    def product(direction: FloatArray) -> FloatArray:
        scale = max(float(np.abs(direction).max()), 1e-300)  # no step is too long for a difference
        return (here - gradient(odds + _MOVE / scale * direction)) / _MOVE * scale

    def of_pairs(direction: FloatArray) -> FloatArray:
        return product(np.append(direction, np.zeros(n_shared)))[:n_local]

    rng = np.random.default_rng(0)
    local = np.zeros(n_local)
    for probe in _probes(
        values, n_local, 1 if separate or spacing > 1 else _PROBES, 1 if separate else spacing
    ):
        signs = rng.choice([-1.0, 1.0], n_local) * probe
        local += of_pairs(signs) * signs
    local = np.maximum(local, np.maximum((p + q) * value * (1 - value), 1e-12)[:n_local])
    with _matrix(len(value), n_shared) as between, _matrix(n_local, n_shared) as solved:
        for i in range(n_shared):
            between[:, i] = product(np.eye(1, len(value), n_local + i)[0])
            wanted = between[:n_local, i]
            solved[:, i] = wanted / local if separate else _solve(of_pairs, wanted, local)
        yield Information(local, between, solved)


def _probes(values: Values, n_local: int, times: int, spacing: int) -> Iterator[FloatArray]:
    """Which parameters of pairs are moved at once, and how far: the squares add up to 1 for each."""
    if spacing == 1:
        for _ in range(times):
            yield np.full(n_local, math.sqrt(1 / times))
        return
    sizes = [len(value) for value in values]
    kind = np.repeat(np.arange(len(sizes)), sizes)[:n_local]
    place = np.concatenate([np.arange(size) for size in sizes])[:n_local] % spacing
    for one in range(int(kind.max(initial=-1)) + 1):
        for at in range(spacing):
            yield ((kind == one) & (place == at)).astype(float)


def _cuts(values: Values) -> IntArray:
    return np.cumsum([len(value) for value in values])[:-1]


def _solve(
    product: Callable[[FloatArray], FloatArray], wanted: FloatArray, diagonal: FloatArray
) -> FloatArray:
    """What a positive definite matrix takes to the wanted vector: conjugate gradients (Hestenes, Stiefel 1952)."""
    found, left = np.zeros_like(wanted), np.array(wanted)
    direction = scaled = left / diagonal
    size = goal = float(left @ scaled)
    for _ in range(_SOLVING):
        if size <= 1e-8 * goal:
            break
        moved = product(direction)
        curvature = float(direction @ moved)
        if not curvature > 0:  # EM was stopped where there is no maximum yet
            break
        length = size / curvature
        found, left = found + length * direction, left - length * moved
        scaled = left / diagonal
        before, size = size, float(left @ scaled)
        direction = scaled + size / before * direction
    return found


@contextmanager
def _matrix(rows: int, columns: int) -> Iterator[FloatArray]:
    """Room for a matrix, in memory or in a file that is gone afterwards."""
    if rows * columns <= _MAX_MATRIX:
        yield np.empty((rows, columns))
        return
    with tempfile.TemporaryFile() as file:
        yield np.memmap(file, np.float64, "w+", shape=(rows, columns), order="F")


# --- models in which a position is examined whatever stands there (PBM, UBM) --------------------------------


def examination(cells: Cells, slot: IntArray, sizes: Sequence[int]) -> Step:
    """The EM step for attraction by pair and examination by `slot`, one for each row of cells; how many there are."""
    n_missed = cells.shown - cells.clicked
    indices = tuple(zip((cells.pair, slot), sizes, strict=True))
    shown, clicked = (
        [sums(index, times, size) for index, size in indices] for times in (cells.shown, cells.clicked)
    )

    def step(values: Values, num: Values, den: Values) -> float:
        for known, total in zip(shown, den, strict=True):
            total += known
        of_clicks = sum(
            float((times * np.log(value)).sum()) for times, value in zip(clicked, values, strict=True)
        )
        return of_clicks + _examination_step(values, num, cells.pair, slot, cells.clicked, n_missed)

    return step


@entry_point
def _examination_step(
    values: Values, num: Values, pair: IntArray, slot: IntArray, clicked: FloatArray, missed: FloatArray
) -> float:
    """Add what is expected; the log-likelihood of what was not clicked."""
    total = 0.0
    for i in range(len(pair)):
        a, e = values[0][pair[i]], values[1][slot[i]]
        unclicked = 1 - a * e
        share = missed[i] / unclicked
        num[0][pair[i]] += clicked[i] + share * (1 - e) * a
        num[1][slot[i]] += clicked[i] + share * (1 - a) * e
        if missed[i] > 0:
            total += missed[i] * math.log(unclicked)
    return total
