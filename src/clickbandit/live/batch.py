"""One batch of operations: what each of them means."""

import json
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import numpy as np

from clickbandit.errors import InputError
from clickbandit.live import learning, records
from clickbandit.live.chances import read_chances, write_chances
from clickbandit.live.comparison import compared, is_held_out
from clickbandit.live.learners import LearnerError
from clickbandit.live.records import Damaged, Items, Start
from clickbandit.live.requests import (
    Click,
    Clicks,
    DeleteRequest,
    DetailRequest,
    ForgetRequest,
    FreezeRequest,
    InUse,
    QuerySettings,
    RankRequest,
    Request,
    ResetRequest,
    SettleRequest,
    StateRequest,
    VoidRequest,
    arrange,
)
from clickbandit.live.stores.contract import (
    FROZEN,
    HOLDOUT,
    OUTCOMES,
    PENDING,
    POLICY,
    RULES,
    SETTLED,
    SOURCES,
    VOID,
    EventRow,
    ImpressionRow,
    NewQuery,
    QueryRow,
)
from clickbandit.live.switching import past, switch
from clickbandit.live.told import Told
from clickbandit.live.transaction import Transaction
from clickbandit.live.values import (
    Conflict,
    LimitReached,
    Preview,
    QueryDetail,
    QuerySummary,
    Settlement,
    Shown,
    Verdict,
)
from clickbandit.live.views import summary

log = logging.getLogger("clickbandit.live")
_write = json.JSONEncoder(ensure_ascii=False).encode


class Batch(Transaction):
    """Does what is asked, one operation after another."""

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
            case StateRequest():
                return self._state(request)
            case DeleteRequest(query):  # the engine does it, in a transaction of its own
                return self._query(query).impressions
            case ForgetRequest(user):
                return self._forget(user)
            case _:
                return None

    # --- rank -----------------------------------------------------------------------------------------------

    def _rank(self, request: RankRequest) -> Shown:
        impression = self.impressions.get(request.id)
        if impression is not None:
            if impression.body != request.body:
                raise Conflict(
                    f"the impression {request.id!r} exists already, for another request: use an id of its own"
                )
            return self._shown(impression)
        row = self._made(request.query)
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
        source, shown, propensities, to_learn, written = self._make_list(row, request)
        share, unit = compared(self.settings, request.user)
        impression = ImpressionRow(
            id=request.id,
            query=row.id,
            at=self.now,
            expires=self.now + (self.settings.window_ms if row.window is None else row.window),
            source=source,
            items=written or _write(shown),
            body=request.body,
            propensities=propensities,
            learning=to_learn,
            user=request.user,
            share=share,
            unit=unit,
            offer=self._offer(row, request),
        )
        self.new.append(impression)
        self.impressions[impression.id] = impression
        row.impressions += 1
        row.updated = self.now
        self._dirty[row.id] = row
        return self._shown(impression, shown)

    def _made(self, name: str) -> QueryRow:
        """A query that was made for its request if there was none, unless there are too many."""
        row = self.queries.get(name)
        if row is None:
            raise LimitReached(
                f"{name!r} would be a new query, and there are as many as there may be (max_queries)"
            )
        return row

    def _make_list(
        self, row: QueryRow, request: RankRequest
    ) -> tuple[int, Sequence[str], bytes | None, bytes | None, str]:
        """Where the list comes from, its items, its propensities, what is to be remembered for learning, and if it is
        at hand the items as JSON."""
        items = request.items
        if is_held_out(self.settings, request.id, request.user):
            return HOLDOUT, arrange(items, request, row.positions), None, None, ""
        if not items:
            return RULES, (), None, None, ""
        if row.frozen is not None:
            shown = arrange([*json.loads(row.frozen), *items], request, row.positions)
            return FROZEN, shown, None, None, ""
        learner = self.learner(row)
        if not learner.items:
            change: Start | Items | None = self.start(row, items, request.told)
        else:
            change = learner.plan(items, self.settings.grace)
            if isinstance(change, Start):
                change = self.start(row, items, request.told)
            elif change is not None and change.new and learner.algorithm.expect is not None:
                expected = self.learners.shared.expected(change.new, items, request.told)
                change = change._replace(expected=expected)
        if change is not None:
            self._restructure(row, learner, change)
        if request.pinned or request.excluded or learner.missing:
            out = [item for item in learner.items if item in request.excluded or item in learner.missing]
            free = learner.never_shows(out) and all(
                learner.always_shows(item, position) for item, position in request.pinned.items()
            )
            if not free:
                shown = arrange([*learner.best(), *items], request, row.positions)
                return RULES, shown, None, None, ""

        self._carefully(row, lambda: learner.rank(self.settings.propensity_draws))
        self._append(row, records.RANK)
        ranking, names, written = learner.ranking.tolist(), learner.items, learner.written
        return (
            POLICY,
            [names[item] for item in ranking],
            write_chances(learner),
            learning.write(learner.version, learner.ranking.astype("<i2").tobytes(), learner.memo.tobytes()),
            f"[{', '.join([written[item] for item in ranking])}]",
        )

    def _shown(self, impression: ImpressionRow, items: Sequence[str] | None = None) -> Shown:
        row = self._by_id[impression.query]
        shown = tuple(json.loads(impression.items) if items is None else items)
        chances, errors = read_chances(impression.propensities, len(shown))
        source, expires = SOURCES[impression.source], datetime.fromtimestamp(impression.expires / 1000, UTC)
        return Shown(impression.id, row.name, shown, chances, row.policy, source, expires, errors)

    # --- clicks ---------------------------------------------------------------------------------------------

    def _click(self, event: Click) -> Verdict:
        if event.key in self.known_events:
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
        self.known_events.add(event.key)
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

    def _forget(self, user: str) -> int:
        """Delete what is known of a user's impressions; how many these were.

        The log has their lists and clicks too: it now starts from what was learned until here.
        """
        found = [impression for impression in self.impressions.values() if impression.user == user]
        for impression in found:
            if impression.outcome == PENDING:
                self._finish(impression, VOID)
            if impression.learning is not None:
                row = self._by_id[impression.query]
                with suppress(LearnerError):  # there is nothing then that could be kept
                    self.learner(row)
                    self._replaced.add(row.id)
                    self._changed(row)
            self._forgotten.append(impression.id)
        self._forgotten_users.append(user)
        return len(found)

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
            except Damaged as error:
                self.learners.found_damage(row.name, error)
        if learned:
            row.learned += 1
            row.idle = 0
        elif impression.source in (POLICY, RULES):
            row.idle += 1
        if outcome == VOID:
            row.voided += 1
            return
        row.settled += 1
        row.clicks += impression.clicks.bit_count()
        self._compared.add(impression)

    def _teach(self, row: QueryRow, impression: ImpressionRow, outcome: int) -> bool:
        """Tell the policy what became of a list of its own; whether it learned from that."""
        learner = self.learner(row)
        assert impression.learning is not None
        version, ranking, memo = learning.read(impression.learning)
        complete = True
        if version != learner.version:
            feedback = learner.feedback(version, ranking, memo)
            if feedback is None:
                return False
            ranking, memo, complete = feedback
        order, remembered = np.frombuffer(ranking, "<i2").astype(np.int64), np.frombuffer(memo).copy()
        learner.check(order, remembered, complete=complete)
        if outcome == SETTLED and complete:
            clicks = records.bits(impression.clicks, len(order))
            self._carefully(row, lambda: learner.settle(order, clicks, remembered))
            self._append(row, records.settle(ranking, impression.clicks, memo))
            return True
        self._carefully(row, lambda: learner.void(order, remembered))
        self._append(row, records.void(ranking, memo))
        return False

    # --- queries --------------------------------------------------------------------------------------------

    def _freeze(self, row: QueryRow, frozen: bool) -> QuerySummary:
        if frozen and row.frozen is None:
            row.frozen = _write(self.learner(row).best())
        elif not frozen:
            row.frozen = None
        self._frozen.add(row.id)
        self._changed(row)
        return summary(row)

    def _reset(self, request: ResetRequest) -> QuerySummary | Preview:
        row = self._made(request.query)
        if request.replay and row.generation > 0:
            return self._switch(row, request)
        row.policy, row.positions, row.horizon, row.window = request.settings
        row.frozen = None
        try:
            learner = self.learner(row)
        except LearnerError:  # what cannot be loaded is replaced, and so is the log up to here
            learner = self.learners.blank(row)
            self._replaced.add(row.id)
        if row.generation > 0:
            told = Told() if learner.changes else learner.told
            self._restructure(row, learner, self.start(row, learner.items, told))
        self._changed(row)
        return summary(row)

    def _switch(self, row: QueryRow, request: ResetRequest) -> QuerySummary | Preview:
        """Put another learner in the place of one, or say what that would show; all of it or nothing."""
        learner = self.learner(row)
        policy, positions, horizon, _ = request.settings
        start = Start(policy, positions, horizon, self.settings.seed, learner.items)
        try:
            made = switch(learner, start, past(self._store, row, self.learners.algorithms))
        except Damaged as error:
            raise LearnerError(f"the log of query {row.name!r} is damaged: {error}") from error
        if request.preview:
            return Preview(policy, made.learner.best(), made.learned, made.of)
        row.policy, row.positions, row.horizon, row.window = request.settings
        row.frozen, row.learned, row.idle, row.generation = None, made.learned, 0, made.learner.generation
        self.learners.put(row, made.learner)
        for record in made.records:
            self._append(row, record)
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
        )

    def _state(self, request: StateRequest) -> InUse | None:
        row = self._query(request.query)
        if request.in_memory and self.learners.get(row.id) is None:
            return None
        learner = self.learner(row)
        return InUse(row.id, row.number, learner.to_bytes(), row.id not in self._replaced)


def new_queries(requests: Iterable[Request], defaults: QuerySettings, now: int) -> list[NewQuery]:
    """The queries that these requests are about, should they be new."""
    new = {}
    for request in requests:
        if isinstance(request, RankRequest):
            positions = request.positions or defaults.positions
            new[request.query] = NewQuery(
                request.query, defaults.policy, positions, defaults.horizon, None, now
            )
        elif isinstance(request, ResetRequest):
            new[request.query] = NewQuery(request.query, *request.settings, now)
    return list(new.values())
