"""Which cells the law of ClickTS has, and which of them share where there are many items or positions.

**Small** (at most 10 positions, and tables of at most 110,000 numbers): a cell for each position and for each pair of
positions, and a carry for each item, as the law is written.

**Large**: no carry (s = 1), and fewer cells. A display at position k counts in part for the knot above k and in part
for the one below, so that examination is interpolated; a last click above matters by its distance alone, in three
bands. The cascade model is still one of these laws, and the position-based model is as far as its examination is linear
between knots; the user browsing model is only so far as its examination after a click is the same within a band.

Which of the two it is follows from the numbers of items and positions alone.
"""

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray

MAX_POSITIONS = 10
"""More positions than these share cells."""
MAX_NUMBERS = 110_000
"""What the tables of the small form may have, so that a state stays under a megabyte."""
KNOTS = (0, 1, 2, 3, 4, 6, 9, 13, 18, 25, 35, 49)
"""The positions with a cell of their own in the large form; lists that reach further have 1.4 times as many each."""
BANDS = (1, 2, 4)
"""The least distances to the last click above with cells of their own in the large form."""


def has_carry(n_items: int, n_positions: int) -> bool:
    """Whether it is the small form.

    >>> has_carry(10, 5), has_carry(40, 10), has_carry(1000, 5), has_carry(20, 20)
    (True, True, False, False)
    """
    n_pairs = n_positions * (n_positions - 1) // 2
    n_free = n_positions - 1 + n_pairs + n_items
    numbers = n_pairs * n_items * n_items + 2 * n_free * n_free
    return n_positions <= MAX_POSITIONS and numbers <= MAX_NUMBERS


def arrange(n_items: int, n_positions: int) -> tuple[IntArray, FloatArray, int, int]:
    """The cell of each (k, r), by k and r + 1; what of k belongs to it rather than to the next one; how many
    cells are those without a click above; and how many there are."""
    small = has_carry(n_items, n_positions)
    knots = list(range(n_positions)) if small else knots_of(n_positions)
    n_fresh = len(knots)
    cell = np.zeros((n_positions, n_positions), np.int64)
    share = np.ones(n_positions)
    n_cells = n_fresh
    for k in range(n_positions):
        knot = int(np.searchsorted(knots, k, side="right")) - 1
        cell[k, 0] = knot
        if knots[knot] < k:
            share[k] = (knots[knot + 1] - k) / (knots[knot + 1] - knots[knot])
        for r in range(k):
            if small:
                cell[k, r + 1] = n_cells
                n_cells += 1
            else:
                band = int(np.searchsorted(BANDS, k - r, side="right")) - 1
                cell[k, r + 1] = n_fresh + band * (n_fresh - 1) + knot - 1
    if not small:
        n_cells = n_fresh + len(BANDS) * (n_fresh - 1)
    return cell, share, n_fresh, n_cells


def knots_of(n_positions: int) -> list[int]:
    """The positions with cells of their own in the large form: the first few, and the last.

    >>> knots_of(3), knots_of(12)
    ([0, 1, 2], [0, 1, 2, 3, 4, 6, 9, 11])
    """
    knots = list(KNOTS)
    while knots[-1] < n_positions:
        knots.append(round(1.4 * knots[-1]))
    return [*(k for k in knots if k < n_positions - 1), n_positions - 1]
