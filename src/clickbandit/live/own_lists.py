"""The lists that a learner has made, and that it learns from while all about them is in memory."""

from abc import ABC, abstractmethod

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.live import learning

_ITEM_TYPE = np.dtype("<i2")
"""Of the item numbers in a stored ranking."""


class OwnLists(ABC):
    """What a learner says of its last list, and how it learns from such a list."""

    __slots__ = (
        "_clicks",
        "_memo",
        "_memo_bytes",
        "_ranking",
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
        # and those of the list that is learned from
        self._ranking, self._memo, self._clicks = self.ranking.copy(), self.memo.copy(), self.ranking.copy()
        self._memo_bytes = self._memo.data.cast("B") if n_memo else None

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
        n = len(self._ranking)
        self._ranking[:] = np.frombuffer(kept, _ITEM_TYPE, n)
        if self._memo_bytes is not None:
            self._memo_bytes[:] = kept[2 * n :]
        self._clicks.fill(0)
        while clicks:
            last = clicks.bit_length() - 1
            self._clicks[last] = 1
            clicks ^= 1 << last
        self.settle(self._ranking, self._clicks, self._memo)

    @abstractmethod
    def settle(self, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
        """Learn from a list."""
