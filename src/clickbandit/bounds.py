"""Confidence bounds on a probability from its estimate: KL bounds and Hoeffding bounds.

For an estimate p of n observations and a budget b the KL bounds are the largest and the smallest q with
n kl(p, q) <= b (Garivier, Cappé: The KL-UCB Algorithm for Bounded Stochastic Bandits and Beyond, COLT 2011).
"""

import math

from clickbandit.compiling.kernel import kernel, slow_path

_MAX_ITERATIONS = 64


@kernel
def kl(p: float, q: float) -> float:
    """The divergence of a Bernoulli variable with mean q from one with mean p.

    >>> round(kl(0.5, 0.25), 6)
    0.143841
    """
    divergence = 0.0
    if p > 0:
        divergence += p * math.log(p / q) if q > 0 else math.inf
    if p < 1:
        divergence += (1 - p) * math.log((1 - p) / (1 - q)) if q < 1 else math.inf
    return max(divergence, 0.0)


@slow_path
def kl_upper(p: float, n: float, budget: float) -> float:
    """The largest q in [p, 1] with n kl(p, q) <= budget; 1 when there are no observations.

    Newton's method for x = q - p. kl is convex in q, so from any start above the root it comes down to it without
    passing it. Each of the four starts below is above the root: kl(p, p + x) is the integral of y / v from 0 to x,
    where v = (p + y)(1 - p - y) is at most 1/4, at most p + x, and for p >= 1/2 at most p (1 - p); and
    kl(p, q) >= -(1 - p) log(1 - q) - h(p) with the entropy h.

    >>> round(kl_upper(0.5, 100, 3.0), 6)
    0.62066
    """
    if n <= 0 or p >= 1:
        return 1.0
    if budget <= 0:
        return p
    most = budget / n
    if p < 1e-30:  # as good as 0, and x / p below could overflow
        return max(p, -math.expm1(-most))
    rest = 1 - p
    entropy = -p * math.log(p) - rest * math.log(rest)
    x = min(math.sqrt(most / 2), most + math.sqrt(most * (most + 2 * p)))
    x = min(x, rest - math.exp(-(most + entropy) / rest))
    if p >= 0.5:
        x = min(x, math.sqrt(2 * p * rest * most))
    return newton_upper(p, most, p + x)


@slow_path
def newton_upper(p: float, most: float, start: float) -> float:
    """The q with kl(p, q) = most, for p above 0, by Newton's method from a start above p.

    A start below the root is carried above it by the first step, for kl lies above its tangent.
    """
    rest = 1 - p
    x = start - p
    for _ in range(_MAX_ITERATIONS):
        if x >= rest or x <= 0:  # closer to 1, or to p, than a float can tell
            break
        excess = -p * math.log1p(x / p) - rest * math.log1p(-x / rest) - most
        down = excess * (p + x) * (rest - x) / x
        x -= down
        if abs(down) <= 1e-7 * min(x, rest - x):  # the next step would be its square
            break
    return min(max(p + x, p), 1.0)


@kernel
def kl_lower(p: float, n: float, budget: float) -> float:
    """The smallest q in [0, p] with n kl(p, q) <= budget; 0 when there are no observations.

    >>> round(kl_lower(0.5, 100, 3.0), 6)
    0.37934
    """
    return 1 - kl_upper(1 - p, n, budget)


@kernel
def hoeffding_upper(p: float, n: float, budget: float) -> float:
    """The largest q in [p, 1] with 2 n (q - p)^2 <= budget: looser than KL, and blind to how near p is to 0.

    >>> round(hoeffding_upper(0.5, 100, 3.0), 6)
    0.622474
    """
    if n <= 0:
        return 1.0
    return min(1.0, p + math.sqrt(max(budget, 0.0) / (2 * n)))


@kernel
def hoeffding_lower(p: float, n: float, budget: float) -> float:
    """The smallest q in [0, p] with 2 n (q - p)^2 <= budget.

    >>> round(hoeffding_lower(0.5, 100, 3.0), 6)
    0.377526
    """
    return 1 - hoeffding_upper(1 - p, n, budget)


@slow_path
def interval(p: float, n: float, budget: float, hoeffding: bool) -> tuple[float, float]:
    """The lower and the upper bound together, of either kind.

    >>> [round(bound, 6) for bound in interval(0.5, 100, 3.0, hoeffding=True)]
    [0.377526, 0.622474]
    """
    if hoeffding:
        return hoeffding_lower(p, n, budget), hoeffding_upper(p, n, budget)
    return kl_lower(p, n, budget), kl_upper(p, n, budget)
