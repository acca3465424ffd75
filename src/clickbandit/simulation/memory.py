"""Where a run's arrays lie in memory: together, and away from those of the runs on other threads."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from clickbandit.kernel import FloatArray, IntArray

Array = np.ndarray[Any, Any]

APART = 128
"""Bytes: what one core reads and writes this far from what another writes, neither waits for the other."""
ALIGNED = 16


class Slots(NamedTuple):
    """A row for each step whose feedback may be outstanding."""

    rankings: IntArray
    clicks: IntArray
    memos: FloatArray
    probability: FloatArray
    """One row only: the probabilities of clicks on the list at hand."""


def set_apart(arrays: Sequence[Array]) -> list[Array]:
    """Copies of these arrays, next to each other and apart from all else; the arrays themselves if some share memory.

    >>> first, second = set_apart([np.zeros(3), np.arange(2)])
    >>> second.ctypes.data - first.ctypes.data
    32
    """
    owners = {id(array if array.base is None else array.base) for array in arrays}
    if len(owners) < len(arrays) or any(array.dtype.hasobject for array in arrays):
        return list(arrays)
    starts = np.cumsum([APART, *(-(-array.nbytes // ALIGNED) * ALIGNED for array in arrays)])
    memory = np.zeros(starts[-1] + APART, np.uint8)
    copies = []
    for array, start in zip(arrays, starts.tolist(), strict=False):
        copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        copy[...] = array
        copies.append(copy)
    return copies
