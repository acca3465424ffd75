"""Lists that nobody sees, though another process may store them: it was asked for one, and somebody who could wait no
longer was answered without it. They are looked for, and void where they are found."""

import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

_MORE = 3.0
"""Seconds for which they are looked for beyond those that a list may wait for its store."""
_MAX_STRAYS = 10_000
_SLOW = 250
"""Milliseconds after which whoever asked may go on without a list, before that is committed."""
_TIME_TO_VOID = 3000
"""Milliseconds that it then has to look for it."""


class Stray(NamedTuple):
    """One of them."""

    id: str
    since: int = 0
    """Milliseconds since 1970: what was stored before is another's, and may have been seen."""
    until: float = float("inf")
    """When it is looked for no more."""


class Strays:
    """Those that are looked for, from the first look on for as long as another process may take to store them."""

    def __init__(self, patience: float) -> None:
        self._look_for = patience + _MORE
        self._new: deque[Stray] = deque(maxlen=_MAX_STRAYS)
        self._known: list[Stray] = []

    def add(self, id: str, asked: int) -> None:
        """From any thread: it was asked for then. Processes of one service have the same clock, so what is older was
        stored before: whoever asks again may have seen it."""
        self._new.append(Stray(id, asked))

    def all(self) -> list[Stray]:
        while self._new:
            self._known.append(self._new.popleft())
        return self._known

    def looked(self) -> None:
        """All that were there have been looked for."""
        now = time.monotonic()
        again = [
            one._replace(until=min(one.until, now + self._look_for)) for one in self._known if one.until > now
        ]
        self._known = again[-_MAX_STRAYS:]


class Held:
    """Lists that were made for other processes, but so slowly that nobody may see them.

    Their window may have been over when they were committed. They settle somewhat later, so that whoever asked has
    the time to void them.
    """

    def __init__(self) -> None:
        self._until: dict[str, int] = {}

    def add(self, ids: Iterable[str], made: int, committed: int) -> None:
        """When they were made and committed, in milliseconds."""
        if committed - made > _SLOW:
            self._until.update(dict.fromkeys(ids, committed + _TIME_TO_VOID))

    def others(self, ids: list[str], now: int) -> list[str]:
        """All but them."""
        if self._until:
            self._until = {id: until for id, until in self._until.items() if until > now}
        return [id for id in ids if id not in self._until] if self._until else ids
