"""One batch of operations: what each of them means."""

import json
import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from clickbandit.errors import InputError
from clickbandit.live import records
from clickbandit.live.chances import StatedChances, last_chances, read_chances, write_chances
from clickbandit.live.comparison import compared, is_held_out
from clickbandit.live.learner import Learner
from clickbandit.live.records import ItemsRecord, StartRecord
from clickbandit.live.requests import (
    ClickRequest,
    Clicks,
    DeleteRequest,
    DetailRequest,
    ForgetRequest,
    FreezeRequest,
    QuerySettings,
    RankRequest,
    Request,
    ResetRequest,
    SettleRequest,
    StateRequest,
    VoidRequest,
    arrange,
)
from clickbandit.live.rewards import CLICK
from clickbandit.live.settling import Settling
from clickbandit.live.stores.rows import (
    FROZEN,
    HOLDOUT,
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
from clickbandit.live.values import Conflict, Shown, Verdict

log = logging.getLogger("clickbandit.live")
_write = json.JSONEncoder(ensure_ascii=False).encode


@lru_cache(256)
def _moment(at: int) -> datetime:
    """Milliseconds since 1970 as a time; most lists of a transaction have the same."""
    return datetime.fromtimestamp(at / 1000, UTC)


class Batch(Settling):
    """Does what is asked, one operation after another."""

    def execute(self, request: Request) -> Any:
        """Do what is asked, and give the answer."""
        kind = type(request)  # of most, and `match` looks at them for longer
        if kind is RankRequest:
            return self._rank(request)  # type: ignore[arg-type]
        if kind is Clicks:
            return [event if isinstance(event, Verdict) else self._click(event) for event in request.events]  # type: ignore[union-attr]
        match request:
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
        query, _, positions, id, _, pinned, _, _, body, user, _ = request
        known = self.impressions.get(id)
        if known is not None:
            return self._repeat(known, request)
        row = self._made(query)
        if positions is not None and positions != row.positions:
            raise Conflict(
                f"the query {row.name!r} has {row.positions} positions, found {positions}: leave positions "
                "out, or reset the query with as many"
            )
        for item, position in pinned.items():
            if position > row.positions:
                raise InputError(
                    f"{item!r} is pinned to position {position}, and the query {row.name!r} has {row.positions}"
                )
        settings, now = self.settings, self.now
        source, names, learner = self._choose(row, request)
        numbers = kept = None
        if learner is None:
            written, stored, chances = _write(names), None, read_chances(None, len(names))
        else:
            names, written, kept = learner.last_list()
            numbers, stored, chances = learner.numbers, write_chances(learner), last_chances(learner)
        expires = now + (settings.window_ms if row.window is None else row.window)
        impression = ImpressionRow(id, row.id, now, expires, source, written, body, stored, kept)
        impression.names, impression.numbers, impression.user = names, numbers, user
        if settings.holdout:
            impression.share, impression.unit = compared(settings, user)
        impression.offer = self._offer(row, request)
        self.new.append(impression)
        self.impressions[id] = impression
        row.impressions += 1
        row.updated = now
        self._dirty[row.id] = row
        return self._shown(impression, row, names, chances)

    def _repeat(self, impression: ImpressionRow, request: RankRequest) -> Shown:
        """The list that there is, for a request that has its id."""
        if impression.body != request.body:
            raise Conflict(
                f"the impression {request.id!r} exists already, for another request: use an id of its own"
            )
        names = json.loads(impression.items)
        chances = read_chances(impression.propensities, len(names))
        return self._shown(impression, self._by_id[impression.query], names, chances)

    def _choose(self, row: QueryRow, request: RankRequest) -> tuple[int, Sequence[str], Learner | None]:
        """Where the list comes from, and its items, or whose last list it is if it is one to learn from."""
        items = request.items
        if self.settings.holdout and is_held_out(self.settings, request.id, request.user):
            return HOLDOUT, arrange(items, request, row.positions), None
        if not items:
            return RULES, [], None
        if row.frozen is not None:
            return FROZEN, arrange([*json.loads(row.frozen), *items], request, row.positions), None
        learner = self.learner(row)
        if learner.offer != request.offer:
            self._adapt(row, learner, request)
        if request.pinned or request.excluded or learner.missing:
            out = [item for item in learner.items if item in request.excluded or item in learner.missing]
            free = learner.never_shows(out) and all(
                learner.always_shows(item, position) for item, position in request.pinned.items()
            )
            if not free:
                return RULES, arrange([*learner.best(), *items], request, row.positions), None
        try:
            learner.rank(self.settings.propensity_draws)
        except Exception as error:
            raise self._broken(row, error) from error
        self._append(row, learner, records.RANK)
        return POLICY, (), learner

    def _adapt(self, row: QueryRow, learner: Learner, request: RankRequest) -> None:
        """Start a learner, or change its items, if those of a request ask for it."""
        items = request.items
        if not learner.items:
            change: StartRecord | ItemsRecord | None = self.start(row, items, request.told)
        else:
            change = learner.plan(items, self.settings.grace)
            if isinstance(change, StartRecord):
                change = self.start(row, items, request.told)
            elif change is not None and change.new and learner.algorithm.expect is not None:
                expected = self.learners.shared.expected(change.new, items, request.told)
                change = change._replace(expected=expected)
        if change is not None:
            self._restructure(row, learner, change)
        elif not learner.missing:
            learner.offer = request.offer

    def _shown(
        self, impression: ImpressionRow, row: QueryRow, names: Sequence[str], chances: StatedChances
    ) -> Shown:
        return Shown(
            impression.id,
            row.name,
            tuple(names),
            chances[0],
            row.policy,
            SOURCES[impression.source],
            _moment(impression.expires),
            chances[1],
        )

    # --- clicks ---------------------------------------------------------------------------------------------

    def _click(self, event: ClickRequest) -> Verdict:
        if event.key in self.known_events:
            return Verdict("duplicate", event.event_id)
        worth = self.settings.worth
        if event.action != CLICK and (worth is None or event.action not in worth.worth):
            known = "none are set" if worth is None else ", ".join(worth.worth)
            return Verdict(
                "invalid",
                event.event_id,
                f"action must be click or one of the rewards ({known}), found {event.action!r}",
            )
        impression = self.impressions.get(event.impression)
        if impression is None:
            return Verdict("unknown", event.event_id, f"there is no impression {event.impression!r}")
        shown = impression.names
        if shown is None:
            shown = impression.names = json.loads(impression.items)
        if event.item not in shown:
            return Verdict(
                "invalid", event.event_id, f"the impression {impression.id!r} has no item {event.item!r}"
            )
        late = self._is_late(impression, event.action)
        earned = worth.of(event.action, event.amount) if worth is not None else None
        self.known_events.add(event.key)
        self._events.append(
            EventRow(event.key, impression.id, event.item, self.now, late, event.timestamp, earned)
        )
        if late:
            row = self._by_id[impression.query]
            row.late += 1
            self._changed(row)
            return Verdict(
                "late", event.event_id, "the impression is void" if impression.outcome == VOID else None
            )
        place = shown.index(event.item)
        if event.action != CLICK:
            self._earn(impression, {place: earned or 0.0})
        elif not impression.clicks >> place & 1:
            impression.clicks |= 1 << place
            self._touch(impression)
        return Verdict("accepted", event.event_id)

    def _is_late(self, impression: ImpressionRow, action: str) -> bool:
        if impression.outcome != PENDING:
            return True
        until = impression.expires
        if action == CLICK and impression.reward is not None:
            return True
        if action != CLICK:
            until = max(until, impression.at + (self.settings.conversion_ms or 0))
        return self.now >= until


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
