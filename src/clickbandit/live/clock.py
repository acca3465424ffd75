"""The ranker's clock: it starts with the time of the machine's clock and goes on as time passes, whatever that clock
is set to meanwhile."""

from collections.abc import Callable

_SLEW = 0.01
"""By how much it goes faster or slower while the machine's clock says otherwise, so that small corrections are made."""


class Clock:
    """Milliseconds since 1970 that never jump.

    `wall` gives the seconds since 1970, and `elapsed` seconds that pass evenly.

    >>> seconds = {"wall": 1000.0, "elapsed": 0.0}
    >>> clock = Clock(lambda: seconds["wall"], lambda: seconds["elapsed"])
    >>> seconds |= {"wall": 1000.0 + 9 * 86400, "elapsed": 1.0}  # someone set the clock
    >>> clock.now(), round(clock.skew / 86400)
    (1001010, 9)
    """

    def __init__(self, wall: Callable[[], float], elapsed: Callable[[], float]) -> None:
        self._wall = wall
        self._elapsed = elapsed
        self._last = elapsed()
        self._now = wall()

    @property
    def skew(self) -> float:
        """Seconds by which the machine's clock is ahead."""
        return self._wall() - self._now

    def now(self) -> int:
        elapsed = self._elapsed()
        passed = max(elapsed - self._last, 0.0)
        self._last = max(elapsed, self._last)
        self._now += passed
        self._now += min(max(self.skew, -_SLEW * passed), _SLEW * passed)
        return int(self._now * 1000)
