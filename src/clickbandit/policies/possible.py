"""Whether what was stored can be a policy's state: compiled kernels do not check bounds, and a number that points
outside its array would end the process.

What every state keeps is checked here, by comparing it with a fresh one; what a policy's own indices keep is said by
its `Live.possible`, which is made of the parts below.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from clickbandit.policies.base import Policy

_MORE_ITEMS = 11
_TRIAL_HORIZON = 1000
MAX_ENTRY = 2**62
"""More than anything is ever counted to."""


def impossible(policy: Policy, state: Any, fresh: Any, n_positions: int) -> str | None:
    """What is wrong with a state, if it is not one that can have come of a fresh one.

    >>> from clickbandit.policies.random import Random, State
    >>> fresh = Random().start(3, 2, horizon=10)
    >>> print(impossible(Random(), State(np.array([2, 0, 1])), fresh, 2))
    None
    >>> impossible(Random(), State(np.array([2, 0, 3])), fresh, 2)
    'items of random cannot be [2 0 3]'
    """
    orders = _orders(policy, n_positions)
    for name, value, first in zip(fresh._fields, state, fresh, strict=True):
        if not _same_type(value, first) or (name in orders and not is_order(value, len(first))):
            return f"{name} of {policy} cannot be {str(value)[:100]}"
    if not (policy.live.possible or like)(state, fresh):
        return f"this cannot be a state of {policy}: what points into its arrays points outside"
    return None


@lru_cache(1000)
def _orders(policy: Policy, n_positions: int) -> frozenset[str]:
    """The fields that hold every item once, whatever their number."""
    n_items = n_positions + _MORE_ITEMS
    try:
        first = policy.start(n_items, n_positions, horizon=_TRIAL_HORIZON)
    except TypeError:  # it must be told more
        return frozenset()
    return frozenset(
        name for name, value in zip(first._fields, first, strict=True) if is_order(value, n_items)
    )


def _same_type(value: Any, first: Any) -> bool:
    if isinstance(first, np.ndarray):
        same = isinstance(value, np.ndarray) and (value.dtype, value.ndim) == (first.dtype, first.ndim)
        return same and not (first.dtype.kind == "f" and np.isnan(value).any())
    return isinstance(value, (type(first), float) if isinstance(first, float) else type(first))


# --- what `possible` is made of -----------------------------------------------------------------------------


def like(state: Any, fresh: Any) -> bool:
    """The same shapes and whole numbers as a fresh state's, and other numbers of the same sign."""
    return all(
        value.shape == first.shape
        if isinstance(first, np.ndarray)
        else value == first
        if isinstance(first, int)
        else math.isfinite(value) and np.sign(value) == np.sign(first)
        for value, first in zip(state, fresh, strict=True)
    )


def within(value: Any, low: float, end: float = MAX_ENTRY) -> bool:
    """Whether all entries are at least `low` and below `end`."""
    return bool(((value >= low) & (value < end)).all())


def is_order(value: Any, n: int) -> bool:
    """Whether an array has each number below n once."""
    return (
        isinstance(value, np.ndarray)
        and value.shape == (n,)
        and value.dtype.kind == "i"
        and sorted(value.tolist()) == list(range(n))
    )


def unchanged(state: Any, fresh: Any, *names: str) -> bool:
    """Whether these arrays, which nothing changes, are as they were."""
    return all(np.array_equal(getattr(state, name), getattr(fresh, name)) for name in names)
