"""What a request says of its items besides their order: what queries start from, where that is known."""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from clickbandit.errors import InputError
from clickbandit.live.values import MAX_FEATURES

NUMBER_BYTES = 32
"""That a number in a list takes."""
MAX_FEATURE = 1e15
"""Times in milliseconds are less; the squares of much larger numbers cannot be computed with."""


class Told(NamedTuple):
    """By item, where there is any."""

    scores: Sequence[float] | None = None
    """What the page's own ranking is by."""
    features: Sequence[Sequence[float]] | None = None
    """A row of numbers that mean the same for all queries: the item's features, and the context of the request."""

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        rows = self.features or ()
        return NUMBER_BYTES * (len(self.scores or ()) + len(rows) * (len(rows[0]) if rows else 0))

    def given(self) -> dict[str, Any]:
        """What there is of it, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def read_told(
    n_items: int,
    scores: Sequence[float] | None,
    features: Sequence[Sequence[float]] | None,
    context: Sequence[float] | None,
) -> Told:
    """What was said of `n_items` items, or a sentence about what is wrong with it.

    >>> read_told(2, None, [[1], [2]], [0.5])
    Told(scores=None, features=((1.0, 0.5), (2.0, 0.5)))
    """
    if scores is not None:
        scores = _numbers("scores", scores)
        _one_each("scores", scores, n_items)
    if features is None and context is None:
        return Told(scores)
    around = () if context is None else _features("context", context)
    rows: Sequence[Sequence[float]] = ((),) * n_items
    if features is not None:
        if not isinstance(features, (list, tuple)):
            raise InputError(f"features must be a list of lists of numbers, found {type(features).__name__}")
        _one_each("features", features, n_items)
        rows = [_features("features", row) for row in features]
    lengths = sorted({len(row) for row in rows})
    if len(lengths) > 1:
        raise InputError(
            f"features must be as many numbers for each item, found {lengths[0]} and {lengths[-1]}"
        )
    n_features = sum(lengths) + len(around)
    if n_features > MAX_FEATURES or (n_items > 0 and n_features == 0):
        raise InputError(
            f"features and context must be 1 to {MAX_FEATURES} numbers together, found {n_features}"
        )
    return Told(scores, tuple((*row, *around) for row in rows))


def _numbers(name: str, values: object) -> tuple[float, ...]:
    if not isinstance(values, (list, tuple)):
        raise InputError(f"{name} must be a list of numbers, found {type(values).__name__}")
    for value in values:
        if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
            raise InputError(f"{name} must be finite numbers, found {value!r}")
    return tuple(map(float, values))


def _features(name: str, values: object) -> tuple[float, ...]:
    numbers = _numbers(name, values)
    for value in numbers:
        if abs(value) > MAX_FEATURE:
            raise InputError(
                f"{name} must be numbers from {-MAX_FEATURE:g} to {MAX_FEATURE:g}, found {value!r}"
            )
    return numbers


def _one_each(name: str, values: Sequence[object], n_items: int) -> None:
    if len(values) != n_items:
        raise InputError(f"{name} must be one for each of the {n_items} items, found {len(values)}")
