"""What is old is forgotten a little at a time, between the batches; and queries of no use, if there are too many."""

import logging
import time

from clickbandit.live.answers import ActivityCounts
from clickbandit.live.learners import Learners
from clickbandit.live.stores.contract import Store
from clickbandit.live.values import StoreError

_ROWS = 1000
PAUSE = 1.0
AGAIN = 0.02
"""Seconds between two prunings, when the last one found little and when it found enough."""
_IDLE_QUERY = 3_600_000  # milliseconds after which a query that learned nothing may have to make room

log = logging.getLogger("clickbandit.live")


class Pruning:
    """Of one store, in the engine's thread."""

    def __init__(self, store: Store, learners: Learners, counts: ActivityCounts, retention_ms: int) -> None:
        self._store = store
        self._learners = learners
        self._counts = counts
        self._retention_ms = retention_ms
        self._at = 0.0
        self._failed = ""
        """Why it failed last, which is said once."""
        self.full = False
        """Whether there were as many queries as there may be."""

    def go_on(self, now: int, gap: int) -> None:
        """Do some of it, if it is time; in the milliseconds of the gap nothing grew old."""
        if time.monotonic() < self._at:
            return
        found = 0
        try:
            if self.full:
                self.full = False
                for id in self._store.evict(now - _IDLE_QUERY, _ROWS):
                    self._learners.deleted(id)
            # had the machine's clock been set years ahead before the start, all would seem old
            found = self._store.prune(now - gap - self._retention_ms, _ROWS)
            self._counts.pruned += found
        except Exception as error:  # also of a damaged row: it must not end the engine's thread
            self._store.rollback()
            self._counts.failures += 1
            if not isinstance(error, StoreError) and repr(error) != self._failed:
                log.exception("what is old cannot be forgotten")
            self._failed = repr(error)
        self._at = time.monotonic() + (AGAIN if found >= _ROWS else PAUSE)
