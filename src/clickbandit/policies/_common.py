"""What many policies do: draw an index, order items by a value."""

import numpy as np

from clickbandit.kernel import FloatArray, IntArray, kernel, slow_path


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
            ahead = value[item] - value[items[k - 1]]
            if ahead < -tie or (ahead <= tie and items[k - 1] < item):
                break
            items[k] = items[k - 1]
            k -= 1
        items[k] = item
