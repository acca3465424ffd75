"""The lists that a learner has made, and that it learns from while all about them is in memory."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.live import learning


class Made(NamedTuple):
    """A list, as the learner has it that made it."""

    numbers: object
    """Stands for the items that the ranking counts, as long as these are in memory."""
    ranking: IntArray
    memo: FloatArray


class OwnLists(ABC):
    """What a learner says of its last list, and how it learns from such a one."""

    __slots__ = ("_its_clicks", "_numbers", "items", "memo", "ranking", "version", "written")

    version: int
    items: list[str]
    """The names of the items by their numbers."""
    written: list[str]
    """The same as JSON."""
    ranking: IntArray
    memo: FloatArray

    def make_room(self, n_shown: int) -> None:
        """The items are others."""
        self._numbers = object()
        self._its_clicks = np.zeros(n_shown, np.int64)

    def last_list(self) -> tuple[tuple[str, ...], str, bytes]:
        """The names of the items in its last list, the same as JSON, and what is to be kept to learn from it."""
        shown, items, written = self.ranking.tolist(), self.items, self.written
        return (
            tuple([items[item] for item in shown]),
            f"[{', '.join([written[item] for item in shown])}]",
            learning.write(self.version, shown, self.memo.tobytes()),
        )

    def made(self) -> Made:
        """What is to be remembered of its last list while it is in memory."""
        return Made(self._numbers, self.ranking.copy(), self.memo.copy())

    def has_made(self, made: Made | None) -> bool:
        """Whether this is a list of its own that has the numbers which its items have now: nothing is to be checked."""
        return made is not None and made.numbers is self._numbers

    def settle_made(self, made: Made, clicks: int) -> None:
        """`settle` for such a list."""
        self._its_clicks.fill(0)
        while clicks:
            last = clicks.bit_length() - 1
            self._its_clicks[last] = 1
            clicks ^= 1 << last
        self.settle(made.ranking, self._its_clicks, made.memo)

    @abstractmethod
    def settle(self, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
        """Learn from a list."""
