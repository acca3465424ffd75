"""Lists that were asked for and not seen: the service may have made them all the same, so they are voided."""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from clickbandit.errors import InputError
from clickbandit.live.values import StoreError, Unknown

_VOID_FOR = 60.0
"""Seconds for which it is tried: the request for the list may still be on its way."""
_MAX_WAITING = 10_000
"""Beyond that the oldest is left to its window."""
_PAUSE, _MAX_PAUSE = 0.05, 5.0
"""Seconds before the second round; twice as many before each further one, up to the most."""


class Voids:
    """Voids lists in the background, by `void`, which raises what a ranker raises."""

    def __init__(self, void: Callable[[str], object]) -> None:
        self._void = void
        self._waiting: deque[tuple[str, float]] = deque(maxlen=_MAX_WAITING)
        """Their ids, and until when to try."""
        self.thread: threading.Thread | None = None
        """At work while there is something to void."""
        self._gate = threading.Lock()
        self._closing = threading.Event()

    def add(self, id: str) -> None:
        with self._gate:
            self._waiting.append((id, time.monotonic() + _VOID_FOR))
            if self.thread is None and not self._closing.is_set():
                self.thread = threading.Thread(target=self._work, name="clickbandit-voids", daemon=True)
                self.thread.start()

    def close(self) -> None:
        """Try each of them once more as long as the service answers, and end."""
        self._closing.set()
        if (thread := self.thread) is not None:
            thread.join()

    def _work(self) -> None:
        """Until nothing is left to void."""
        pause = _PAUSE
        while True:
            closing = self._closing.is_set()
            with suppress(StoreError):  # it is away for the others too
                for _ in range(len(self._waiting)):
                    self._try_next()
            with self._gate:
                if closing or not self._waiting:
                    self.thread = None
                    return
            self._closing.wait(pause)
            pause = min(2 * pause, _MAX_PAUSE)

    def _try_next(self) -> None:
        """Void a list, or keep it for the next round."""
        id, until = self._waiting.popleft()
        try:
            self._void(id)
        except (StoreError, Unknown) as error:  # the request for it may come later than this
            if time.monotonic() < until:
                self._waiting.append((id, until))
            if isinstance(error, StoreError):
                raise
        except InputError:
            pass
