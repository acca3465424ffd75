"""What policies need where items come and go: `admit(state, n_new)` and `retire(state, item)` make a new state.

New items have the next numbers. Where an item leaves, those with higher numbers have one less. A state has at least as
many items as positions, before and after. `memo`s of lists that were made before come back as they are, unless the
policy has `renumber(memo, numbers, n_items)`, which makes of an old memo one that speaks of today's items: `numbers`
has for each item of then its number now, -1 if it is gone. An impression of which an item is gone is void: its
`ranking` then has -1 there, and `void` must not look at what it finds there.
"""

import numpy as np

from clickbandit.kernel import IntArray


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
