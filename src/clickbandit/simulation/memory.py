"""Where a run's arrays lie in memory: together, and away from those of the runs on other threads."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clickbandit.compiling.kernel import FloatArray, IntArray

SEPARATION = 128
"""Bytes: what one core reads and writes this far from what another writes, neither waits for the other."""
ALIGNMENT = 16


class Slots(NamedTuple):
    """A row for each step whose feedback may be outstanding."""

    rankings: IntArray
    clicks: IntArray
    memos: FloatArray
    probability: FloatArray
    """One row only: the probabilities of clicks on the list at hand."""


def make_slots(n: int, n_positions: int, memo_size: int) -> Slots:
    return Slots(
        rankings=np.zeros((n, n_positions), np.int64),
        clicks=np.zeros((n, n_positions), np.int64),
        memos=np.zeros((n, memo_size)),
        probability=np.zeros(n_positions),
    )


class Scene(NamedTuple):
    """Who takes the steps of a run, and where: what entry points pass on to the loops."""

    state: Any
    """The policy's."""
    params: Any
    """The users'."""
    rng: np.random.Generator
    """The policy's."""
    users: np.random.Generator
    """The users'."""
    slots: Slots
    best_reward: float


class Pattern:
    """NamedTuples to be copied with their arrays next to each other, and apart from all else.

    >>> (slots,) = Pattern(make_slots(1, 3, 0)).copies()
    >>> slots.clicks.ctypes.data - slots.rankings.ctypes.data
    32
    """

    def __init__(self, *groups: Any) -> None:
        self._groups = groups
        arrays = [value for group in groups for value in group if isinstance(value, np.ndarray)]
        owners = {id(array if array.base is None else array.base) for array in arrays}
        self.can_copy = len(owners) == len(arrays) and not any(array.dtype.hasobject for array in arrays)
        """Not if some arrays share memory: then `copies` gives the tuples as they are."""
        if self.can_copy:
            self._places: list[list[Any]] = []
            start = SEPARATION
            for group in groups:
                self._places.append([])
                for value in group:
                    is_array = isinstance(value, np.ndarray)
                    self._places[-1].append((value.shape, value.dtype, start) if is_array else None)
                    start += -(-value.nbytes // ALIGNMENT) * ALIGNMENT if is_array else 0
            self._memory = np.zeros(start + SEPARATION, np.uint8)
            for copies in zip(groups, self._at(self._memory), strict=True):
                for value, copy in zip(*copies, strict=True):
                    if isinstance(value, np.ndarray):
                        copy[...] = value

    def copies(self) -> tuple[Any, ...]:
        return tuple(self._at(self._memory.copy())) if self.can_copy else self._groups

    def _at(self, memory: npt.NDArray[np.uint8]) -> Iterator[Any]:
        """The tuples with arrays in this memory."""
        for group, places in zip(self._groups, self._places, strict=True):
            yield group._make(
                value if place is None else np.ndarray(place[0], place[1], memory, place[2])
                for value, place in zip(group, places, strict=True)
            )
