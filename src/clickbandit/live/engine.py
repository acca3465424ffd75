"""The thread that does everything: takes what was asked meanwhile, commits it in one transaction, and then answers.

Waiting for the disk is shared by all who wait (group commit). If a batch fails nothing of it is acknowledged: the
learners that it touched are forgotten, to be rebuilt from the store, and those who wanted a list get their items in
the order given. The same happens when the store does not answer in time; if it has stored another list for one of
them after all, that impression is void.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

from clickbandit.errors import InputError
from clickbandit.live.algorithm import Algorithms
from clickbandit.live.answers import ActivityCounts, Operation, apart, deliver, given_order, once_more, wanted
from clickbandit.live.batch import Batch, new_queries
from clickbandit.live.clock import Clock, machine_clock
from clickbandit.live.gathering import Gathering, take
from clickbandit.live.inbox import Bell, Inbox
from clickbandit.live.learners import LearnerError, Learners
from clickbandit.live.pruning import Pruning
from clickbandit.live.requests import (
    FREQUENT,
    OF_QUERIES,
    DeleteRequest,
    FlushRequest,
    ForgetRequest,
    QuerySettings,
    RankRequest,
    Request,
    concerns,
)
from clickbandit.live.settings import RankerSettings
from clickbandit.live.stores.contract import Part, Store
from clickbandit.live.stores.rows import QueryRow
from clickbandit.live.strays import Held, Stray, Strays
from clickbandit.live.values import Closed, LimitReached, Shown, StoreError

MAX_WAITING = 20_000
"""Operations that may wait; more are refused, so that memory is bounded when the store cannot keep up."""
_MAX_DUE = 500
_LOOK_PAUSE = 75
_LOOK_EARLY = 25
"""Milliseconds from one look at what is due to the next, since it costs less to settle many together; and how much
earlier it is done between two batches, when nobody waits for it."""
_IDLE = 0.5  # seconds between two looks at what is due when there is nothing else to do
MAX_FORGOTTEN = 1000  # impressions of a user at once
_ATTEMPTS = 3
_PROBE_PAUSE = 0.25  # seconds between two looks whether the store works again

log = logging.getLogger("clickbandit.live")


class Engine:
    """Serves one store with one thread."""

    def __init__(
        self,
        store: Store,
        algorithms: Algorithms,
        of_new_queries: QuerySettings,
        settings: RankerSettings,
        load_policies: Callable[[], None],
    ) -> None:
        self.counts = ActivityCounts()
        self._store = store
        self._settings = settings
        self._of_new_queries = of_new_queries
        self._patience = settings.patience_ms / 1000
        self.clock = Clock(settings.clock, settings.clock) if settings.clock else machine_clock()
        self._now, self._gap = self.clock.now(), 0
        """Milliseconds from the last impression in the store to the start: time in which nothing grew old."""
        self.learners = Learners(store, algorithms, settings)
        self.part = Part()  # of the queries, which is settled here
        self._queue: deque[Operation] = deque()
        self._inbox: Inbox = Bell()
        self._gathering = Gathering(self._count)
        self._more_due = False
        self._look_at = 0
        self._settle_at: float = math.inf
        """When a batch is to look at what is due, and from when on that is done between two, in milliseconds."""
        self._load_policies = load_policies
        self._loaded = False
        self._down: StoreError | None = None
        """Why the store does not work, if it does not: then everything is answered at once, without it."""
        self._disowned: set[str] = set()
        """Impressions that were answered with the given order, but may be stored with another."""
        self.strays = Strays(self._patience)  # the same, of other processes
        self._held = Held()
        self._given_up: deque[str] = deque()
        """Those of the batch at hand that the watchman has answered."""
        self._fresh: set[str] = set()
        """Impressions that the last batch made: to ask again for one that was acknowledged before undoes nothing."""
        self._others: set[str] = set()  # that it made for other processes, which may show them all the same
        self._batch: tuple[float, list[Operation]] = (0.0, [])
        """What is being done, and since when."""
        self._pruning = Pruning(store, self.learners, self.counts, settings.retention_ms)
        self._closing = False
        self.hidden = False
        """Whether readers may not see all that was committed."""
        self._gate = threading.Lock()
        try:
            self._load()
        except StoreError as error:  # it is not there yet
            log.error("the store does not work: %s", error)
            self._down = error
        self._thread = threading.Thread(target=self._work, name="clickbandit-live", daemon=True)
        self._thread.start()
        self._stopped = threading.Event()
        self._watchman = threading.Thread(target=self._watch, name="clickbandit-live-watchman", daemon=True)
        self._watchman.start()

    # --- from any thread ------------------------------------------------------------------------------------

    def submit(self, operations: Sequence[Operation]) -> None:
        """Have some things done."""
        if self._admit(operations):
            self._inbox.ring()

    def _admit(self, operations: Sequence[Operation]) -> bool:
        """Whether some of them wait now."""
        down = self._down
        room = max(MAX_WAITING - len(self._queue), 0) if down is None else 0
        if len(operations) > room and not self._closing:
            self._do_without(operations[room:], down or StoreError("too many operations are waiting"))
            operations = operations[:room]
        with self._gate:
            if self._closing:
                raise Closed("the ranker is closed")
            self._queue.extend(operations)
        return bool(operations)  # who was answered without the store is no reason to look at it

    def open(self, inbox: Inbox) -> None:
        """Also do what comes there."""
        before, self._inbox = self._inbox, inbox
        before.ring()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def close(self) -> None:
        """Do what was asked so far, and stop."""
        with self._gate:
            self._closing = True
        self._inbox.ring()
        self._thread.join()
        self._stopped.set()
        self._watchman.join()

    # --- in its own thread ----------------------------------------------------------------------------------

    def _work(self) -> None:
        # In this order, since nothing but what is put back is added once it closes:
        while not self._closing or self._queue:
            if self._down is not None:
                self._wait_for_store()
                continue
            operations = self._take(0 if self._more_due else _IDLE)
            self._batch = (time.monotonic(), operations)
            self._serve(operations)
            self._disowned.update(self._fresh.intersection(self._given_up))
            self._given_up.clear()
            self._batch = (time.monotonic(), [])  # nobody waits for ever while it settles or prunes either
            if self._down is None and len(operations) > 1 and self.clock.now() >= self._settle_at:
                self._serve([], between=True)
            if self._down is None:
                self._pruning.go_on(self._now, self._gap)
            self._batch = (0.0, [])

    def _load(self) -> None:
        """What is to be known of a store when it is first there."""
        self._load_policies()
        latest = self._store.latest()
        self._gap = 0 if latest is None else max(self._now - latest, 0)
        self._loaded = True

    def _wait_for_store(self) -> None:
        """Answer who has waited, and see whether the store works again."""
        self._inbox.turn_away()
        operations = self._take(_PROBE_PAUSE)
        if operations and self._down is not None:
            self._refuse(operations, self._down)
        self._probe()

    def _probe(self) -> None:
        """See whether the store works."""
        try:
            self._store.probe()
            if not self._loaded:
                self._load()
            if self._down is not None:
                log.warning("the store works")
            self._down = None
        except Exception as error:  # also of what is damaged: it must not end this thread
            self._store.rollback()
            if str(error) != str(self._down):
                log.error("the store does not work: %s", error)
            self._down = error if isinstance(error, StoreError) else StoreError(str(error))

    def _take(self, wait: float) -> list[Operation]:
        if not self._count():
            self._inbox.wait(wait)
        if not self._closing:
            self._gathering.wait()
        self._inbox.heard()
        self._count()
        return take(self._queue)

    def _count(self) -> int:
        """How many operations wait, with those that have come from elsewhere."""
        try:
            if self._down is None and (come := self._inbox.collect()):
                with suppress(Closed):  # whoever sent it sees the connection end
                    self._admit(come)
        except Exception:  # a mistake there must not end this thread
            log.exception("what others ask for cannot be collected")
        return len(self._queue)

    def _serve(self, operations: list[Operation], between: bool = False) -> None:
        try:
            self._try_to_serve(operations, between)
        except Exception:  # a mistake here must not leave everyone waiting for ever
            log.exception("a batch failed for an unknown reason")
            self._fail(operations, StoreError("the ranker failed"))

    def _try_to_serve(self, operations: list[Operation], between: bool) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                self._others = {one.request.id for one in operations if one.by_another}  # type: ignore[union-attr]
                results = self._transact([operation.request for operation in operations], between)
            except StoreError as error:
                if error.retry and attempt + 1 < _ATTEMPTS:
                    operations = once_more(operations, self._given_up)
                    continue
                self._fail(operations, error)
                return
            if self._more_due:
                flushes, operations, results = apart(operations, results, FlushRequest)
                self._queue.extend(flushes)
            if DeleteRequest in [type(operation.request) for operation in operations]:
                self._delete(operations, results)
            with self._gate:  # from here on the watchman answers nobody
                self._batch = (time.monotonic(), [])
                self._down = None  # should it have thought otherwise
            self._disowned.update(self._fresh.intersection(self._given_up))
            operations, results = wanted(operations, results, self._given_up)
            self.counts.add(results)
            deliver(operations, results)
            if not between:
                self._gathering.answered(len(operations))
            return

    def _transact(self, requests: Sequence[Request], between: bool) -> list[Any]:
        """Do all of it in one transaction, or settle between two; a result or an exception for each."""
        store, settings = self._store, self._settings
        now = self._now = self.clock.now()
        touched: Collection[QueryRow] = ()
        committing = False
        self._disowned.update(self._fresh.intersection(self._given_up))
        self._fresh = set()
        try:
            store.begin()
            names, ids, clicked, keys = concerns(requests)
            kinds = set(map(type, requests))
            for request in (one for one in requests if isinstance(one, ForgetRequest)):
                ids.update(store.of_user(request.user, MAX_FORGOTTEN))
            due = store.due(now, _MAX_DUE) if FlushRequest in kinds else []
            new = new_queries(requests, self._of_new_queries, now)
            visible = not between and (not kinds or not kinds <= OF_QUERIES)
            looks = visible or between or not kinds <= FREQUENT or now >= self._look_at
            strays = self.strays.all() if looks else []
            ids.update(due, self._disowned, [stray.id for stray in strays])
            locked = store.lock(names, ids, new, settings.max_queries, clicked - ids, now, keys)
            touched = locked.queries.values()
            if looks:
                due = due or store.take_due(now, _MAX_DUE, self.part, locked)
                self._look_at = now + (_LOOK_PAUSE if len(due) < _MAX_DUE else 0)
                self._settle_at = self._look_at - _LOOK_EARLY if store.settles_between else math.inf
            batch = Batch(store, locked, settings, self.learners, now)
            batch.disown([*map(Stray, self._disowned), *strays])
            for id in self._held.others(due, now):
                batch.settle_due(id)
            results = [self._execute(batch, request) for request in requests]
            self._fresh = {one.id for one in batch.new}.difference(self._others)
            changes = batch.changes()
            changes.visible = visible
            if changes or (self.hidden and (visible or changes.shown)):
                store.save(changes)
                if any(one.id in self._given_up for one in batch.new):  # else void later, unless it settles
                    raise StoreError("lists were made without the store meanwhile", retry=True)
                committing = True
                store.commit()
                self._held.add(self._others, now, self.clock.now())
                self.hidden = not visible
                self.learners.stored(changes)
            elif any(row.number == 0 for row in touched):  # made here, and another may get its id
                self._undo(touched)
            else:
                store.commit()
        except BaseException:
            self._undo(touched)
            if committing:  # who knows: these were answered otherwise than they may have been stored
                self._disowned.update(self._fresh)
            raise
        self._disowned = self._fresh.intersection(self._given_up)
        if strays:
            self.strays.looked()
        self._more_due = len(due) == _MAX_DUE
        self.learners.used(touched if visible else changes.queries)
        self.counts.committed(len(requests))
        return results

    def _undo(self, touched: Iterable[QueryRow]) -> None:
        self._store.rollback()
        self.learners.forget_all(row.id for row in touched)

    def _execute(self, batch: Batch, request: Request) -> Any:
        try:
            return batch.execute(request)
        except StoreError:
            raise
        except LimitReached as error:
            self._pruning.full = True
            return self.given_order(request) if isinstance(request, RankRequest) else error
        except InputError as error:
            return error
        except LearnerError as error:
            self.counts.failures += 1
            return self._refusal(request, StoreError(str(error)))
        except Exception as error:
            log.exception("an operation failed")
            self.counts.failures += 1
            return self._refusal(request, StoreError(f"{type(error).__name__}: {error}"))

    def _delete(self, operations: Sequence[Operation], results: list[Any]) -> None:
        """Delete queries, after all that was asked about them before; what fails is the result then."""
        for k, operation in enumerate(operations):
            if isinstance(operation.request, DeleteRequest) and not isinstance(results[k], Exception):
                try:
                    id = self._store.delete(operation.request.query)
                except StoreError as error:
                    self._store.rollback()
                    results[k] = error
                else:
                    self.learners.deleted(-1 if id is None else id)

    def _watch(self) -> None:
        """In a thread of its own: when the store does not answer, lists are made without it."""
        while not self._stopped.wait(self._patience / 4):
            with self._gate:
                since, operations = self._batch
                if not since or time.monotonic() - since < self._patience:
                    continue
                self._batch = (since, [])
                waiting = [one for one in operations if isinstance(one.request, RankRequest)]
                self._given_up.extend(one.request.id for one in waiting)  # type: ignore[union-attr]
                down = self._down = StoreError("the store does not answer")
            with suppress(IndexError):
                for _ in range(len(self._queue)):
                    queued = self._queue.popleft()
                    if isinstance(queued.request, RankRequest):
                        waiting.append(queued)
                    else:
                        self._queue.append(queued)
            if waiting:
                self._refuse(waiting, down)

    # --- answers --------------------------------------------------------------------------------------------

    def _fail(self, operations: list[Operation], error: StoreError) -> None:
        """From now on answer at once, unless the store works after all."""
        self._down = error
        self._probe()
        self._refuse(operations, error)

    def _refuse(self, operations: list[Operation], error: StoreError) -> None:
        log.error("a batch of %d operations failed: %s", len(operations), error)
        self.counts.failures += 1
        self._do_without(operations, error)

    def _do_without(self, operations: Sequence[Operation], error: StoreError) -> None:
        """Answer without the store."""
        results = [self._refusal(operation.request, error) for operation in operations]
        self.counts.add(results)
        deliver(operations, results)

    def _refusal(self, request: Request, error: StoreError) -> Any:
        """What to say when nothing was done: to those who want a list, the order given."""
        return self.given_order(request) if isinstance(request, RankRequest) else error

    def given_order(self, request: RankRequest) -> Shown:
        return given_order(request, self._now, self._of_new_queries)
