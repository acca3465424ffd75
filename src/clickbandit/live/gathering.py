"""Others may join a batch before it begins: a commit costs as much however many are in it."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from clickbandit.live.answers import Operation
from clickbandit.live.requests import Clicks

_MIN_WAIT = 0.002
_WAIT_AGAIN = 0.001
_MAX_WAIT = 0.005
"""Seconds after a batch that the next one waits: at least, then again and again while others come, and in all."""

_MAX_OPERATIONS = 256
_MAX_EVENTS = 2000
"""In one batch, so that nobody waits long for it."""


def take(queue: deque[Operation]) -> list[Operation]:
    """What waits, but not too much of it."""
    operations: list[Operation] = []
    events = 0
    with suppress(IndexError):
        while len(operations) < _MAX_OPERATIONS and events < _MAX_EVENTS:
            operation = queue.popleft()
            operations.append(operation)
            if isinstance(operation.request, Clicks):
                events += len(operation.request.events)
    return operations


class Gathering:
    """Waits for as many requests as were answered last, since their senders may ask again at once."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        """How many wait."""
        self._expected = 0
        self._since = 0.0

    def answered(self, n: int) -> None:
        """Note the size of a finished batch; after a lone request the next one does not wait."""
        self._expected = n if n > 1 else 0
        self._since = time.monotonic()

    def wait(self) -> None:
        """Until they are there, or no more come, or it takes too long."""
        before, until = -1, self._since + _MIN_WAIT
        while before < (n := self._count()) < self._expected and (left := until - time.monotonic()) > 0:
            time.sleep(left)
            before, until = n, min(until + _WAIT_AGAIN, self._since + _MAX_WAIT)
