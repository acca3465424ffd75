"""A thread moves what was committed from the write-ahead log into the file, alongside the transactions.

Left to SQLite, the commit that fills the log waits for all of it: for tens of milliseconds each second under load. The
log starts over only if all of it is in the file when a transaction begins, so the next commit moves the rest, which is
little.
"""

import threading
from contextlib import suppress

from clickbandit.live.stores.database import Database
from clickbandit.live.values import StoreError

CHECKPOINT_INTERVAL = 128
"""In transactions."""
_ROUNDS = 2
"""In the second one goes what was committed during the first."""


class Checkpoints:
    """Of one file, with a connection of their own. Where they fail the log grows until SQLite makes one itself."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._n_commits = 0
        self._asked = threading.Event()
        self._closing = False
        self._moved = False
        """Whether most of the log was moved just now."""
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Open the files that there are now: later there may be others of these names."""
        self._database.run("pragma synchronous = full")
        _move(self._database)

    def committed(self, database: Database) -> None:
        """Called after each commit, with the connection that made it."""
        self._n_commits += 1
        if self._moved:
            self._moved = False
            _move(database)
        elif self._n_commits >= CHECKPOINT_INTERVAL:
            self._n_commits = 0
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="clickbandit-checkpoints", daemon=True
                )
                self._thread.start()
            self._asked.set()

    def _work(self) -> None:
        while self._asked.wait() and not self._closing:
            self._asked.clear()
            for _ in range(_ROUNDS):
                _move(self._database)
            self._moved = True

    def close(self) -> None:
        self._closing = True
        self._asked.set()
        if self._thread is not None:
            self._thread.join()
        self._database.close()


def _move(database: Database) -> None:
    """As much as can be moved without waiting for anyone."""
    with suppress(StoreError):
        database.rows("pragma wal_checkpoint(passive)")
