"""KL-UCB bounds in a table, each computed only when it may matter, for UniRank and GRAB.

A bound is concave in the budget, so the tangent where it was computed, `level + slope * budget`, is above it
everywhere. A failure lowers it, and the tangent stays above; after a success nothing is known, and the tangent is 1.
"""

from typing import Any

from clickbandit.bounds import kl_upper, newton_upper
from clickbandit.compiling.kernel import FloatArray, kernel, slow_path


@kernel
def forget_bound(level: FloatArray, slope: FloatArray, i: int, j: int) -> None:
    """A success was counted."""
    level[i, j] = 1.0
    slope[i, j] = 0.0


@slow_path
def compute_bound(table: Any, i: int, j: int, successes: int, n: int, budget: float) -> float:
    """The bound of an entry for this budget, by Newton's method from the last one, and its tangent."""
    bound, level, slope = table.bound, table.level, table.slope
    share = successes / max(n, 1)
    last = bound[i, j]
    value = newton_upper(share, budget / n, last) if 0 < share < last < 1 else 1.0
    if value == 1:  # there was no last bound, or it was too far off for Newton's method
        value = kl_upper(share, n, budget)
    bound[i, j] = value
    slope[i, j] = value * (1 - value) / (n * (value - share)) if value > share and n > 0 else 0.0
    level[i, j] = value - slope[i, j] * budget
    return value
