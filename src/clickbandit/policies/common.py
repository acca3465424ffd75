"""What many policies do: draw an index, order items by a value, count a prior, check a setting."""

import math

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.errors import InputError
from clickbandit.priors import Prior


@kernel
def draw_index(rng: np.random.Generator, n: int) -> int:
    """A uniform index below n; where there is no choice nothing is drawn."""
    return int(rng.random() * n) if n > 1 else 0


@slow_path
def sort_by_decreasing(value: FloatArray, items: IntArray, tie: float = 0.0) -> None:
    """Sort items in place by decreasing value; values no further apart than `tie` by increasing number.

    >>> import numpy as np
    >>> items = np.array([0, 1, 2])
    >>> sort_by_decreasing(np.array([0.2, 0.7, 0.2]), items)
    >>> items.tolist()
    [1, 0, 2]
    """
    for i in range(1, len(items)):
        item = items[i]
        k = i
        while k > 0:
            above = value[items[k - 1]]  # compared rather than subtracted, for both may be infinite
            if value[item] < above - tie or (value[item] <= above + tie and items[k - 1] < item):
                break
            items[k] = items[k - 1]
            k -= 1
        items[k] = item


def pseudo_counts(prior: Prior) -> tuple[IntArray, IntArray]:
    """By item: as many observations as the prior is worth, at least one, and the clicks among them, rounded.

    >>> observed, clicks = pseudo_counts(Prior(attraction=[0.3, 0.1], strength=[20, 4]))
    >>> observed.tolist(), clicks.tolist()
    ([20, 4], [6, 0])
    """
    observed = np.maximum(1, np.rint(prior.strength)).astype(np.int64)
    return observed, np.rint(observed * np.array(prior.attraction)).astype(np.int64)


def check_exploration(policy: str, exploration: float) -> None:
    """Refuse a factor of the confidence bounds that makes none."""
    if not 0 <= exploration < math.inf:
        raise InputError(f"{policy}: exploration must be finite and at least 0, found {exploration}")
