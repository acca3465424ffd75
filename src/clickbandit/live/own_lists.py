"""The lists that a learner has made, and that it learns from while all about them is in memory."""

import struct
from abc import ABC, abstractmethod
from functools import lru_cache

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.live import learning


@lru_cache
def _of_sizes(n_shown: int, n_memo: int) -> tuple[struct.Struct, struct.Struct]:
    """A list with its memo as it is kept, and as arrays behind each other: the list, its clicks and the memo."""
    memo = f"{8 * n_memo}s"
    return struct.Struct(f"<{n_shown}h{memo}"), struct.Struct(f"={2 * n_shown}q{memo}")


@lru_cache
def _bits(mask: int, n: int) -> tuple[int, ...]:
    return tuple([mask >> k & 1 for k in range(n)])


class OwnLists(ABC):
    """What a learner says of its last list, and how it learns from such a list."""

    __slots__ = (
        "_arrays",
        "_learned",
        "_sizes",
        "items",
        "memo",
        "numbers",
        "ranking",
        "version",
        "written",
    )

    version: int
    items: list[str]
    """The names of the items by their numbers."""
    written: list[str]
    """The same as JSON."""
    ranking: IntArray
    memo: FloatArray
    numbers: object
    """Stands for the items that a list of its own counts, as long as these are in memory: what has it need not be
    checked."""

    def make_room(self, n_shown: int, n_memo: int) -> None:
        """The items are others."""
        self.numbers = object()
        self.ranking, self.memo = np.zeros(n_shown, np.int64), np.zeros(n_memo)
        # and those of the list that is learned from, which are filled as one
        filled = np.zeros(2 * n_shown + n_memo, np.int64)
        ranking, clicks, memo = np.split(filled, (n_shown, 2 * n_shown))
        self._learned = ranking, clicks, memo.view(np.float64)
        self._arrays = filled.data.cast("B") if n_shown else memoryview(b"")
        self._sizes = _of_sizes(n_shown, n_memo)

    def last_list(self) -> tuple[tuple[str, ...], str, bytes]:
        """The names of the items in its last list, the same as JSON, and what is to be kept to learn from it."""
        shown, items, written = self.ranking.tolist(), self.items, self.written
        return (
            tuple([items[item] for item in shown]),
            f"[{', '.join([written[item] for item in shown])}]",
            learning.write(self.version, shown, self.memo.tobytes()),
        )

    def settle_own(self, kept: bytes, clicks: int) -> None:
        """`settle` for a list of its own that has the numbers which its items have now, by `learning.content`."""
        as_kept, as_arrays = self._sizes
        *shown, memo = as_kept.unpack(kept)
        as_arrays.pack_into(self._arrays, 0, *shown, *_bits(clicks, len(shown)), memo)
        self.settle(*self._learned)

    @abstractmethod
    def settle(self, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
        """Learn from a list."""
