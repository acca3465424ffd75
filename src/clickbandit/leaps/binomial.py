"""How often each of several outcomes occurred in many independent trials."""

import math

import numpy as np

from clickbandit.click_models.patterns import CHOOSE, bits
from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path

MAX_SINGLE_TRIALS = 16
"""Up to this many trials are made one by one, which is quicker."""


# --- how many of n trials succeed ---------------------------------------------------------------------------
#
# A leap is little else than binomial draws: these take a third to two thirds of the time that numpy's take.


@slow_path
def draw_binomial(rng: np.random.Generator, n: int, p: float) -> int:
    """How many of n trials succeed, each with probability p."""
    seldom = 1 - p if p > 0.5 else p
    drawn = 0
    if n > 0 and seldom > 0:
        if n * seldom >= 16:
            drawn = reject_binomial(rng, n, seldom)
        else:
            u = rng.random()
            if u >= 1 - n * seldom:  # else it is below the probability of none, which is no less than that
                drawn = invert_binomial(u, n, seldom)
    return n - drawn if p > 0.5 else drawn


@slow_path
def invert_binomial(u: float, n: int, p: float) -> int:
    """By inversion: the first number of successes whose distribution function reaches a random number."""
    odds = p / (1 - p)
    probability, base, exponent = 1.0, 1 - p, n
    while exponent > 0:  # (1 - p) ** n by squaring
        if exponent & 1:
            probability *= base
        base *= base
        exponent >>= 1
    successes = 0
    while u >= probability and successes < n:
        u -= probability
        successes += 1
        probability *= odds * (n - successes + 1) / successes
    return successes


@slow_path
def reject_binomial(rng: np.random.Generator, n: int, p: float) -> int:
    """By transformed rejection (Hormann 1993, BTRS): a hat for n p >= 10 whose middle needs no logarithm."""
    odds = p / (1 - p)
    deviation = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    inside = 0.92 - 4.2 / b
    while True:
        u = rng.random() - 0.5 + 2.0**-54  # never quite at an edge
        v = 1 - rng.random()
        from_edge = 0.5 - abs(u)
        place = (2 * a / from_edge + b) * u + n * p + 0.5
        if not 0 <= place < n + 1:
            continue
        k = int(place)
        if from_edge >= 0.07 and v <= inside:
            return k
        hat = v * (2.83 + 5.1 / b) * deviation / (a / (from_edge * from_edge) + b)
        if math.log(hat) <= log_relative(n, odds, k, int((n + 1) * p)):
            return k


@kernel
def log_relative(n: int, odds: float, k: int, mode: int) -> float:
    """The logarithm of how probable k successes are, relative to the mode."""
    return (
        (mode + 0.5) * math.log((mode + 1) / (odds * (n - mode + 1)))
        + (n + 1) * math.log((n - mode + 1) / (n - k + 1))
        + (k + 0.5) * math.log(odds * (n - k + 1) / (k + 1))
        + stirling(mode)
        + stirling(n - mode)
        - stirling(k)
        - stirling(n - k)
    )


REMAINDERS = np.array(
    [
        math.lgamma(k + 1) - (k + 0.5) * math.log(k + 1) + k + 1 - 0.5 * math.log(2 * math.pi)
        for k in range(10)
    ]
)


@kernel
def stirling(k: int) -> float:
    """What Stirling's formula for log k! leaves out, in terms of k + 1."""
    if k < len(REMAINDERS):
        return float(REMAINDERS[k])
    square = 1.0 / ((k + 1.0) * (k + 1.0))
    return (1 / 12 - (1 / 360 - square / 1260) * square) / (k + 1.0)


@slow_path
def draw_counts(
    rng: np.random.Generator, law: FloatArray, times: int, tail: FloatArray, out: IntArray
) -> None:
    """How often each outcome of a law occurred in `times` trials; `tail` is an array to write to."""
    n = len(law)
    rest = 0.0
    for outcome in range(n - 1, -1, -1):
        rest += law[outcome]
        tail[outcome] = rest
        out[outcome] = 0
    if times <= MAX_SINGLE_TRIALS:
        for _ in range(times):
            u = rng.random() * tail[0]
            outcome = n - 1
            while outcome > 0 and u >= tail[outcome]:
                outcome -= 1
            out[outcome] += 1
        return
    for outcome in range(n):
        if times == 0:
            break
        drawn = draw_binomial(rng, times, law[outcome] / tail[outcome])
        out[outcome] = drawn
        times -= drawn


@slow_path
def draw_subsets(rng: np.random.Generator, among: int, size: int, times: int, out: IntArray) -> None:
    """Add to `out` how often each subset of this size was drawn."""
    choices = CHOOSE[bits(among), size]
    subset = 0
    while times > 0:
        if bits(subset) == size:
            drawn = draw_binomial(rng, times, 1 / choices)
            out[subset] += drawn
            times -= drawn
            choices -= 1
        subset = next_subset(subset, among)


@kernel
def next_subset(subset: int, among: int) -> int:
    """The subset whose bit mask comes next, and the empty one after the last."""
    return (subset - among) & among
