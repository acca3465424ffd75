"""Where a run's arrays lie in memory: together, and away from those of the runs on other threads."""

from typing import Any, NamedTuple

import numpy as np

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


def set_apart(*groups: Any) -> tuple[Any, ...]:
    """NamedTuples with copies of their arrays, next to each other and apart from all else.

    As they are if some arrays share memory.

    >>> slots = Slots(np.zeros((1, 3), int), np.zeros((1, 3), int), np.zeros((1, 0)), np.zeros(3))
    >>> (apart,) = set_apart(slots)
    >>> apart.clicks.ctypes.data - apart.rankings.ctypes.data
    32
    """
    arrays = [value for group in groups for value in group if isinstance(value, np.ndarray)]
    owners = {id(array if array.base is None else array.base) for array in arrays}
    if len(owners) < len(arrays) or any(array.dtype.hasobject for array in arrays):
        return groups
    sizes = [-(-array.nbytes // ALIGNMENT) * ALIGNMENT for array in arrays]
    memory = np.zeros(SEPARATION + sum(sizes) + SEPARATION, np.uint8)
    copies = []
    start = SEPARATION
    for array, size in zip(arrays, sizes, strict=True):
        copy: Any = np.ndarray(array.shape, array.dtype, memory, start)
        copy[...] = array
        copies.append(copy)
        start += size
    moved = iter(copies)
    return tuple(
        group._make(next(moved) if isinstance(value, np.ndarray) else value for value in group)
        for group in groups
    )
