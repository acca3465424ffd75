"""Confidence intervals for the mean of a few runs."""

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from clickbandit.kernel import FloatArray


class Interval(NamedTuple):
    """A mean and where it lies with 95% confidence; without width for a single value."""

    mean: float
    low: float
    high: float


def mean_interval(values: Sequence[float] | FloatArray, least: float = -math.inf) -> Interval:
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
