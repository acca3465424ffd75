"""Services that are watched: a part of `python -m benchmarks.coverage`.

They show lists to users of a click law, hold out a share, and are looked at after every hundredth of their impressions.
Without a difference between the arms, whoever sees an interval exclude zero at any of the looks is misled: a false
alarm. With a difference of 5%, and the sequence tightest at the size of a fixed test planned for it (with 80% power at
level 5%), the impressions until it is found are compared with that size.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks import Rows
from clickbandit.compiling.kernel import FloatArray
from clickbandit.intervals import Sums, Units, watched_difference, watched_over_shares

IMPRESSIONS = 50_000
LOOKS = 100
DIFFERENCE = 0.05
_NORMAL_95, _NORMAL_80 = 1.959964, 0.841621


def position_based(probabilities: Sequence[float]) -> FloatArray:
    """How likely 0, 1, 2, ... clicks are where each position is clicked by itself."""
    law = np.ones(1)
    for p in probabilities:
        law = np.convolve(law, [1 - p, p])
    return law


LAWS = {
    "at most one click, 1% of lists": np.array([0.99, 0.01]),
    "at most one click, 30% of lists": np.array([0.7, 0.3]),
    "at most one click, 97% of lists": np.array([0.03, 0.97]),
    "five positions by themselves": position_based([0.5, 0.25, 0.15, 0.1, 0.05]),
    "five clicks on 10% of lists": np.array([0.9, 0, 0, 0, 0, 0.1]),
}
"""How likely 0, 1, 2, ... clicks on a list are."""

Periods = list[tuple[float, Sums, Sums]]


class Look(NamedTuple):
    """What happens from one look to the next."""

    impressions: int
    share: float
    """Of impressions that are held out."""
    treated: FloatArray
    """The click law."""
    held_out: FloatArray


def fixed(periods: Periods, _tightest_at: float) -> tuple[float, float]:
    """The interval of a test that is looked at once, whatever the share was."""
    (n, *one), (m, *other) = (np.sum([period[arm] for period in periods], axis=0) for arm in (1, 2))
    errors = [max(squares / k - (total / k) ** 2, 0) / k for k, (total, squares) in ((n, one), (m, other))]
    difference, radius = one[0] / n - other[0] / m, _NORMAL_95 * math.sqrt(sum(errors))
    return difference - radius, difference + radius


def watched(periods: Periods, tightest_at: float) -> tuple[float, float]:
    return watched_over_shares(periods, tightest_at=tightest_at)


def first_told(
    looks: Sequence[Look],
    tightest_at: float,
    rng: np.random.Generator,
    interval: Callable[[Periods, float], tuple[float, float]] = watched,
) -> int | None:
    """The number of the first look at which the interval of a simulated service excludes zero, if there is one."""
    arms: dict[float, FloatArray] = {}
    for number, look in enumerate(looks):
        held_out = rng.binomial(look.impressions, look.share)
        counts = arms.setdefault(look.share, np.zeros((2, 3)))
        counts[0] += _sums(look.treated, look.impressions - held_out, rng)
        counts[1] += _sums(look.held_out, held_out, rng)
        low, high = interval([(share, tuple(a), tuple(b)) for share, (a, b) in arms.items()], tightest_at)
        if not low <= 0 <= high:
            return number
    return None


def _sums(law: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    clicks = np.arange(len(law))
    lists = rng.multinomial(n, law)
    return np.array([n, lists @ clicks, lists @ clicks**2], float)


def unchanged(law: FloatArray, share: float) -> list[Look]:
    """A service without a difference."""
    return [Look(IMPRESSIONS // LOOKS, share, law, law)] * LOOKS


def changing(share: float = 0.5, later: float = 0.05) -> list[Look]:
    """A service without a difference, whose share is changed when other users come, who click more."""
    few, many = LAWS["at most one click, 1% of lists"], LAWS["at most one click, 30% of lists"]
    return unchanged(few, share)[: LOOKS // 2] + unchanged(many, later)[: LOOKS // 2]


def improved(law: FloatArray, share: float) -> tuple[list[Look], int]:
    """A service with a difference, looked at until twice the size of a fixed test, and this size."""
    better = law.copy()
    better[1:] *= 1 + DIFFERENCE
    better[0] = 1 - better[1:].sum()
    (mean, variance), (better_mean, better_variance) = _moments(law), _moments(better)
    squared_error = better_variance / (1 - share) + variance / share
    size = math.ceil((_NORMAL_95 + _NORMAL_80) ** 2 * squared_error / (better_mean - mean) ** 2)
    return [Look(math.ceil(size / LOOKS), share, better, law)] * (2 * LOOKS), size


def _moments(law: FloatArray) -> tuple[float, float]:
    clicks = np.arange(len(law))
    return float(law @ clicks), float(law @ clicks**2 - (law @ clicks) ** 2)


def false_alarms(services: int, rng: np.random.Generator) -> Rows:
    kinds = {
        f"{name}, {share:.0%} held out": unchanged(law, share)
        for name, law in LAWS.items()
        for share in (0.05, 0.5)
    }
    kinds["50% held out, then 5% when users click more"] = changing()
    rows = []
    for name, looks in kinds.items():
        found = [
            np.mean([first_told(looks, IMPRESSIONS, rng, interval) is not None for _ in range(services)])
            for interval in (watched, fixed)
        ]
        rows.append({"users": name, "false alarms": found[0], "of a fixed interval": found[1]})
    return rows


VISITS = {
    "all as often": np.ones(5000),
    "some ten times as often": np.random.default_rng(1).pareto(2.5, 5000) + 1,
}
"""Of users, how often each comes, in relation to the others."""


def by_users(services: int, rng: np.random.Generator) -> Rows:
    """Users who come again and again and differ: compared as users, and as if each impression were for itself."""
    rows = []
    for name, visits in VISITS.items():
        told = np.zeros((services, 2), bool)
        for service in range(services):
            found = _users(visits / visits.sum(), rng)
            told[service] = [
                any(not low <= 0 <= high for low, high in column) for column in zip(*found, strict=True)
            ]
        by_user, by_impression = told.mean(axis=0)
        rows.append({"users": name, "false alarms": by_user, "by impression": by_impression})
    return rows


def _users(chances: FloatArray, rng: np.random.Generator) -> list[tuple[tuple[float, float], ...]]:
    """The intervals of a service without a difference, at each look: by user and by impression."""
    held_out = rng.random(len(chances)) < 0.2
    attraction = rng.beta(0.5, 1.5, len(chances))
    seen, clicked = np.zeros((2, len(chances)))
    found = []
    for _ in range(LOOKS):
        new = rng.multinomial(IMPRESSIONS // LOOKS, chances)
        seen += new
        clicked += rng.binomial(new, attraction)
        users = [
            Units(len(n), n.sum(), c.sum(), n @ n, n @ c, c @ c)
            for arm in (~held_out, held_out)
            for n, c in [(seen[arm & (seen > 0)], clicked[arm & (seen > 0)])]
        ]
        impressions = [(arm.impressions, arm.clicks, arm.clicks) for arm in users]
        found.append(
            (
                watched_difference(*users, tightest_at=2 * len(chances)),
                watched_difference(*impressions, tightest_at=IMPRESSIONS),
            )
        )
    return found


def power(services: int, rng: np.random.Generator) -> Rows:
    rows = []
    for name in ("at most one click, 30% of lists", "five positions by themselves"):
        for share in (0.05, 0.5):
            looks, size = improved(LAWS[name], share)
            told = [first_told(looks, size, rng) for _ in range(services)]
            times = [math.inf if look is None else (look + 1) / LOOKS for look in told]
            rows.append(
                {
                    "users": f"{name}, {share:.0%} held out",
                    "fixed test": size,
                    "found within twice that": np.mean(np.isfinite(times)),
                    "median, in times that": float(np.median(times)),
                }
            )
    return rows
