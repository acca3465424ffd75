"""What policies need where items come and go: `admit(state, n_new)` and `retire(state, item)` make a new state.

New items have the next numbers. Where an item leaves, those with higher numbers have one less. A state has at least as
many items as positions, before and after. `memo`s of lists that were made before come back as they are, unless the
policy has `renumber(memo, numbers, n_items)`, which translates an old memo to the current items: `numbers` maps old
item numbers to current ones, -1 where an item is gone. An impression with an item that is gone is void: its `ranking`
has -1 in that place, which `void` must not use as an index.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray

NUMBERS = None
"""Stands for an array with the numbers of all items in some order."""


def by_item(**arrays: float | None) -> tuple[Callable[[Any, int], Any], Callable[[Any, int], Any]]:
    """`admit` and `retire` for a state in which these arrays have an entry (or a column) for each item.

    Given is what a new item starts with, or `NUMBERS`. For policies that an unknown item troubles as little as one
    that was never observed.
    """

    def admit(state: Any, n_new: int) -> Any:
        grown = {}
        for name, first in arrays.items():
            before = getattr(state, name)
            if first is NUMBERS:
                grown[name] = with_new_numbers(before, n_new)
            else:
                new = np.full((*before.shape[:-1], n_new), first, before.dtype)
                grown[name] = np.concatenate([before, new], axis=-1)
        return state._replace(**grown)

    def retire(state: Any, item: int) -> Any:
        kept = {}
        for name, first in arrays.items():
            before = getattr(state, name)
            kept[name] = (
                without_number(before, item) if first is NUMBERS else np.delete(before, item, axis=-1)
            )
        return state._replace(**kept)

    return admit, retire


def with_new_numbers(items: IntArray, n_new: int) -> IntArray:
    """The numbers of all items in some order, with new ones behind.

    >>> with_new_numbers(np.array([1, 0]), 2).tolist()
    [1, 0, 2, 3]
    """
    return np.append(items, np.arange(len(items), len(items) + n_new))


def without_number(items: IntArray, item: int) -> IntArray:
    """Numbers of items in some order, without one.

    >>> without_number(np.array([2, 0, 3, 1]), 2).tolist()
    [0, 2, 1]
    """
    items = items[items != item]
    return np.where(items > item, items - 1, items)


def renumber_drawn(memo: FloatArray, numbers: IntArray, n_positions: int) -> FloatArray:
    """A memo that begins with an item for each position."""
    memo[:n_positions] = numbers[memo[:n_positions].astype(np.int64)]
    return memo
