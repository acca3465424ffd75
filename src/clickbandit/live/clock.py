"""The ranker's clock: it starts with the time of the machine's clock and goes on as time passes, whatever that clock
is set to meanwhile."""

import threading
import time
from collections.abc import Callable

_SLEW = 0.01
"""By how much it goes faster or slower while the machine's clock says otherwise, so that small corrections are made."""


class Clock:
    """Milliseconds since 1970 that never jump.

    `wall` gives the seconds since 1970, and `elapsed` seconds that pass evenly. It begins with what `wall` says, or as
    much `ahead` of `elapsed` as another one.

    >>> seconds = {"wall": 1000.0, "elapsed": 0.0}
    >>> clock = Clock(lambda: seconds["wall"], lambda: seconds["elapsed"])
    >>> seconds |= {"wall": 1000.0 + 9 * 86400, "elapsed": 1.0}  # someone set the clock
    >>> clock.now(), round(clock.skew / 86400)
    (1001010, 9)
    """

    def __init__(
        self, wall: Callable[[], float], elapsed: Callable[[], float], ahead: float | None = None
    ) -> None:
        self._wall = wall
        self._elapsed = elapsed
        self._gate = threading.Lock()  # or what passed while two threads ask counts twice
        self._last = elapsed()
        self._now = wall() if ahead is None else self._last + ahead

    @property
    def ahead(self) -> float:
        """Seconds by which it is ahead of those that pass."""
        return self.now() / 1000 - self._last

    @property
    def skew(self) -> float:
        """Seconds by which the machine's clock is ahead."""
        return self._wall() - self._now

    def now(self) -> int:
        with self._gate:
            elapsed = self._elapsed()
            passed = max(elapsed - self._last, 0.0)
            self._last = max(elapsed, self._last)
            self._now += passed
            self._now += min(max(self.skew, -_SLEW * passed), _SLEW * passed)
            return int(self._now * 1000)


_ahead: float | None = None


def go_on(ahead: float) -> None:
    """From now on clocks of this process begin as another process of this machine has the time."""
    global _ahead
    _ahead = ahead


def machine_clock() -> Clock:
    """A clock of this machine, whose time passes evenly for all processes."""
    return Clock(time.time, time.monotonic, _ahead)
