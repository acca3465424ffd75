"""The lists that a learner has made, and that it learns from while all about them is in memory."""

from abc import ABC, abstractmethod

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.live.learning import Learning

_SHORT = np.dtype("<i2")


class OwnLists(ABC):
    """What a learner says of its last list, and how it learns from such a one."""

    version: int
    items: list[str]
    written: list[str]
    ranking: IntArray
    memo: FloatArray

    def make_room(self, n_shown: int, memo_size: int) -> None:
        """The items are others."""
        self._numbers = object()
        self._its_ranking, self._its_clicks = np.zeros((2, n_shown), np.int64)
        self._its_memo = np.zeros(memo_size)

    def names(self) -> list[str]:
        """Of the items in its last list."""
        return [self.items[item] for item in self.ranking.tolist()]

    def write_list(self) -> str:
        """The same as JSON."""
        return f"[{', '.join([self.written[item] for item in self.ranking.tolist()])}]"

    def made(self) -> Learning:
        """What is to be remembered of its last list."""
        ranking = self.ranking.astype(_SHORT).tobytes()
        return Learning(self.version, ranking, self.memo.tobytes(), self._numbers)

    def has_made(self, made: Learning | None) -> bool:
        """Whether this is a list of its own that has the numbers which its items have now: nothing is to be checked."""
        return made is not None and made.numbers is self._numbers

    def settle_made(self, made: Learning, clicks: int) -> None:
        """`settle` for such a list."""
        self._its_ranking[:] = np.frombuffer(made.ranking, _SHORT)
        self._its_memo[:] = np.frombuffer(made.memo)
        self._its_clicks.fill(0)
        while clicks:
            last = clicks.bit_length() - 1
            self._its_clicks[last] = 1
            clicks ^= 1 << last
        self.settle(self._its_ranking, self._its_clicks, self._its_memo)

    @abstractmethod
    def settle(self, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
        """Learn from a list."""
