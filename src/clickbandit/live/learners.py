"""The learners of all queries: those in memory, brought up to date, and the others from the store."""

import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress

from clickbandit.live.algorithm import Algorithms, LiveAlgorithm
from clickbandit.live.learner import Learner
from clickbandit.live.records import Damaged
from clickbandit.live.settings import RankerSettings
from clickbandit.live.shared import Shared
from clickbandit.live.stores.contract import Changes, Store
from clickbandit.live.stores.rows import DAY, LogRow, QueryRow, Snapshot, checksum
from clickbandit.live.values import StoreError

_OVERHEAD = 8000
"""Bytes of a learner besides its state, about."""
MAX_OFFERS = 50_000
_SHARE = 8
"""This many of the largest learners must fit in memory."""

log = logging.getLogger("clickbandit.live")


class LearnerError(Exception):
    """What was learned about a query cannot be used: its policy failed or is gone."""


class Learners:
    """An LRU cache of learners, limited by number and bytes."""

    def __init__(self, store: Store, algorithms: Algorithms, settings: RankerSettings) -> None:
        self._store = store
        self.algorithms = algorithms
        self._max = settings.learners
        self._max_bytes = settings.memory * 2**20
        self.shared = Shared(settings, self._max_bytes // _SHARE)
        self._known: OrderedDict[int, Learner] = OrderedDict()
        self._offers: dict[int, int] = {}
        """When offers were last stored."""
        self._n_bytes = 0
        self.resized: set[int] = set()
        """Queries whose learners may take more or less than was counted."""
        self.n_loaded = 0
        """How many were read from the store."""
        self.n_damaged = 0
        """How many snapshots and logs were found damaged."""

    @property
    def n_bytes(self) -> int:
        """About how many all these take, and what they taught."""
        return self._n_bytes + self.shared.n_bytes

    def knows_offer(self, id: int, now: int) -> bool:
        """Whether an offer is stored, and was in use so short a time ago that it need not be said again."""
        return self._offers.get(id, -DAY) > now - DAY // 2

    def stored(self, changes: Changes) -> None:
        """These are committed."""
        if len(self._offers) > MAX_OFFERS:
            self._offers.clear()
        for offer in changes.offers:
            self._offers[offer.id] = offer.at

    def deleted(self, query: int) -> None:
        """Another may get its id."""
        self.forget(query)
        self._offers.clear()

    def __len__(self) -> int:
        return len(self._known)

    def algorithm(self, policy: str) -> LiveAlgorithm:
        return self.algorithms.add(policy)

    def get(self, query: int) -> Learner | None:
        return self._known.get(query)

    def forget(self, query: int) -> None:
        """Drop it: it may be half updated and must be rebuilt from the store."""
        learner = self._known.pop(query, None)
        if learner is not None:
            self._n_bytes -= learner.counted

    def clear(self) -> None:
        self.forget_all(list(self._known))

    def forget_all(self, queries: Iterable[int]) -> None:
        for query in queries:
            self.forget(query)

    def check_size(self, row: QueryRow, n_items: int) -> None:
        """Refuse items that would make a query's state so large that few of them could be kept."""
        size = self.algorithms.add(row.policy).size(n_items, min(row.positions, n_items), row.horizon)
        most = self._max_bytes // _SHARE
        if size > most:
            raise LearnerError(
                f"what {row.policy} learns about {n_items:,} items takes {size / 2**20:,.1f} MiB, and the most for "
                f"query {row.name!r} is {most / 2**20:,.1f}: choose another policy, give fewer items, or more memory"
            )

    def used(self, rows: Iterable[QueryRow]) -> None:
        """Note these as used, once the cache is half full, and evict the least recently used beyond its limits."""
        known = self._known
        if len(known) > self._max // 2 or self.n_bytes > self._max_bytes // 2:
            for row in rows:
                if row.id in known:
                    known.move_to_end(row.id)
        for query in self.resized:
            learner = known.get(query)
            if learner is not None:
                size = learner.footprint + _OVERHEAD
                self._n_bytes += size - learner.counted
                learner.counted = size
        self.resized.clear()
        while self._known and (len(self._known) > self._max or self.n_bytes > self._max_bytes):
            self.forget(next(iter(self._known)))

    def at(self, row: QueryRow, pending: Iterable[bytes]) -> Learner:
        """A query's learner as of its last record; those that are not stored yet are `pending`."""
        learner = self._known.get(row.id)
        if learner is None or learner.number != row.number:
            try:
                learner = self.load(row, pending)
            except (StoreError, Damaged):
                raise
            except Exception as error:  # its policy is a file that is gone, say, or has another state now
                raise LearnerError(
                    f"what was learned about query {row.name!r} with {row.policy} cannot be loaded "
                    f"({type(error).__name__}: {error}): reset it"
                ) from error
            self.put(row, learner)
        return learner

    def blank(self, row: QueryRow) -> Learner:
        """One that knows nothing, in the place of one that cannot be loaded."""
        learner = Learner.blank(row.name, self.algorithms.add(row.policy), self.algorithms)
        learner.take_over(row.number, row.generation)
        self.put(row, learner)
        return learner

    def load(self, row: QueryRow, pending: Iterable[bytes]) -> Learner:
        """A learner as of a query's last record: what is in memory, or else a snapshot, and the records after it.

        Where the last snapshot is damaged, or what comes after it, the one before it is next.
        """
        learner = self._known.get(row.id)
        if learner is not None:
            try:
                return self._replay(learner, row, pending)
            except Exception:  # it is behind by more than the log has, or a policy left it half changed
                self.forget(row.id)
        self.n_loaded += 1
        damage: Damaged | None = None
        for snapshot in self._starts(row):
            try:
                learner = restore(row.name, self.algorithms, snapshot)
                return self._replay(learner, row, pending)
            except Damaged as error:
                self.found_damage(row.name, error)
                damage = damage or error
        assert damage is not None
        raise damage

    def salvage(self, row: QueryRow) -> Learner:
        """What was learned before the damage, in the place of a learner that cannot be loaded."""
        best = Learner(row.name, self.algorithms)
        for snapshot in self._starts(row):
            learner = Learner(row.name, self.algorithms)
            with suppress(Damaged):
                learner = restore(row.name, self.algorithms, snapshot)
                for entry in self._store.log(row.id, learner.number):
                    replay(learner, entry)
            if learner.number > best.number:
                best = learner
        if not best.items or (best.algorithm.name, best.positions, best.horizon) != (
            row.policy,
            row.positions,
            row.horizon,
        ):
            return self.blank(row)
        best.take_over(row.number, row.generation)
        self.put(row, best)
        return best

    def put(self, row: QueryRow, learner: Learner) -> None:
        """Have this one from now on."""
        before = self._known.get(row.id)
        if before is not None:
            learner.counted = before.counted
        self._known[row.id] = learner
        self.resized.add(row.id)

    def found_damage(self, query: str, error: Exception) -> None:
        self.n_damaged += 1
        log.error("what is stored of query %r is damaged: %s", query, error)

    def _starts(self, row: QueryRow) -> Iterator[Snapshot | None]:
        """The snapshots of a query, the latest first, and then none: the log from its beginning."""
        snapshot = self._store.snapshot(row.id)
        while snapshot is not None:
            yield snapshot
            snapshot = self._store.snapshot(row.id, before=snapshot.number)
        yield None

    def _replay(self, learner: Learner, row: QueryRow, pending: Iterable[bytes]) -> Learner:
        for entry in self._store.log(row.id, learner.number):
            replay(learner, entry)
        for records in pending:
            learner.replay(records)
        if learner.number != row.number:
            raise Damaged(f"the log must go to record {row.number}, found {learner.number}")
        return learner


def restore(query: str, algorithms: Algorithms, snapshot: Snapshot | None) -> Learner:
    """A learner from a snapshot that is sound, or one that knows nothing yet."""
    if snapshot is None:
        return Learner(query, algorithms)
    check_sound(snapshot, snapshot.state)
    learner = Learner.from_bytes(query, algorithms, snapshot.state)
    if learner.number != snapshot.number:
        raise Damaged(f"the snapshot after record {snapshot.number} is one after record {learner.number}")
    return learner


def replay(learner: Learner, entry: LogRow, until: int | None = None) -> None:
    """Do what a row of the log says, if it is sound and the next one."""
    check_sound(entry, entry.records)
    learner.replay(entry.records, entry.number, until)


def check_sound(row: Snapshot | LogRow, written: bytes) -> None:
    """A `Damaged` if this is not what was written."""
    if row.checksum is not None and row.checksum != checksum(row.query, row.number, written):
        kind = "snapshot after" if isinstance(row, Snapshot) else "row of the log up to"
        raise Damaged(f"the {kind} record {row.number} is not what was written")
