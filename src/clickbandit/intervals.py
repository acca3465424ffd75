"""Every interval that is printed: over runs, and what may be watched while impressions come in."""

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from clickbandit.defaults import TIGHTEST_AT
from clickbandit.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from clickbandit.compiling.kernel import FloatArray


class Interval(NamedTuple):
    """A mean and where it lies with 95% confidence; without width for a single value."""

    mean: float
    low: float
    high: float


def mean_interval(values: "Sequence[float] | FloatArray", least: float = -math.inf) -> Interval:
    """The mean of independent values with its interval (see `mean_of_strata`), cut off at the least that it can be.

    >>> [round(value, 3) for value in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    """
    return mean_of_strata([values], least)


def _moments(values: "Sequence[float] | FloatArray") -> tuple[float, float, float]:
    """Mean, variance and third central moment, as they are expected to be of all (0 for the last if there are fewer
    than three), in plain Python: the command line must not wait for NumPy."""
    found = [float(value) for value in values]
    n, mean = len(found), math.fsum(found) / len(found)
    squares, cubes = (math.fsum((value - mean) ** power for value in found) for power in (2, 3))
    return mean, squares / max(n - 1, 1), cubes * n / ((n - 1) * (n - 2)) if n > 2 else 0.0


def mean_of_strata(
    strata: "Sequence[Sequence[float] | FloatArray] | FloatArray", least: float = -math.inf
) -> Interval:
    """The mean over strata of their means, where each stratum has independent values of its own law.

    The strata are given (the queries of a comparison) and the values are drawn (runs on each), so how strata differ is
    no error. The errors of the strata are pooled with Satterthwaite's degrees of freedom, rounded down so that the
    interval is never too short. Without width if some stratum has a single value.

    Regret is skewed: a few runs lose much, and a sample without them looks too good. So the interval reaches further to
    the side of the long tail than Student's, by the first term of an Edgeworth expansion (Johnson 1978; Hall 1992), if
    every stratum has five values; fewer do not tell. None of this is enough for few values that are skewed a lot: of
    lognormal ones (sigma 1) the interval has the mean in it in 84% of cases with three values of one stratum, 83% with
    four, 86% with five and 88% with ten; with ten strata in 91, 91, 94 and 95%.

    >>> [round(value, 3) for value in mean_of_strata([[1.0, 2.0, 3.0], [11.0, 12.0, 13.0]])]
    [7.0, 5.867, 8.133]
    >>> [round(value, 3) for value in mean_of_strata([[1.0, 1.0, 1.0, 1.0, 2.0, 6.0]])]
    [2.0, -0.099, 5.876]
    """
    means, variances, cubes = zip(*map(_moments, strata), strict=True)
    mean = math.fsum(means) / len(means)
    sizes = [len(row) for row in strata]
    errors = [variance / size for variance, size in zip(variances, sizes, strict=True)]
    error = math.fsum(errors)
    if min(sizes) < 2 or error == 0:
        return Interval(mean, mean, mean)
    freedom = error**2 / sum(one**2 / (size - 1) for one, size in zip(errors, sizes, strict=True))
    reach = student_quantile(min(math.floor(freedom + _ROUNDING), _MAX_FREEDOM))
    skewness = 0.0
    if min(sizes) >= _MIN_FOR_SKEWNESS:
        skewness = math.fsum(cube / size**2 for cube, size in zip(cubes, sizes, strict=True)) / error**1.5
    unit, further = math.sqrt(error) / len(means), abs(skewness) * (1 + 2 * reach**2) / 6
    low, high = mean - unit * reach, mean + unit * reach
    low, high = (low, high + unit * further) if skewness > 0 else (low - unit * further, high)
    return Interval(mean, max(low, min(least, mean)), high)


_MIN_FOR_SKEWNESS = 5
"""The least number of values whose skewness is used."""
_ROUNDING = 1e-9  # of degrees of freedom: what is whole but for that is not rounded down
_MAX_FREEDOM = 1000
"""With this many degrees of freedom Student's quantile is within a thousandth of the normal one."""


# --- from draws ---------------------------------------------------------------------------------------------


def interval_of_draws(draws: "FloatArray") -> Interval:
    """The mean of draws from what is known, and where the middle 95% of them lie.

    >>> import numpy as np
    >>> [round(value, 3) for value in interval_of_draws(np.arange(101.0))]
    [50.0, 2.5, 97.5]
    """
    import numpy as np

    low, high = np.quantile(draws, [0.025, 0.975])
    return Interval(float(np.mean(draws)), float(low), float(high))


def sessions_to_prove(difference: float, variances: tuple[float, float]) -> float:
    """How many sessions a test of two lists needs, each shown to half of them, to tell this difference from none.

    It has 80% power at level 5%, and is looked at once. Given are the variances of the clicks on either list.

    >>> round(sessions_to_prove(0.01, (0.2, 0.2)))
    62791
    """
    if difference == 0:
        return math.inf
    return 2 * (_NORMAL_95 + _NORMAL_80) ** 2 * sum(variances) / difference**2


_NORMAL_95, _NORMAL_80 = 1.959964, 0.841621


# --- what may be watched ------------------------------------------------------------------------------------

Sums = tuple[float, float, float]
"""Of the impressions of an arm: their number, the sum of their clicks, and the sum of the squares of these."""


class Units(NamedTuple):
    """Sums over the units of an arm, such as users, who have some impressions each; used instead of `Sums`."""

    n: float
    impressions: float
    clicks: float
    squared_impressions: float
    products: float
    """Of the impressions and the clicks of each."""
    squared_clicks: float


_MIN_CLICKS = 20
_MIN_SPREAD = 10
"""Of the clicks of an arm: what the squares of their deviations from the mean add up to."""


def watched_mean(
    arm: Sums | Units, level: float = 0.95, tightest_at: float = TIGHTEST_AT
) -> tuple[float, float]:
    """Where the clicks per impression of an arm lie, as (low, high) that may be watched: see `watched_difference`.

    >>> [round(value, 3) for value in watched_mean((1000, 100, 100), tightest_at=1000)]
    [0.071, 0.129]
    """
    return watched_mean_over_shares([(1.0, arm)], level, tightest_at)


def watched_mean_over_shares(
    periods: Sequence[tuple[float, Sums | Units]], level: float = 0.95, tightest_at: float = TIGHTEST_AT
) -> tuple[float, float]:
    """`watched_mean` where the share of impressions that go to the arm was changed: see `watched_over_shares`.

    >>> [round(value, 3) for value in watched_mean_over_shares([(0.5, (500, 50, 50)), (0.05, (500, 200, 200))])]
    [0.191, 0.555]
    """
    found = _weighed([(1 / share, arm) for share, arm in periods])
    return _sequence(found.mean, [found], level, tightest_at)


def watched_difference(
    a: Sums | Units, b: Sums | Units, level: float = 0.95, tightest_at: float = TIGHTEST_AT
) -> tuple[float, float]:
    """The clicks per impression of arm a less those of b, as (low, high) that may be watched while both grow.

    With probability `level` the true difference is in it at all times at once, so one may look whenever one likes and
    stop as soon as it excludes zero: a confidence sequence. It is asymptotic, so it says nothing, (-inf, inf), until
    each arm has 20 clicks (the square of their sum over the sum of squares, so that a list with many clicks counts
    little more than one with one) and these vary: where nearly all impressions have a click, ten must have none.

    It is tightest when both arms together have `tightest_at` impressions, which should be about the size of a test
    planned for the difference that matters: 3.0 standard errors, at a fifth of it 3.4, at the tenfold 3.2.

    Where arms are chosen by user, a user's impressions are not independent: give `Units`, the sums over users. Then
    users are what is counted above, and errors are those of a ratio of sums over users.

    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas: Time-uniform central limit theory and asymptotic confidence
    sequences (2021), of the normal mixture.

    >>> [round(value, 3) for value in watched_difference((9500, 1045, 1045), (500, 45, 45))]
    [-0.031, 0.071]
    >>> watched_difference((950, 100, 100), (50, 5, 5))
    (-inf, inf)
    """
    return watched_over_shares([(0.5, a, b)], level, tightest_at)


def watched_over_shares(
    periods: Sequence[tuple[float, Sums | Units, Sums | Units]],
    level: float = 0.95,
    tightest_at: float = TIGHTEST_AT,
) -> tuple[float, float]:
    """`watched_difference` where the share of impressions that go to b was changed: both arms by this share.

    If b got half of the impressions at night and a twentieth by day, its users are not those of a. So an impression
    weighs one over the share that its arm had when it was shown (inverse propensity weights, normalised), and
    the difference is that between all impressions in arm a and all in arm b. Impressions shown while a share was 0 or
    1 compare nothing and are left out. After a change nothing is said until either arm has 20 impressions of the new
    share, unless these are less than a hundredth of all.

    >>> night, day = (0.5, (1000, 100, 100), (1000, 100, 100)), (0.05, (9500, 3800, 3800), (500, 200, 200))
    >>> [round(value, 3) for value in watched_over_shares([night, day])]
    [-0.07, 0.07]
    """
    for share, _, _ in periods:
        if not 0 < share < 1:
            raise InputError(f"the share of arm b must be above 0 and below 1, found {share}: leave it out")
    n = sum(a[0] + b[0] for _, a, b in periods)
    if any(min(a[0], b[0]) < _MIN_CLICKS and a[0] + b[0] > n / 100 for _, a, b in periods):
        return -math.inf, math.inf
    one = _weighed([(1 / (1 - share), a) for share, a, _ in periods])
    other = _weighed([(1 / share, b) for share, _, b in periods])
    return _sequence(one.mean - other.mean, [one, other], level, tightest_at)


class _Arm(NamedTuple):
    n: float
    mean: float
    squared_error: float
    """Of the mean."""
    clicks: float
    """How many equal clicks would be as much evidence."""
    spread: float
    """What the squares of their deviations from the mean add up to, in the same sense, where a click is one: rewards
    may be in any unit."""


def _weighed(parts: Sequence[tuple[float, Sums | Units]]) -> _Arm:
    """An arm from the sums of its parts, each with the weight that its impressions have."""
    units = [(w, _units(sums)) for w, sums in parts]
    n = sum(part.n for _, part in units)
    if n < 2:
        return _Arm(n, 0.0, 0.0, 0.0, 0.0)
    weight = sum(w * part.impressions for w, part in units)
    mean = sum(w * part.clicks for w, part in units) / weight
    clicks = [
        (w, part.clicks * part.clicks / part.squared_clicks if part.squared_clicks else 0.0)
        for w, part in units
    ]
    spread = [
        (w, max(p.squared_clicks - 2 * mean * p.products + mean * mean * p.squared_impressions, 0.0))
        for w, p in units
    ]
    squared_error = sum(w * w * deviations for w, deviations in spread) / weight**2 * n / (n - 1)
    size = sum(part.squared_impressions for _, part in units) / sum(part.impressions for _, part in units)
    click = sum(p.squared_clicks for _, p in units) / (sum(p.products for _, p in units) or 1.0)
    varied = _effective(spread) / (size * click * click) if click else 0.0
    return _Arm(n, mean, squared_error, _effective(clicks), varied)


def _units(sums: Sums | Units) -> Units:
    """Where each impression is a unit."""
    if isinstance(sums, Units):
        return sums
    n, clicks, squares = sums
    return Units(n, n, clicks, n, clicks, squares)


def _effective(parts: Sequence[tuple[float, float]]) -> float:
    """How many values of equal weight are as much evidence as these weighted ones (Kish's effective sample size)."""
    squares = sum(weight * weight * n for weight, n in parts)
    return sum(weight * n for weight, n in parts) ** 2 / squares if squares > 0 else 0.0


def _sequence(estimate: float, arms: Sequence[_Arm], level: float, tightest_at: float) -> tuple[float, float]:
    """A confidence sequence around an estimate whose squared error is the sum of those of its arms."""
    if not (0 < level < 1 and tightest_at > 0):
        raise InputError(
            f"a confidence sequence needs a level between 0 and 1 and to be tightest at some number of impressions, "
            f"found {level} and {tightest_at}"
        )
    if any(arm.clicks < _MIN_CLICKS or arm.spread < _MIN_SPREAD for arm in arms):
        return -math.inf, math.inf
    alpha = 1 - level
    grown = _mixture_scale(alpha, tightest_at) * sum(arm.n for arm in arms) + 1
    factor = math.sqrt(2 * grown / (grown - 1) * math.log(math.sqrt(grown) / alpha))
    radius = factor * math.sqrt(sum(arm.squared_error for arm in arms))
    return estimate - radius, estimate + radius


def _mixture_scale(alpha: float, tightest_at: float) -> float:
    """The squared rho of the paper: which sizes the mixture favours."""
    return (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / tightest_at


def watched_sum(estimate: float, residuals: "FloatArray", level: float = 0.95) -> tuple[float, float]:
    """Where a mean lies that is estimated from values which depend on those before them, as (low, high).

    The residuals, of each value from what it is expected to be, add up to a martingale: as where a policy learns from
    its own log, and propensities say how its lists were drawn. There the spread need not settle, so that an ordinary
    interval is too narrow; this confidence sequence, taken where it is tightest, holds whenever the log was ended. It
    is asymptotic, and for residuals none of which is a great part of all.

    >>> import numpy as np
    >>> [round(value, 3) for value in watched_sum(0.5, np.array([-0.5, 0.5] * 200))]
    [0.424, 0.576]
    """
    n = len(residuals)
    squared_error = float(residuals @ residuals) / n**2
    plenty = float(max(_MIN_CLICKS, _MIN_SPREAD))
    return _sequence(estimate, [_Arm(n, estimate, squared_error, plenty, plenty)], level, n)


def watched_means(
    values: "FloatArray", counted: "NDArray[np.bool_]", level: float = 0.95, tightest_at: float = 1000.0
) -> Interval:
    """The sum over columns of their means, where what came before decides which rows count in which column.

    As of a list that a policy shows as long as it seems good: the clicks on it are those of users like all, but how
    often it is shown depends on them, so that a list which was unlucky is left with its bad luck. The sums of the
    deviations from the true means are a martingale with a part for each column, and this is the confidence sequence of
    its normal mixture, which holds at all times and for all weights of the columns at once (Abbasi-Yadkori, Pal and
    Szepesvari 2011, Theorem 1, with the variances that were seen). It is asymptotic; a column has at least the spread
    of a single 1, so that one of zeros is not taken for certain.

    >>> import numpy as np
    >>> counted = np.arange(400) % 2 == 0
    >>> [round(value, 3) for value in watched_means(np.tile([[1.0], [9], [0], [9]], (100, 1)), counted[:, None])]
    [0.5, 0.381, 0.619]
    """
    import numpy as np

    n = counted.sum(axis=0)
    if n.min() == 0:
        return Interval(math.nan, -math.inf, math.inf)
    means = np.where(counted, values, 0.0).sum(axis=0) / n
    deviations = np.where(counted, values - means, 0.0)
    spread = deviations.T @ deviations
    np.fill_diagonal(spread, np.maximum(spread.diagonal(), 1.0))
    alpha = 1 - level
    prior = spread.diagonal() / n / _mixture_scale(alpha, tightest_at)
    spread += np.diag(prior)
    grown = float(np.linalg.slogdet(spread)[1] - np.log(prior).sum())
    mean, radius = (
        float(means.sum()),
        math.sqrt(float((spread / n / n[:, None]).sum()) * (grown - 2 * math.log(alpha))),
    )
    return Interval(mean, mean - radius, mean + radius)


# --- Student's distribution ---------------------------------------------------------------------------------


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
