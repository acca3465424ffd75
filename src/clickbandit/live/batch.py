"""One batch of operations: what each means, and what all of them change.

A batch works on rows that the store has locked and on learners in memory, and collects what changed. An operation that
is wrong raises and leaves nothing behind; so does one whose policy fails, and then its learner is made anew from the
log. Nothing is acknowledged before the engine has committed all changes.
"""

import json
import logging
import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from clickbandit.errors import InputError
from clickbandit.live import records
from clickbandit.live.algorithm import Algorithms
from clickbandit.live.history import History, Look
from clickbandit.live.learner import Learner
from clickbandit.live.records import Items, Start
from clickbandit.live.requests import (
    Click,
    Clicks,
    DetailRequest,
    FlushRequest,
    FreezeRequest,
    PingRequest,
    RankRequest,
    Request,
    ResetRequest,
    SettleRequest,
    VerifyRequest,
    VoidRequest,
    arrange,
)
from clickbandit.live.store import (
    FROZEN,
    HOLDOUT,
    OUTCOMES,
    PENDING,
    POLICY,
    RULES,
    SETTLED,
    SOURCES,
    VOID,
    Changes,
    EventRow,
    ImpressionRow,
    Locked,
    LogRow,
    QueryRow,
    Snapshot,
)
from clickbandit.live.types import (
    Conflict,
    LimitReached,
    QueryDetail,
    Settlement,
    Shown,
    StoreError,
    Unknown,
    Verdict,
)
from clickbandit.live.views import holdout, summary

_LEARNING = struct.Struct("<IB")
"""Before the list and the memo of an impression: the version of the learner's items, and how many it shows."""
_SNAPSHOT_RECORDS = 256
"""A snapshot is taken after so many records at least, and if it is large after as many as it has bytes / this."""

log = logging.getLogger("clickbandit.live")
_write = json.JSONEncoder(ensure_ascii=False).encode


class LearnerError(Exception):
    """What was learned about a query cannot be used: its policy failed or is gone, or its log is damaged."""


class Rules(NamedTuple):
    """What the engine was set to."""

    window: int
    holdout: float
    grace: int
    seed: int


class Batch:
    """The rows of one transaction, and what becomes of them."""

    def __init__(
        self,
        locked: Locked,
        rules: Rules,
        now: int,
        *,
        algorithms: Algorithms,
        learners: dict[int, Learner],
        load: Callable[[QueryRow, Iterable[bytes], bool], Learner],
        known_events: set[str],
        history: Callable[[int], bytes | None],
    ) -> None:
        self.queries = locked.queries
        self.impressions = locked.impressions
        self.rules = rules
        self.now = now
        self.learners = learners
        self._algorithms = algorithms
        self._load = load
        self._by_id = {row.id: row for row in locked.queries.values()}
        self._known_events = known_events
        self._history = history
        self._dirty: dict[int, QueryRow] = {}
        self._touched: dict[str, ImpressionRow] = {}
        self._new: list[ImpressionRow] = []
        self._events: list[EventRow] = []
        self._log: dict[int, bytearray] = {}
        self._replaced: set[int] = set()
        self._frozen: set[int] = set()
        """Queries that were frozen or unfrozen."""

    def execute(self, request: Request) -> Any:
        """Do what is asked, and give the answer."""
        match request:
            case RankRequest():
                return self._rank(request)
            case Clicks(events):
                return [event if isinstance(event, Verdict) else self._click(event) for event in events]
            case SettleRequest(id):
                return self._end(id, SETTLED)
            case VoidRequest(id):
                return self._end(id, VOID)
            case FreezeRequest(query, frozen):
                return self._freeze(self._query(query), frozen)
            case ResetRequest():
                return self._reset(request)
            case DetailRequest(query):
                return self._detail(self._query(query))
            case VerifyRequest(query):
                return self._verify(self._query(query))
            case PingRequest() | FlushRequest():
                return None

    def changes(self) -> Changes:
        """All that is to be written."""
        snapshots = []
        for query in self._log:
            row, learner = self._by_id[query], self.learners.get(query)
            if learner is None:
                continue
            enough = max(_SNAPSHOT_RECORDS, learner.size // _SNAPSHOT_RECORDS)
            if row.number - row.snapshot >= enough or query in self._replaced:
                snapshots.append(Snapshot(query, row.number, learner.to_bytes(), self.now))
                row.snapshot = row.number
        histories = self._histories({snapshot.query for snapshot in snapshots})
        return Changes(
            queries=list(self._dirty.values()),
            impressions=self._new,
            touched=list(self._touched.values()),
            events=self._events,
            log=[
                LogRow(query, self._by_id[query].number, bytes(written), self.now)
                for query, written in self._log.items()
            ],
            snapshots=snapshots,
            histories=histories,
        )

    def _histories(self, to_count: set[int]) -> list[tuple[int, bytes]]:
        """The histories of queries whose items were grouped anew, or that are to be counted again."""
        histories = []
        for query in self._log.keys() | self._frozen:
            row, learner = self._by_id[query], self.learners.get(query)
            if learner is None:
                continue
            if row.number < learner.look_at and query not in to_count and query not in self._frozen:
                continue
            try:
                look = Look(row, learner, self.now)
            except Exception:  # of the policy's code that says what was learned: nothing depends on it
                log.exception("the policy %s of query %r cannot say what it learned", row.policy, row.name)
                continue
            row.progress = look.progress
            learner.look_at = row.number + _SNAPSHOT_RECORDS if look.look_at is None else look.look_at
            if query in to_count or learner.seen != look.signature:
                learner.seen = look.signature
                history = History(self._history(query))
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
        """What is learned about a query, as of the last record of this batch."""
        learner = self.learners.get(row.id)
        if learner is None or learner.number != row.number:
            try:
                learner = self._load(row, self._pending(row), False)
            except StoreError:
                raise
            except (
                Exception
            ) as error:  # its policy is a file that is gone, say, or has another state than it had
                raise LearnerError(
                    f"what was learned about query {row.name!r} with {row.policy} cannot be loaded "
                    f"({type(error).__name__}: {error}): reset it"
                ) from error
            self.learners[row.id] = learner
        return learner

    def _pending(self, row: QueryRow) -> list[bytes]:
        """The records of this batch."""
        return [bytes(self._log[row.id])] if row.id in self._log else []

    def _changed(self, row: QueryRow) -> None:
        self._dirty[row.id] = row

    def _append(self, row: QueryRow, record: bytes) -> None:
        """Add to a query's log what its learner has just done."""
        row.number += 1
        self._dirty[row.id] = row
        self._log.setdefault(row.id, bytearray()).extend(record)

    def _carefully(self, row: QueryRow, do: Callable[[], None]) -> None:
        """Run a policy's code; if it fails the learner is forgotten, and made anew from the log when it is needed."""
        try:
            do()
        except Exception as error:
            self.learners.pop(row.id, None)
            log.exception("the policy %s of query %r failed", row.policy, row.name)
            raise LearnerError(f"the policy {row.policy} failed: {type(error).__name__}: {error}") from error

    def _restructure(self, row: QueryRow, learner: Learner, record: Start | Items) -> None:
        self._carefully(row, lambda: learner.apply(record))
        self._append(row, records.text(record))
        row.items = len(learner.items)
        learner.look_at = 0
        if isinstance(record, Start):
            row.learned = row.idle = 0
            row.generation = learner.generation

    # --- rank -----------------------------------------------------------------------------------------------

    def _rank(self, request: RankRequest) -> Shown:
        impression = self.impressions.get(request.id)
        if impression is not None:
            if impression.body != request.body:
                raise Conflict(
                    f"the impression {request.id!r} exists already, for another request: use an id of its own"
                )
            return self._shown(impression)
        row = self.queries.get(request.query)
        if row is None:
            raise LimitReached(
                f"{request.query!r} would be a new query, and there are as many as there may be (most_queries)"
            )
        if request.positions is not None and request.positions != row.positions:
            raise Conflict(
                f"the query {row.name!r} has {row.positions} positions, found {request.positions}: leave positions "
                "out, or reset the query with as many"
            )
        for item, position in request.pinned.items():
            if position > row.positions:
                raise InputError(
                    f"{item!r} is pinned to position {position}, and the query {row.name!r} has {row.positions}"
                )
        source, shown, propensities, learning = self._make_list(row, request)
        impression = ImpressionRow(
            id=request.id,
            query=row.id,
            at=self.now,
            expires=self.now + (self.rules.window if row.window is None else row.window),
            source=source,
            compared=self.rules.holdout > 0,
            items=_write(shown),
            body=request.body,
            propensities=propensities,
            learning=learning,
        )
        self._new.append(impression)
        self.impressions[impression.id] = impression
        row.impressions += 1
        row.updated = self.now
        self._dirty[row.id] = row
        return self._shown(impression, shown)

    def _make_list(
        self, row: QueryRow, request: RankRequest
    ) -> tuple[int, Sequence[str], bytes | None, bytes | None]:
        """Where the list comes from, its items, its propensities, and what is to be remembered for learning."""
        items = request.items
        if self.rules.holdout > 0 and _share(request.id) < self.rules.holdout:
            return HOLDOUT, arrange(items, request, row.positions), None, None
        if not items:
            return RULES, (), None, None
        if row.frozen is not None:
            return FROZEN, arrange([*json.loads(row.frozen), *items], request, row.positions), None, None
        learner = self.learner(row)
        if learner.generation == 0:
            change: Start | Items | None = Start(
                row.policy, row.positions, row.horizon, self.rules.seed, list(items)
            )
        else:
            change = learner.plan(items, self.rules.grace)
        if change is not None:
            self._restructure(row, learner, change)
        if request.pinned or request.excluded or learner.missing:
            out = [item for item in learner.items if item in request.excluded or item in learner.missing]
            free = learner.never_shows(out) and all(
                learner.always_shows(item, position) for item, position in request.pinned.items()
            )
            if not free:
                return RULES, arrange([*learner.best(), *items], request, row.positions), None, None

        self._carefully(row, learner.rank)
        self._append(row, records.RANK)
        ranking = learner.ranking
        names = learner.items
        head = _LEARNING.pack(learner.version, len(ranking))
        return (
            POLICY,
            [names[item] for item in ranking.tolist()],
            learner.chances.tobytes() if learner.algorithm.states_chances else b"",
            head + ranking.astype("<i2").tobytes() + learner.memo.tobytes(),
        )

    def _shown(self, impression: ImpressionRow, items: Sequence[str] | None = None) -> Shown:
        row = self._by_id[impression.query]
        shown = tuple(json.loads(impression.items) if items is None else items)
        written = impression.propensities
        chances: tuple[float | None, ...]
        if written is None:
            chances = (1.0,) * len(shown)
        elif not written:
            chances = (None,) * len(shown)
        else:
            chances = tuple(
                None if chance != chance else chance for chance in np.frombuffer(written).tolist()
            )
        expires = datetime.fromtimestamp(impression.expires / 1000, UTC)
        return Shown(impression.id, row.name, shown, chances, row.policy, SOURCES[impression.source], expires)

    # --- clicks ---------------------------------------------------------------------------------------------

    def _click(self, event: Click) -> Verdict:
        if event.key in self._known_events:
            return Verdict("duplicate", event.event_id)
        impression = self.impressions.get(event.impression)
        if impression is None:
            return Verdict("unknown", event.event_id, f"there is no impression {event.impression!r}")
        shown = json.loads(impression.items)
        if event.item not in shown:
            return Verdict(
                "invalid", event.event_id, f"the impression {impression.id!r} has no item {event.item!r}"
            )
        late = impression.outcome != PENDING or self.now >= impression.expires
        self._known_events.add(event.key)
        self._events.append(EventRow(event.key, impression.id, event.item, self.now, late, event.timestamp))
        if late:
            row = self._by_id[impression.query]
            row.late += 1
            self._changed(row)
            return Verdict(
                "late", event.event_id, "the impression is void" if impression.outcome == VOID else None
            )
        bit = 1 << shown.index(event.item)
        if not impression.clicks & bit:
            impression.clicks |= bit
            self._touch(impression)
        return Verdict("accepted", event.event_id)

    # --- settle and void ------------------------------------------------------------------------------------

    def settle_due(self, id: str) -> None:
        """Settle an impression whose window is over, unless another process did."""
        impression = self.impressions.get(id)
        if impression is not None and impression.outcome == PENDING and impression.expires <= self.now:
            self._finish(impression, SETTLED)

    def disown(self, id: str) -> None:
        """Void an impression that was answered with the given order, because its commit seemed to fail."""
        impression = self.impressions.get(id)
        if impression is not None and impression.outcome == PENDING:
            self._finish(impression, VOID)

    def _end(self, id: str, outcome: int) -> Settlement:
        impression = self._impression(id)
        if impression.outcome == PENDING:
            # a void that comes after the window is too late: the impression has settled by then
            self._finish(impression, SETTLED if impression.expires <= self.now else outcome)
        if impression.outcome != outcome:
            raise Conflict(f"the impression {id!r} is {OUTCOMES[impression.outcome]} already")
        shown = json.loads(impression.items)
        clicked = tuple(item for k, item in enumerate(shown) if impression.clicks >> k & 1)
        return Settlement(id, OUTCOMES[outcome], clicked)

    def _finish(self, impression: ImpressionRow, outcome: int) -> None:
        row = self._by_id[impression.query]
        impression.outcome = outcome
        self._touch(impression)
        self._changed(row)
        learned = False
        if impression.learning is not None:
            try:
                learned = self._teach(row, impression, outcome)
            except LearnerError:
                log.exception("the impression %s is settled without learning from it", impression.id)
        if learned:
            row.learned += 1
            row.idle = 0
        elif impression.source in (POLICY, RULES):
            row.idle += 1
        if outcome == VOID:
            row.voided += 1
            return
        clicks = impression.clicks.bit_count()
        row.settled += 1
        row.clicks += clicks
        if impression.compared and impression.source == HOLDOUT:
            row.held_out += 1
            row.held_out_clicks += clicks
            row.held_out_squares += clicks * clicks
        elif impression.compared:
            row.treated += 1
            row.treated_clicks += clicks
            row.treated_squares += clicks * clicks

    def _teach(self, row: QueryRow, impression: ImpressionRow, outcome: int) -> bool:
        """Tell the policy what became of a list of its own; whether it learned from that."""
        learner = self.learner(row)
        assert impression.learning is not None
        version, n = _LEARNING.unpack_from(impression.learning)
        at = _LEARNING.size
        ranking, memo = impression.learning[at : at + 2 * n], impression.learning[at + 2 * n :]
        complete = True
        if version != learner.version:
            feedback = learner.feedback(version, ranking, memo)
            if feedback is None:
                return False
            ranking, memo, complete = feedback
        order, remembered = np.frombuffer(ranking, "<i2").astype(np.int64), np.frombuffer(memo).copy()
        if outcome == SETTLED and complete:
            clicks = records.bits(impression.clicks, n)
            self._carefully(row, lambda: learner.settle(order, clicks, remembered))
            self._append(row, records.settle(ranking, impression.clicks, memo))
            return True
        self._carefully(row, lambda: learner.void(order, remembered))
        self._append(row, records.void(ranking, memo))
        return False

    def _touch(self, impression: ImpressionRow) -> None:
        self._touched[impression.id] = impression

    # --- queries --------------------------------------------------------------------------------------------

    def _freeze(self, row: QueryRow, frozen: bool) -> Any:
        if frozen and row.frozen is None:
            row.frozen = _write(self.learner(row).best())
        elif not frozen:
            row.frozen = None
        self._frozen.add(row.id)
        self._changed(row)
        return summary(row)

    def _reset(self, request: ResetRequest) -> Any:
        row = self.queries.get(request.query)
        if row is None:
            raise LimitReached(
                f"{request.query!r} would be a new query, and there are as many as there may be (most_queries)"
            )
        row.policy, row.positions, row.horizon, row.window = request.settings
        row.frozen = None
        try:
            learner = self.learner(row)
        except LearnerError:  # what cannot be loaded is replaced, and so is the log up to here
            learner = Learner.blank(row.name, self._algorithms, row.number, row.generation)
            self.learners[row.id] = learner
            self._replaced.add(row.id)
        if row.generation > 0:
            start = Start(row.policy, row.positions, row.horizon, self.rules.seed, learner.items)
            self._restructure(row, learner, start)
        self._changed(row)
        return summary(row)

    def _detail(self, row: QueryRow) -> QueryDetail:
        learner = self.learner(row)
        return QueryDetail(
            summary=summary(row),
            items=list(learner.items),
            best=learner.best() if row.frozen is None else json.loads(row.frozen),
            learned=learner.describe(),
            generation=learner.generation,
            records=row.number,
            holdout=holdout(row),
        )

    def _verify(self, row: QueryRow) -> bool:
        """Whether the log from its beginning gives the same bytes as the learner that is in use."""
        return self._load(row, self._pending(row), True).to_bytes() == self.learner(row).to_bytes()


def _share(id: str) -> float:
    """A number from 0 to 1 that an impression's id decides, the same whenever it is asked for."""
    digest = blake2b(id.encode(), digest_size=8, person=b"holdout").digest()
    return int.from_bytes(digest, "little") / 2**64
