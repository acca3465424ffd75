"""The likelihood of an item's attraction in the position-based model, from its displays and clicks by position.

An item of attraction q that was shown N_k times at position k, where users look with probability kappa_k, is clicked
S_k times there with a probability proportional to q^S_k (1 - kappa_k q)^(N_k - S_k).
"""

import math

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path

MAX_ITERATIONS = 64
TOLERANCE = 1e-7
"""Newton's method is done when it moves by less than this share: the next step would be the square of it."""
NO_POSITION = -1
"""Stands for a position to be left out where none is."""


@kernel
def log_likelihood(
    clicks: IntArray, displays: IntArray, examination: FloatArray, but: int, attraction: float
) -> float:
    """The sum of S_k log q + (N_k - S_k) log(1 - kappa_k q) over all positions k but one."""
    total = 0.0
    clicked = 0
    for k in range(len(clicks)):
        if k == but:
            continue
        clicked += clicks[k]
        if displays[k] > clicks[k]:
            missed = 1 - examination[k] * attraction
            if missed <= 0:
                return -math.inf
            total += (displays[k] - clicks[k]) * math.log(missed)
    if clicked > 0:
        if attraction <= 0:
            return -math.inf
        total += clicked * math.log(attraction)
    return total


@slow_path
def likeliest(clicks: IntArray, displays: IntArray, examination: FloatArray, but: int, start: float) -> float:
    """The attraction in [0, 1] that makes an item's clicks at all positions but one the most probable.

    Newton's method for `surplus` = 0, with a bisection wherever it would leave the bracket; 0 without any click.
    """
    if surplus(clicks, displays, examination, but, 0.0)[0] >= 0:
        return 0.0
    if surplus(clicks, displays, examination, but, 1.0)[0] <= 0:
        return 1.0
    low, high = 0.0, 1.0
    attraction = start if 0 < start < 1 else 0.5
    for _ in range(MAX_ITERATIONS):
        excess, slope = surplus(clicks, displays, examination, but, attraction)
        if excess > 0:
            high = attraction
        else:
            low = attraction
        step = excess / slope
        attraction -= step
        if abs(step) <= TOLERANCE * min(attraction, 1 - attraction):
            break
        if not low < attraction < high:
            attraction = (low + high) / 2
    return attraction


@kernel
def surplus(
    clicks: IntArray, displays: IntArray, examination: FloatArray, but: int, attraction: float
) -> tuple[float, float]:
    """The sum of (N_k - S_k) kappa_k q / (1 - kappa_k q) - S_k at attraction q, and its slope, which is positive.

    That is -q times the slope of the log-likelihood.
    """
    excess, slope = 0.0, 0.0
    for k in range(len(clicks)):
        if k != but:
            excess -= clicks[k]
            missed = displays[k] - clicks[k]
            if missed > 0:
                rest = 1 - examination[k] * attraction
                if rest <= 0:
                    return math.inf, math.inf
                ratio = missed * examination[k] / rest
                excess += ratio * attraction
                slope += ratio / rest
    return excess, slope


@slow_path
def highest_likely(
    clicks: IntArray, displays: IntArray, examination: FloatArray, budget: float, estimate: float
) -> float:
    """max{q in [0, 1]: sum_k N_k kl(S_k / N_k, kappa_k q) <= budget}, or the minimiser of the sum if it has none.

    The sum is convex in q, so from any start above the root Newton's method comes down to it without passing it,
    and a start below is carried above by the first step; a bisection keeps it in the bracket.
    """
    low = likeliest(clicks, displays, examination, NO_POSITION, estimate)
    most = likelihood_of_shares(clicks, displays, examination) - budget
    if log_likelihood(clicks, displays, examination, NO_POSITION, 1.0) >= most:
        return 1.0
    if log_likelihood(clicks, displays, examination, NO_POSITION, low) <= most:
        return low
    high = 1.0
    slope = surplus(clicks, displays, examination, NO_POSITION, low)[
        1
    ]  # at the minimiser: of q times the derivative
    # by the normal approximation; without a click -log(1 - x) >= x, so the start is above the root
    q = low + math.sqrt(2 * budget * low / slope) if low > 0 else budget / slope
    for _ in range(MAX_ITERATIONS):
        if not low < q < high:
            q = (low + high) / 2
        excess = most - log_likelihood(clicks, displays, examination, NO_POSITION, q)
        slope = surplus(clicks, displays, examination, NO_POSITION, q)[0] / q
        if excess > 0:
            high = q
        else:
            low = q
        if 0 < slope < math.inf:
            q -= excess / slope
            if abs(excess / slope) <= TOLERANCE * min(q, 1 - q):
                break
    return q


@kernel
def likelihood_of_shares(clicks: IntArray, displays: IntArray, examination: FloatArray) -> float:
    """The highest log-likelihood if attraction could differ by position: it were S_k / (N_k kappa_k) at k."""
    total = 0.0
    for k in range(len(clicks)):
        if clicks[k] > 0:
            total += clicks[k] * math.log(clicks[k] / (displays[k] * examination[k]))
        if displays[k] > clicks[k]:
            missed = displays[k] - clicks[k]
            total += missed * math.log(missed / displays[k])
    return total
