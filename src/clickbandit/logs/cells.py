"""Counts by item, position and last click above, in one pass over the lists that show each item."""

from typing import Any, NamedTuple

import numpy as np

from clickbandit.click_models.fitting import Cells
from clickbandit.compiling.kernel import FloatArray, IntArray, entry_point, kernel


class Showings(NamedTuple):
    """Where each pair was shown, and how these lists were clicked."""

    first: IntArray
    """By pair: where it starts in `list` and `position`; one more entry marks the end."""
    list: IntArray
    position: IntArray
    pattern: IntArray
    """By list: where it starts in `clicks` and `sessions`; one more entry marks the end."""
    clicks: Any
    sessions: FloatArray


def cells_of(start: IntArray, pair: IntArray, lists: IntArray, clicks: Any, sessions: FloatArray) -> Cells:
    """The cells of patterns, whose lists increase: what is given are the fields of `counts.ClickPatterns`."""
    sizes = np.diff(start)
    longest = int(sizes.max(initial=0))
    order = np.argsort(pair, kind="stable")
    shown = Showings(
        np.searchsorted(pair[order], np.arange(pair.max(initial=-1) + 2)),
        np.repeat(np.arange(len(sizes)), sizes)[order],
        (np.arange(len(pair)) - np.repeat(start[:-1], sizes))[order],
        np.searchsorted(lists, np.arange(len(sizes) + 1)),
        clicks,
        sessions,
    )
    counted = np.zeros((longest, longest, 4))
    cells = _room(count_cells(shown, counted, _room(0)))
    count_cells(shown, counted, cells)
    return cells


def _room(n_cells: int) -> Cells:
    columns: list[Any] = [np.zeros(n_cells, kind) for kind in [np.int32] * 3 + [np.float64] * 4]
    return Cells(*columns)


@entry_point
def count_cells(shown: Showings, counted: FloatArray, cells: Cells) -> int:
    """Note as many cells as there is room for; how many there are. `counted` are zeros, and are again."""
    n = 0
    for pair in range(len(shown.first) - 1):
        longest = 0
        for place in range(shown.first[pair], shown.first[pair + 1]):
            position, one = shown.position[place], shown.list[place]
            longest = max(longest, position + 1)
            for pattern in range(shown.pattern[one], shown.pattern[one + 1]):
                add_pattern(counted, position, shown.clicks[pattern], shown.sessions[pattern])
        for position in range(longest):
            for previous in range(position + 1):
                if counted[position, previous, 0] > 0:
                    if n < len(cells.pair):
                        note_cell(cells, n, pair, position, previous, counted[position, previous])
                    counted[position, previous] = 0
                    n += 1
    return n


@kernel
def add_pattern(counted: FloatArray, position: int, clicks: Any, sessions: float) -> None:
    """Add sessions that were clicked alike, seen from a position."""
    one, rest = np.uint64(1), clicks >> np.uint64(position)
    previous = position
    if clicks & ((one << np.uint64(position)) - one):
        previous -= 1
        while not (clicks >> np.uint64(previous)) & one:
            previous -= 1
    seen = counted[position, previous]
    seen[0] += sessions
    if rest & one:
        seen[1] += sessions
    if rest or previous == position:
        seen[2] += sessions
    if rest == one:
        seen[3] += sessions


@kernel
def note_cell(cells: Cells, n: int, pair: int, position: int, previous: int, seen: FloatArray) -> None:
    cells.pair[n], cells.position[n], cells.previous[n] = pair, position, previous
    cells.shown[n], cells.clicked[n], cells.until_last[n], cells.last[n] = seen[0], seen[1], seen[2], seen[3]
