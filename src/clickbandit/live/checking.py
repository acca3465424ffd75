"""Whether what is stored about a query is what was written, and gives what is in use: its log replayed from the first
record that is still there, a slice at a time, concurrently with everything else."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from clickbandit.errors import InputError
from clickbandit.live.algorithm import Algorithms
from clickbandit.live.learner import Learner
from clickbandit.live.learners import replay, restore
from clickbandit.live.records import Damaged
from clickbandit.live.requests import InUse, StateRequest
from clickbandit.live.stores.reading import Reader
from clickbandit.live.stores.rows import Snapshot
from clickbandit.live.values import StoreError

_SLICE = 200
"""Rows of the log that are replayed at once."""
_SHARE = 0.02
"""Of the time that may go into checking in the background."""
_FIRST_PAUSE = 60.0
_ROUND = 3600.0
"""Seconds before the first query is checked in the background, and from the start of one round to the next at least."""

log = logging.getLogger("clickbandit.live")


class Check:
    """One query's log, up to what is in use if that is given; on the way every snapshot must be what the log gives."""

    def __init__(self, query: str, algorithms: Algorithms, id: int, in_use: InUse | None) -> None:
        self._query = query
        self._algorithms = algorithms
        self._id = id
        self._in_use = in_use
        self._learner: Learner | None = None
        self._start = -1
        self._snapshot: Snapshot | None = None
        """The next one to compare with."""
        self.damage: Exception | None = None
        """What was wrong, if something was."""

    def step(self, reader: Reader) -> bool | None:
        """Replay a slice: whether all is well, or None while there is more."""
        try:
            if self._learner is None:
                self._begin(reader)
                return None
            if self._in_use is not None and self._learner.number > self._in_use.number:
                return self._in_use.sound  # the log begins after what was in use: there is nothing to replay
            return self._go_on(reader, self._learner)
        except Damaged as error:
            base = self._base(reader)
            if base is not None and base.number > self._start:  # what was replayed is pruned meanwhile
                self._learner = None
                return None
            self.damage = error
            return False

    def _begin(self, reader: Reader) -> None:
        base = self._base(reader)
        self._start = -1 if base is None else base.number
        self._learner = restore(self._query, self._algorithms, base)
        self._snapshot = reader.snapshot(self._id, self._learner.number)

    def _base(self, reader: Reader) -> Snapshot | None:
        """The snapshot that the log starts from, if it does not start from nothing."""
        first = reader.snapshot(self._id, -1)
        return first if first is not None and first.base else None

    def _go_on(self, reader: Reader, learner: Learner) -> bool | None:
        last = None if self._in_use is None else self._in_use.number
        rows = [] if learner.number == last else list(reader.log(self._id, learner.number, _SLICE))
        for row in rows:
            replay(learner, row, last)
            if self._snapshot is not None and learner.number == self._snapshot.number:
                self._compare(self._snapshot, learner)
                self._snapshot = reader.snapshot(self._id, learner.number)
            if learner.number == last:
                break
        if rows and learner.number != last:
            return None
        if self._in_use is not None and learner.number < self._in_use.number:
            raise Damaged(f"the log must go to record {self._in_use.number}, found {learner.number}")
        if self._in_use is not None and self._in_use.state != learner.to_bytes():
            raise Damaged(f"the log gives another state after record {learner.number} than is in use")
        return self._in_use is None or self._in_use.sound

    def _compare(self, snapshot: Snapshot, learner: Learner) -> None:
        if restore(self._query, self._algorithms, snapshot).to_bytes() != learner.to_bytes():
            raise Damaged(f"the log gives another state after record {snapshot.number} than its snapshot")


class Rounds:
    """Checks one query after the other, for ever, in a thread of its own that takes a small share of the time."""

    def __init__(
        self,
        algorithms: Algorithms,
        read: Callable[[Callable[[Reader], Any]], "Future[Any]"],
        ask: Callable[[StateRequest], "Future[Any]"],
        found: Callable[[str, Exception], None],
    ) -> None:
        self._algorithms = algorithms
        self._read = read
        self._ask = ask
        self._found = found
        self.checked = 0
        """How many queries were."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="clickbandit-live-checks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _work(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopped.wait(pause):
            started = time.monotonic()
            try:
                self.go_round()
            except Exception:  # a store that is away, or a ranker that is closing: there is another round
                log.debug("a round of checks ended early", exc_info=True)
            pause = max(_ROUND - (time.monotonic() - started), _FIRST_PAUSE)

    def go_round(self) -> None:
        """Check every query once."""
        id = -1
        while (found := self._slowly(lambda reader, id=id: reader.next_query(id))) is not None:
            id, name = found
            try:
                self._check(id, name)
            except (InputError, StoreError):  # it is gone, or its policy is
                continue

    def _check(self, id: int, name: str) -> None:
        check = Check(name, self._algorithms, id, self._ask(StateRequest(name, in_memory=True)).result())
        while not self._stopped.is_set():
            well = self._slowly(check.step)
            if well is not None:
                self.checked += 1
                if check.damage is not None:
                    self._found(name, check.damage)
                return

    def _slowly(self, function: Callable[..., Any]) -> Any:
        started = time.monotonic()
        result = self._read(function).result()
        self._stopped.wait((time.monotonic() - started) / _SHARE)
        return result
