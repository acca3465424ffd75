"""One transaction: the rows that the store has locked, learners in memory, and all that changes.

What is done with them is in `batch`. An operation that is wrong raises and leaves nothing behind; so does one whose
policy fails, and then its learner is rebuilt from the log. Nothing is acknowledged before the engine has committed.
"""

import json
import logging
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

from clickbandit.live import records
from clickbandit.live.comparison import ComparisonTally
from clickbandit.live.history import History, LearnerReport
from clickbandit.live.learner import Learner
from clickbandit.live.learners import MAX_OFFERS, LearnerError, Learners
from clickbandit.live.records import Damaged, ItemsRecord, StartRecord
from clickbandit.live.requests import RankRequest
from clickbandit.live.settings import RankerSettings
from clickbandit.live.shared import MAX_LESSONS, Taught, as_record
from clickbandit.live.stores.contract import SLOTS, Changes, Locked, Store, slot
from clickbandit.live.stores.rows import (
    EventRow,
    ImpressionRow,
    LogRow,
    OfferRow,
    QueryRow,
    Snapshot,
    checksum,
)
from clickbandit.live.told import Told
from clickbandit.live.values import Unknown

_SNAPSHOT_RECORDS = 256
"""A snapshot is taken after this many records at least, and if it is large after as many as its bytes over this."""
_OfferKey = tuple[bytes, int, str, int, int, int]
_offer_ids: dict[_OfferKey, int] = {}
"""By what they are made of, but for the query's name, which may be long: its digest is in that of the request."""

log = logging.getLogger("clickbandit.live")


class Transaction:
    """The rows of one transaction, and what becomes of them."""

    def __init__(
        self, store: Store, locked: Locked, settings: RankerSettings, learners: Learners, now: int
    ) -> None:
        self.queries = locked.queries
        self.impressions = locked.impressions
        self.settings = settings
        self.learners = learners
        self.now = now
        self.known_events = set(locked.events)
        """Of the events that are reported, those that are stored."""
        self._store = store
        self._by_id = {row.id: row for row in locked.queries.values()}
        self._dirty: dict[int, QueryRow] = {}
        self._touched: dict[str, ImpressionRow] = {}
        self.new: list[ImpressionRow] = []
        """Impressions that are made."""
        self._events: list[EventRow] = []
        self._log: dict[int, bytes | bytearray] = {}
        self._replaced: set[int] = set()
        """Queries whose learner could not be loaded and was replaced: their log starts from a snapshot of this one."""
        self._forgotten: list[str] = []
        """Impressions that are to be deleted."""
        self._forgotten_users: list[str] = []
        self._compared = ComparisonTally()
        self._offers: dict[int, OfferRow] = {}
        self._to_look: set[int] = set()
        """Queries whose items may be regrouped."""
        self._frozen: set[int] = set()
        """Queries that were frozen or unfrozen."""
        self._to_show: list[int] = []
        """Queries that readers are to see as they are now."""

    def changes(self) -> Changes:
        """All that is to be written."""
        snapshots, by_id, now = [], self._by_id, self.now
        due = [id for id in self._log if by_id[id].number - by_id[id].snapshot >= _SNAPSHOT_RECORDS]
        for query in dict.fromkeys((*due, *self._replaced)):
            row, base = by_id[query], query in self._replaced
            learner = self.learners.get(query)
            if learner is None:
                continue
            if base or row.number - row.snapshot >= learner.size // _SNAPSHOT_RECORDS:
                state = learner.to_bytes()
                sum_ = checksum(query, row.number, state)
                snapshots.append(Snapshot(query, row.number, state, now, sum_, base))
                row.snapshot = row.number
        histories = self._histories({snapshot.query for snapshot in snapshots})
        return Changes(
            queries=list(self._dirty.values()),
            impressions=self.new,
            touched=list(self._touched.values()),
            events=self._events,
            log=[
                LogRow(query, n := by_id[query].number, added := bytes(log), now, checksum(query, n, added))
                for query, log in self._log.items()
            ],
            snapshots=snapshots,
            histories=histories,
            offers=list(self._offers.values()),
            comparisons=self._compared.rows(),
            forgotten=self._forgotten,
            forgotten_users=self._forgotten_users,
            lessons=self._lessons({snapshot.query for snapshot in snapshots}),
            shown=self._to_show,
        )

    def _lessons(self, queries: set[int]) -> list[tuple[int, bytes]]:
        """What these queries teach others, as far as their policies teach anything."""
        lessons = []
        for query in queries:
            learner = self.learners.get(query)
            if learner is None or not learner.items or learner.algorithm.teach is None:
                continue
            try:
                lesson = learner.algorithm.teach(learner.state)
            except Exception:  # of the policy's code: no query depends on it
                log.exception("the policy %s of query %r cannot teach", learner.algorithm.name, learner.query)
                continue
            told = Told() if learner.changes else learner.told  # which is by the items of the start
            written = Taught(lesson, not learner.changes, told).to_bytes()
            self.learners.shared.add(query, Taught.from_bytes(written))  # as all processes have it
            lessons.append((query, written))
        return lessons

    def start(self, row: QueryRow, items: Sequence[str], told: Told) -> StartRecord:
        """The record that a query starts with, which has what it is given to start from."""
        shared, algorithm = self.learners.shared, self.learners.algorithm(row.policy)
        if items and algorithm.policy.algorithm.prime is not None and shared.is_stale(self.now):
            shared.refresh(self._store.lessons(MAX_LESSONS), self.now)
        prior = shared.prior(algorithm, row.name, items, told) if items else None
        return StartRecord(
            row.policy,
            row.positions,
            row.horizon,
            self.settings.seed,
            list(items),
            None if prior is None else as_record(prior),
            **({} if algorithm.policy.algorithm.prime is None else told.given()),
        )

    def _histories(self, to_count: set[int]) -> list[tuple[int, bytes]]:
        """The histories of queries whose items were regrouped, or that are to be counted again."""
        histories = []
        for query in self._to_look | to_count | self._frozen:
            row, learner = self._by_id[query], self.learners.get(query)
            if learner is None:
                continue
            try:
                look = LearnerReport(row, learner, self.now)
            except Exception:  # of the policy's code that says what was learned: nothing depends on it
                log.exception("the policy %s of query %r cannot say what it learned", row.policy, row.name)
                continue
            row.progress = look.progress
            learner.look_at = row.number + _SNAPSHOT_RECORDS if look.look_at is None else look.look_at
            if query in to_count or learner.seen != look.signature:
                learner.seen = look.signature
                history = History(self._store.history(query))
                if query in to_count or not history.points:
                    history.count(row, self.now)
                if history.add(look) or query in to_count:
                    histories.append((query, history.to_bytes()))
        return histories

    # --- rows and learners ----------------------------------------------------------------------------------

    def _query(self, name: str) -> QueryRow:
        row = self.queries.get(name)
        if row is None:
            raise Unknown(f"there is no query {name!r}")
        return row

    def _impression(self, id: str) -> ImpressionRow:
        impression = self.impressions.get(id)
        if impression is None:
            raise Unknown(f"there is no impression {id!r}: it never was, or it was pruned")
        return impression

    def learner(self, row: QueryRow) -> Learner:
        """What is learned about a query, as of the last record of this transaction.

        Where nothing that is stored leads there, because it is damaged, it is what was learned until then, and the
        log starts from there.
        """
        known = self.learners.get(row.id)
        if known is not None and known.number == row.number:
            return known
        try:
            return self.learners.at(row, self._pending(row))
        except Damaged as error:
            log.error("query %r goes on from what is left of it: %s", row.name, error)
            learner = self.learners.salvage(row)
            self._replaced.add(row.id)
            self._changed(row)
            return learner

    def _pending(self, row: QueryRow) -> list[bytes]:
        """The records of this transaction."""
        return [bytes(self._log[row.id])] if row.id in self._log else []

    def _changed(self, row: QueryRow) -> None:
        self._dirty[row.id] = row

    def _append(self, row: QueryRow, learner: Learner, record: bytes) -> None:
        """Add to a query's log what its learner has just done."""
        id = row.id
        row.number += 1
        if row.number >= learner.look_at:
            self._to_look.add(id)
        self._dirty[id] = row
        known = self._log.get(id)
        if known is None:
            self._log[id] = record  # as it is: most queries have no other
        elif isinstance(known, bytearray):
            known += record
        else:
            self._log[id] = bytearray(known + record)

    def _carefully(self, row: QueryRow, do: Callable[..., None], *given: Any) -> None:
        """Run a policy's code; if it fails the learner is forgotten, and rebuilt from the log when it is needed."""
        try:
            do(*given)
        except Exception as error:
            raise self._broken(row, error) from error

    def _broken(self, row: QueryRow, error: Exception) -> LearnerError:
        self.learners.forget(row.id)
        log.exception("the policy %s of query %r failed", row.policy, row.name)
        return LearnerError(f"the policy {row.policy} failed: {type(error).__name__}: {error}")

    def _restructure(self, row: QueryRow, learner: Learner, record: StartRecord | ItemsRecord) -> None:
        if isinstance(record, ItemsRecord):
            n_items = len(learner.items) + len(record.new) - len(record.gone)
        else:
            n_items = len(record.items)
        if n_items > len(learner.items):
            self.learners.check_size(row, n_items)
        self._carefully(row, learner.apply, record)
        self.learners.resized.add(row.id)
        learner.look_at = learner.ask_at = 0
        self._append(row, learner, records.text(record))
        row.items = len(learner.items)
        if isinstance(record, StartRecord):
            row.learned = row.idle = 0
            row.generation = learner.generation

    def _offer(self, row: QueryRow, request: RankRequest) -> int:
        """What a list is chosen from: its id, whatever else the request says, and what is to be stored once."""
        chosen_with = row.policy, row.positions, row.horizon, self.settings.seed
        key = (request.offer, row.id, *chosen_with)
        id = _offer_ids.get(key)
        if id is None:
            id = _offer_id(key, row.name)
        if id not in self._offers and not self.learners.knows_offer(id, self.now):
            self._offers[id] = OfferRow(
                id,
                row.id,
                json.dumps(request.items, ensure_ascii=False),
                *chosen_with,
                self.now,
            )
        return id

    def _touch(self, impression: ImpressionRow) -> None:
        self._touched[impression.id] = impression


def _offer_id(key: _OfferKey, query: str) -> int:
    """A digest of it all, whose remainder by `SLOTS` is the slot of the query."""
    offer, *settings = key
    digest = blake2b(offer + "\0".join(map(str, settings)).encode(), digest_size=7, person=b"offer").digest()
    if len(_offer_ids) >= MAX_OFFERS:
        _offer_ids.clear()
    id = _offer_ids[key] = int.from_bytes(digest, "little", signed=True) * SLOTS + slot(query)
    return id
