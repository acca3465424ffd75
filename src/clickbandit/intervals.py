"""Confidence intervals for means: of a few runs, of many impressions."""

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from clickbandit.compiling.kernel import FloatArray


class Interval(NamedTuple):
    """A mean and where it lies with 95% confidence; without width for a single value."""

    mean: float
    low: float
    high: float


def mean_interval(values: "Sequence[float] | FloatArray", least: float = -math.inf) -> Interval:
    """The mean of independent values with Student's interval, cut off at the least that it can be.

    >>> [round(value, 3) for value in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    """
    values = np.asarray(values, float)
    mean = float(values.mean())
    if len(values) < 2:
        return Interval(mean, mean, mean)
    radius = student_quantile(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Interval(mean, max(mean - radius, min(least, mean)), mean + radius)


def mean_of_strata(
    strata: "Sequence[Sequence[float] | FloatArray] | FloatArray", least: float = -math.inf
) -> Interval:
    """The mean over strata of their means, where each stratum has independent values of its own law.

    The strata are given (the queries of a comparison) and the values are drawn (runs on each), so how strata differ is
    no error. The errors of the strata are pooled with Satterthwaite's degrees of freedom, rounded down so that the
    interval is never too short. Without width if some stratum has a single value.

    >>> [round(value, 3) for value in mean_of_strata([[1.0, 2.0, 3.0], [11.0, 12.0, 13.0]])]
    [7.0, 5.867, 8.133]
    """
    rows = [np.asarray(row, float) for row in strata]
    mean = float(np.mean([row.mean() for row in rows]))
    sizes = [len(row) for row in rows]
    if min(sizes) < 2:
        return Interval(mean, mean, mean)
    errors = [float(row.var(ddof=1)) / len(row) for row in rows]
    error = sum(errors)
    if error == 0:
        return Interval(mean, mean, mean)
    freedom = error**2 / sum(one**2 / (size - 1) for one, size in zip(errors, sizes, strict=True))
    radius = (
        student_quantile(min(math.floor(freedom + _ROUNDING), _MAX_FREEDOM)) * math.sqrt(error) / len(rows)
    )
    return Interval(mean, max(mean - radius, min(least, mean)), mean + radius)


_ROUNDING = 1e-9  # of degrees of freedom: what is whole but for that is not rounded down
_MAX_FREEDOM = 1000
"""With so many degrees of freedom Student's quantile is the normal one but for a thousandth."""


def mean_of_sums(n: int, total: float, squares: float) -> Interval:
    """The mean of n independent values with Student's interval, from their sum and that of their squares.

    >>> [round(value, 3) for value in mean_of_sums(3, 6, 14)]
    [2.0, -0.484, 4.484]
    """
    mean = total / n
    radius = student_quantile(min(n - 1, _MAX_FREEDOM)) * math.sqrt(_squared_error(n, total, squares))
    return Interval(mean, mean - radius, mean + radius)


def difference_of_means(one: tuple[int, float, float], other: tuple[int, float, float]) -> Interval:
    """The mean of one sample less that of another with Welch's interval, each from (n, sum, sum of squares).

    His degrees of freedom are rounded down, so that the interval is never too short.

    >>> [round(value, 3) for value in difference_of_means((3, 6, 14), (4, 4, 6))]
    [1.0, -1.25, 3.25]
    """
    difference = one[1] / one[0] - other[1] / other[0]
    errors = _squared_error(*one), _squared_error(*other)
    error = sum(errors)
    if error == 0:
        return Interval(difference, difference, difference)
    freedom = error**2 / (errors[0] ** 2 / (one[0] - 1) + errors[1] ** 2 / (other[0] - 1))
    radius = student_quantile(min(math.floor(freedom), _MAX_FREEDOM)) * math.sqrt(error)
    return Interval(difference, difference - radius, difference + radius)


def _squared_error(n: int, total: float, squares: float) -> float:
    """The squared standard error of a mean."""
    return max(squares - total * total / n, 0.0) / (n - 1) / n


@cache
def student_quantile(freedom: int, level: float = 0.95) -> float:
    """How many standard errors a two-sided interval reaches, by bisection of Student's distribution.

    >>> round(student_quantile(9), 4)
    2.2622
    """
    low, high = 0.0, 1e3
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_mass(middle, freedom) < level else (low, middle)
    return (low + high) / 2


def _student_mass(t: float, freedom: int) -> float:
    """The probability of [-t, t], in closed form (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    if freedom == 1:
        return 2 * angle / math.pi
    term = cosine if odd else 1.0
    total = term
    for i in range(1 + odd, freedom - 2, 2):
        term *= cosine * cosine * i / (i + 1)
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
