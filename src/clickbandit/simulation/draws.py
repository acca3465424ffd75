"""How often each of several outcomes occurred in many independent trials."""

import numpy as np

from clickbandit.clicks._orders import CHOOSE, bits
from clickbandit.kernel import FloatArray, IntArray, kernel, slow_path

FEW = 16
"""So many trials are quicker made one by one."""


@slow_path
def draw_binomial(rng: np.random.Generator, n: int, p: float) -> int:
    """How many of n trials succeed; a few trials are made one by one, which is quicker."""
    if p <= 0 or p >= 1:
        return n if p >= 1 else 0
    if n > FEW:
        return int(rng.binomial(n, p))
    successes = 0
    for _ in range(n):
        if rng.random() < p:
            successes += 1
    return successes


@slow_path
def draw_counts(
    rng: np.random.Generator, law: FloatArray, times: int, tail: FloatArray, out: IntArray
) -> None:
    """How often each outcome of a law occurred in so many trials; `tail` is an array to write to."""
    n = len(law)
    rest = 0.0
    for outcome in range(n - 1, -1, -1):
        rest += law[outcome]
        tail[outcome] = rest
        out[outcome] = 0
    if times <= FEW:
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
