"""KL-UCB bounds that are computed only when they could change a choice (docs/decisions/0004).

The arms are items, or a learner's items; a state has arrays with an entry for each. The bound of an arm is known to
lie between `low` and `high + slope * (budget - at_budget)`: it is concave in the budget; a look without a click
lowers it, by no more than the share of n in n + 1 (the KL scaling lemma of Zoghi et al. 2017); a click raises it.
Before the first look `low` is 0, `high` 1, `slope` 0 and `at_budget` below every budget.
"""

import math
from typing import Protocol

from clickbandit.bounds import kl_upper, newton_upper
from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path

TIE = 1e-12
"""Bounds that are nearer than this are the same, and differ only by rounding."""
MIN_TO_FOLLOW = 16
"""Clicks, and looks at what is left of 1, after which a bound is followed from look to look."""
ROUNDING = 1e-15
"""More than a look's rounding errors."""


class Arms(Protocol):
    """The part of a state that says what was observed of each arm, and what that says of its bound."""

    @property
    def observed(self) -> IntArray: ...
    @property
    def clicks(self) -> IntArray: ...
    @property
    def low(self) -> FloatArray: ...
    @property
    def high(self) -> FloatArray: ...
    @property
    def slope(self) -> FloatArray: ...
    @property
    def at_budget(self) -> FloatArray: ...


@kernel
def compare(arms: Arms, arm: int, other: int, budget: float) -> int:
    """1 if the arm has the higher bound, -1 if the lower, 0 if they are the same.

    Computes both if that is needed to tell.
    """
    high = arms.high[arm] + arms.slope[arm] * (budget - arms.at_budget[arm])
    other_high = arms.high[other] + arms.slope[other] * (budget - arms.at_budget[other])
    if arms.low[other] > high + TIE:
        return -1
    if arms.low[arm] > other_high + TIE:
        return 1
    if arms.observed[arm] == arms.observed[other] and arms.clicks[arm] == arms.clicks[other]:
        return 0
    compute_bound(arms, arm, budget)
    compute_bound(arms, other, budget)
    difference = arms.low[arm] - arms.low[other]
    return 0 if abs(difference) <= TIE else (1 if difference > 0 else -1)


@slow_path
def compute_bound(arms: Arms, arm: int, budget: float) -> None:
    """Compute an arm's bound for this budget, from what was known of it."""
    if arms.at_budget[arm] == budget and arms.low[arm] == arms.high[arm]:
        return
    n = arms.observed[arm]
    share = arms.clicks[arm] / max(n, 1)
    last = arms.low[arm] if arms.high[arm] == 1 else arms.high[arm]
    bound = 1.0
    if 0 < share < last < 1:
        bound = newton_upper(share, budget / n, last)
    if bound == 1:  # there was no last bound, or it was too far off for Newton's method
        bound = kl_upper(share, n, budget)
    arms.low[arm] = bound
    arms.high[arm] = bound
    arms.slope[arm] = bound * (1 - bound) / (n * (bound - share)) if bound > share and n > 0 else 0.0
    arms.at_budget[arm] = budget


@kernel
def look(arms: Arms, arm: int, click: int) -> None:
    """Count a look at an arm, and a click on it if there was one."""
    arms.observed[arm] += 1
    if click:
        arms.clicks[arm] += 1
        arms.high[arm] = 1.0
        arms.slope[arm] = 0.0
    else:
        arms.low[arm] *= (arms.observed[arm] - 1) / arms.observed[arm]


@kernel
def look_closely(arms: Arms, arm: int, click: int) -> None:
    """The same, with what is known of the bound moved along: that pays where arms are compared at every step."""
    n, clicks = arms.observed[arm], arms.clicks[arm]
    one = 1 / max(n, 1)
    share, low, high = clicks * one, arms.low[arm], arms.high[arm]
    x, room = high - share, (1 - high) * (1 - high)
    if low > share and clicks >= MIN_TO_FOLLOW and x <= share and 2 * x <= room and n * room >= MIN_TO_FOLLOW:
        follow(arms, arm, click, one, share)
        arms.observed[arm] = n + 1
        arms.clicks[arm] = clicks + click
    else:
        look(arms, arm, click)


@kernel
def follow(arms: Arms, arm: int, click: int, one: float, share: float) -> None:
    """Move what is known of a bound by what a click or a look without one does to it, to the first order in one / n.

    What the second order may be at most widens the interval; docs/decisions/0004 has the proof.
    """
    low, high = arms.low[arm], arms.high[arm]
    if click:
        odds = 1 / share
        y = (low - share) * odds
        arms.low[arm] = low - ROUNDING + (1 - low) * one * (1 + y / 2 - y * y / 6) * (1 - 2 * one * odds)
        arms.high[arm] = high + ROUNDING + (1 - high) * one * (1 + (high - share) * odds / 2)
        arms.slope[arm] *= 1 + 2 * one * odds
    else:
        odds = 1 / (1 - high)
        y = (low - share) * odds * (1 - (high - low) * odds)
        arms.low[arm] = low - ROUNDING - low * one * (1 - y / 2 + y * y / 3)
        arms.high[arm] = high + ROUNDING - high * one * (1 - one) * (1 - (high - share) * odds / 2)
        arms.slope[arm] *= 1 + 2 * one * odds


# --- leaps --------------------------------------------------------------------------------------------------

REFRESH = 0.05
"""By how much the budget may grow before the tangent to a bound is redrawn: it is then still 1e-6 from it or so."""


@slow_path
def bound_span(
    arms: Arms, arm: int, looks: float, clicks: float, budget: float, later: float
) -> tuple[float, float]:
    """Lower and upper limits of an arm's bound over this many looks and clicks, in any order, up to a later budget.

    It is lowest if all looks without a click come first, by the scaling lemma no less than n / (n + failures) of what
    it was, and highest if all clicks come first and the budget has grown. With a click the bound U of a share s rises
    by dU = (1 - U) / n * r log(r) / (r - 1) with r = U / s; both factors fall with each click.
    """
    if looks > 0 or arms.low[arm] != arms.high[arm] or later - arms.at_budget[arm] > REFRESH:
        compute_bound(arms, arm, budget)
    bound = arms.low[arm]
    high = arms.high[arm] + arms.slope[arm] * (later - arms.at_budget[arm])
    if looks == 0:
        return bound, high
    n = arms.observed[arm]
    low = bound * n / (n + looks - clicks)
    if clicks > 0:
        share = arms.clicks[arm] / n
        if not 0 < share < high:
            return low, math.inf
        more = high / share - 1
        high += clicks * (1 - bound) / n * (1 + more) * math.log1p(more) / more
    return low, high


@kernel
def look_often(arms: Arms, arm: int, looks: int, clicks: int) -> None:
    """Add this many observations, and the clicks among them, to an arm."""
    failures = looks - clicks
    arms.low[arm] *= arms.observed[arm] / max(arms.observed[arm] + failures, 1)
    arms.observed[arm] += looks
    arms.clicks[arm] += clicks
    if clicks > 0:
        arms.high[arm] = 1.0
        arms.slope[arm] = 0.0
