"""What wakes the ranker's thread, and what comes to it other than through its queue."""

import threading
from typing import Protocol

from clickbandit.live.answers import Operation


class Inbox(Protocol):
    """Where that thread waits for something to do."""

    def ring(self) -> None:
        """From any thread: there is something to do."""

    def wait(self, seconds: float) -> None:
        """Until somebody rings, or did since the last `heard`, or there is something to collect."""

    def heard(self) -> None:
        """From now on another ring counts."""

    def collect(self) -> list[Operation]:
        """What has come from elsewhere."""

    def turn_away(self) -> None:
        """Nothing can be done: who sent something is told, and sends nothing before something is collected again."""


class Bell:
    """An `Inbox` to which nothing comes."""

    def __init__(self) -> None:
        self._rung = threading.Event()
        self.ring = self._rung.set
        self.heard = self._rung.clear

    def wait(self, seconds: float) -> None:
        self._rung.wait(seconds)

    def collect(self) -> list[Operation]:
        return []

    def turn_away(self) -> None:
        pass
