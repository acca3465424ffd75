"""What the twins share: confidence bounds, and how they draw."""

import math

import numpy as np

# --- confidence bounds --------------------------------------------------------------------------------------


def kl(p: float, q: float) -> float:
    left = p * math.log(p / q) if p > 0 else 0.0
    right = (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0
    return left + right


def kl_upper(p: float, n: int, budget: float) -> float:
    """max{q in [p, 1]: n kl(p, q) <= budget}, by Newton's method."""
    if n == 0 or p == 1:
        return 1.0
    if budget <= 0:
        return p
    if p == 0:
        return 1 - math.exp(-budget / n)
    most = budget / n
    q = min(1 - 1e-16, p + math.sqrt(most / 2) + 1e-15)  # kl(p, q) >= 2 (q - p)^2
    if kl(p, q) <= most:
        return 1.0
    while True:  # kl is convex: Newton's steps from above stay above the root
        step = (kl(p, q) - most) * q * (1 - q) / (q - p)
        if step <= 1e-16:
            return q
        q -= step


def interval(kind: str, p: float, n: int, budget: float) -> tuple[float, float]:
    """The lower and the upper bound."""
    if kind == "hoeffding":
        radius = math.sqrt(budget / (2 * n))
        return max(0.0, p - radius), min(1.0, p + radius)
    return 1 - kl_upper(1 - p, n, budget), kl_upper(p, n, budget)


# --- draws --------------------------------------------------------------------------------------------------


def pick(rng: np.random.Generator, n: int) -> int:
    """A number from 0 to n - 1; without a choice nothing is drawn."""
    return math.floor(rng.random() * n) if n > 1 else 0


def take(items: list[int], i: int) -> int:
    """Take the i-th item out; the last one fills its place."""
    items[i], items[-1] = items[-1], items[i]
    return items.pop()


def shuffle_front(items: list[int], n: int, rng: np.random.Generator) -> None:
    """Put random items on the first n places, one after the other."""
    for k in range(n):
        other = k + pick(rng, len(items) - k)
        items[k], items[other] = items[other], items[k]
