"""The thread that does everything: takes what was asked meanwhile, commits it in one transaction, and then answers.

Waiting for the disk is shared by all who wait (group commit). If a batch fails nothing of it is acknowledged: the
learners that it touched are forgotten, to be made anew from the store, and those who wanted a list get their items in
the order given. So they do when the store does not answer in time; should it have stored another list for one of them
all the same, that impression is void.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from clickbandit.errors import InputError
from clickbandit.live.algorithm import Algorithms
from clickbandit.live.batch import Batch
from clickbandit.live.learners import LearnerError, Learners
from clickbandit.live.requests import (
    Click,
    Clicks,
    FlushRequest,
    PingRequest,
    QuerySettings,
    RankRequest,
    Request,
    ResetRequest,
    SettleRequest,
    VoidRequest,
    arrange,
    new_id,
)
from clickbandit.live.settings import RankerSettings
from clickbandit.live.stores.contract import NewQuery, QueryRow, Store
from clickbandit.live.values import Closed, EventVerdict, Shown, Source, StoreError, Verdict

MAX_WAITING = 20_000
"""Operations that may wait; more are refused, so that memory is bounded when the store cannot keep up."""
_MAX_OPERATIONS = 256
_MAX_EVENTS = 2000
"""In one batch, so that nobody waits long for it."""
_MAX_DUE = 500
_IDLE = 0.5
"""Seconds between two looks at what is due when there is nothing else to do."""
_PRUNE_ROWS = 1000
_PRUNE_PAUSE = 1.0
_PRUNE_AGAIN = 0.02
"""Seconds between two prunings, when the last one found little and when it found enough."""
_ATTEMPTS = 3

log = logging.getLogger("clickbandit.live")

Sink = Callable[[list[tuple[Any, Any]]], None]
"""Takes pairs of a future and its result, which is an exception if the operation failed."""


class Operation(NamedTuple):
    """Something to do, and where to say that it is done."""

    request: Request
    future: Any
    sink: Sink


class Counts:
    """What happened since the ranker was started."""

    def __init__(self) -> None:
        self.ranked: Counter[Source] = Counter()
        self.events: Counter[EventVerdict] = Counter()
        self.failures = 0
        self.pruned = 0
        self.batches = 0
        self.operations = 0


class Engine:
    """Serves one store with one thread."""

    def __init__(
        self, store: Store, algorithms: Algorithms, of_new_queries: QuerySettings, settings: RankerSettings
    ) -> None:
        self.counts = Counts()
        self._store = store
        self._settings = settings
        self._of_new_queries = of_new_queries
        self._patience = settings.patience_ms / 1000
        self._clock = settings.clock or time.time
        self._now = 0
        self._learners = Learners(store, algorithms, settings.learners)
        self._queue: SimpleQueue[Operation | None] = SimpleQueue()
        self._more_due = False
        self._disowned: set[str] = set()
        """Impressions that were answered with the given order, but may be stored with another."""
        self._given_up: deque[str] = deque()
        """The same, from the watchman's thread."""
        self._batch: tuple[float, list[Operation]] = (0.0, [])
        """What is being done, and since when."""
        self._prune_at = 0.0
        self._closing = False
        self._gate = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="clickbandit-live", daemon=True)
        self._thread.start()
        self._stopped = threading.Event()
        self._watchman = threading.Thread(target=self._watch, name="clickbandit-live-watchman", daemon=True)
        self._watchman.start()

    # --- from any thread ------------------------------------------------------------------------------------

    def submit(self, operation: Operation) -> None:
        """Have something done."""
        if self._queue.qsize() >= MAX_WAITING:
            refusal = self._refusal(operation.request, StoreError("too many operations are waiting"))
            self._count([refusal])
            self._deliver([operation], [refusal])
            return
        with self._gate:
            if self._closing:
                raise Closed("the ranker is closed")
            self._queue.put(operation)

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    @property
    def n_learners(self) -> int:
        return len(self._learners)

    @property
    def n_loaded(self) -> int:
        return self._learners.n_loaded

    def found_damage(self, query: str, error: Exception) -> None:
        """Say that what is stored of a query is damaged."""
        self._learners.found_damage(query, error)

    @property
    def n_damaged(self) -> int:
        return self._learners.n_damaged

    def close(self) -> None:
        """Do what was asked so far, and stop."""
        with self._gate:
            if not self._closing:
                self._closing = True
                self._queue.put(None)
        self._thread.join()
        self._stopped.set()
        self._watchman.join()

    # --- in its own thread ----------------------------------------------------------------------------------

    def _work(self) -> None:
        open_ = True
        while open_:
            operations, open_ = self._take()
            self._batch = (time.monotonic(), operations)
            try:
                self._serve(operations)
            except Exception:  # a mistake here must not leave everyone waiting for ever
                log.exception("a batch failed for an unknown reason")
                self._fail(operations, StoreError("the ranker failed"))
            self._batch = (0.0, [])
            self._prune()

    def _take(self) -> tuple[list[Operation], bool]:
        """What waits, but not too much of it; and whether more may come."""
        operations: list[Operation] = []
        events = 0
        try:
            operation = self._queue.get(timeout=0 if self._more_due else _IDLE)
            while operation is not None:
                operations.append(operation)
                if isinstance(operation.request, Clicks):
                    events += len(operation.request.events)
                if len(operations) >= _MAX_OPERATIONS or events >= _MAX_EVENTS:
                    return operations, True
                operation = self._queue.get_nowait()
            return operations, False
        except Empty:
            return operations, True

    def _serve(self, operations: list[Operation]) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                results = self._transact([operation.request for operation in operations])
            except StoreError as error:
                if error.retry and attempt + 1 < _ATTEMPTS:
                    continue
                self._fail(operations, error)
                return
            if self._more_due:
                for operation, result in zip(operations, results, strict=True):
                    if isinstance(operation.request, FlushRequest) and result is None:
                        self._queue.put(operation)
                done = [
                    (operation, result)
                    for operation, result in zip(operations, results, strict=True)
                    if not isinstance(operation.request, FlushRequest)
                ]
                operations, results = [operation for operation, _ in done], [result for _, result in done]
            self._count(results)
            self._deliver(operations, results)
            return

    def _transact(self, requests: Sequence[Request]) -> list[Any]:
        """Do all of it in one transaction; a result or an exception for each."""
        store = self._store
        now = self._now = max(self._now, int(self._clock() * 1000))
        touched: Collection[QueryRow] = ()
        committing = False
        while self._given_up:
            self._disowned.add(self._given_up.popleft())
        try:
            store.begin()
            due = store.due(now, _MAX_DUE)
            names, ids, keys = _concerns(requests)
            new = self._new_queries(requests, now)
            locked = store.lock(names, {*ids, *due, *self._disowned}, new, self._settings.max_queries)
            touched = locked.queries.values()
            batch = Batch(store, locked, self._settings, self._learners, now)
            batch.known_events = store.known_events(keys) if keys else set()
            for id in self._disowned:
                batch.disown(id)
            for id in due:
                batch.settle_due(id)
            results = [self._execute(batch, request) for request in requests]
            changes = batch.changes()
            if changes:
                store.save(changes)
                committing = True
                store.commit()
            else:
                store.rollback()
        except BaseException:
            store.rollback()
            if committing:  # who knows: these were answered otherwise than they may have been stored
                self._disowned.update(request.id for request in requests if isinstance(request, RankRequest))
            for row in touched:
                self._learners.forget(row.id)
            raise
        self._disowned.clear()
        self._more_due = len(due) == _MAX_DUE
        self._learners.used(touched)
        self.counts.batches += 1
        self.counts.operations += len(requests)
        return results

    def _execute(self, batch: Batch, request: Request) -> Any:
        try:
            return batch.execute(request)
        except StoreError:
            raise
        except InputError as error:
            return error
        except LearnerError as error:
            self.counts.failures += 1
            return self._refusal(request, StoreError(str(error)))
        except Exception as error:
            log.exception("an operation failed")
            self.counts.failures += 1
            return self._refusal(request, StoreError(f"{type(error).__name__}: {error}"))

    def _new_queries(self, requests: Iterable[Request], now: int) -> list[NewQuery]:
        """The queries that these requests are about, should they be new."""
        new = {}
        defaults = self._of_new_queries
        for request in requests:
            if isinstance(request, RankRequest):
                positions = request.positions or defaults.positions
                new[request.query] = NewQuery(
                    request.query, defaults.policy, positions, defaults.horizon, None, now
                )
            elif isinstance(request, ResetRequest):
                new[request.query] = NewQuery(request.query, *request.settings, now)
        return list(new.values())

    def _prune(self) -> None:
        """Forget what is old, a little at a time."""
        if time.monotonic() < self._prune_at:
            return
        found = 0
        try:
            found = self._store.prune(self._now - self._settings.retention_ms, _PRUNE_ROWS)
            self.counts.pruned += found
        except StoreError:
            self._store.rollback()
            self.counts.failures += 1
        self._prune_at = time.monotonic() + (_PRUNE_AGAIN if found >= _PRUNE_ROWS else _PRUNE_PAUSE)

    def _watch(self) -> None:
        """In a thread of its own: when the store does not answer, lists are made without it."""
        while not self._stopped.wait(self._patience / 4):
            since, operations = self._batch
            if not since or time.monotonic() - since < self._patience:
                continue
            self._batch = (since, [])
            waiting: list[Operation] = []
            for operation in operations:
                if isinstance(operation.request, RankRequest):
                    self._given_up.append(operation.request.id)
                    waiting.append(operation)
            left: list[Operation | None] = []
            for _ in range(self._queue.qsize()):
                try:
                    queued = self._queue.get_nowait()
                except Empty:
                    break
                if queued is not None and isinstance(queued.request, RankRequest):
                    waiting.append(queued)
                else:
                    left.append(queued)
            for other in left:
                self._queue.put(other)
            if waiting:
                self._fail(waiting, StoreError("the store does not answer"))

    # --- answers --------------------------------------------------------------------------------------------

    def _fail(self, operations: list[Operation], error: StoreError) -> None:
        log.error("a batch of %d operations failed: %s", len(operations), error)
        self.counts.failures += 1
        results = [self._refusal(operation.request, error) for operation in operations]
        self._count(results)
        self._deliver(operations, results)

    def given_order(self, request: RankRequest) -> Shown:
        """A list without the store, from any thread."""
        shown = self._given_order(request)
        self._count([shown])
        return shown

    def _refusal(self, request: Request, error: StoreError) -> Any:
        """What to say when nothing was done: to those who want a list, the order given."""
        return self._given_order(request) if isinstance(request, RankRequest) else error

    def _given_order(self, request: RankRequest) -> Shown:
        """It has an id of its own, for under the one that was given another list may be stored."""
        shown = arrange(request.items, request, request.positions or self._of_new_queries.positions)
        return Shown(
            new_id(self._now / 1000),
            request.query,
            tuple(shown),
            (1.0,) * len(shown),
            self._of_new_queries.policy,
            "fallback",
            datetime.fromtimestamp(self._now / 1000, UTC),
        )

    def _count(self, results: Iterable[Any]) -> None:
        for result in results:
            if isinstance(result, Shown):
                self.counts.ranked[result.source] += 1
            elif isinstance(result, list):
                for verdict in result:
                    if isinstance(verdict, Verdict):
                        self.counts.events[verdict.verdict] += 1

    def _deliver(self, operations: Sequence[Operation], results: Sequence[Any]) -> None:
        sinks: dict[Sink, list[tuple[Any, Any]]] = {}
        for operation, result in zip(operations, results, strict=True):
            sinks.setdefault(operation.sink, []).append((operation.future, result))
        for sink, pairs in sinks.items():
            try:
                sink(pairs)
            except RuntimeError:  # an event loop that was closed: nobody waits any more
                log.warning("%d answers found nobody who waits for them", len(pairs))


def _concerns(requests: Iterable[Request]) -> tuple[set[str], set[str], list[str]]:
    """The queries, impressions and events that a batch is about."""
    names: set[str] = set()
    ids: set[str] = set()
    keys: list[str] = []
    for request in requests:
        if isinstance(request, RankRequest):
            names.add(request.query)
            if not request.is_new:
                ids.add(request.id)
        elif isinstance(request, Clicks):
            for event in request.events:
                if isinstance(event, Click):
                    ids.add(event.impression)
                    keys.append(event.key)
        elif isinstance(request, SettleRequest | VoidRequest):
            ids.add(request.id)
        elif not isinstance(request, PingRequest | FlushRequest):
            names.add(request.query)
    return names, ids, keys
