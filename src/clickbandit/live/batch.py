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
from clickbandit.live.of_queries import OfQueries
from clickbandit.live.records import Damaged, Items, Start
from clickbandit.live.requests import (
    Click,
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
from clickbandit.live.rewards import CLICK, added
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
from clickbandit.live.values import Conflict, Settlement, Shown, Verdict

log = logging.getLogger("clickbandit.live")
_write = json.JSONEncoder(ensure_ascii=False).encode
_read = json.JSONDecoder().raw_decode
"""What was written that way, without the looks around it that `json.loads` takes."""


class Batch(OfQueries):
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

        self._carefully(row, learner.rank, self.settings.propensity_draws)
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
        shown, _ = _read(impression.items)
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

    def _earn(self, impression: ImpressionRow, more: dict[int, float]) -> None:
        """Add to what an impression earned, by position."""
        before = None if impression.rewards is None else json.loads(impression.rewards)
        n_items = len(json.loads(impression.items))
        impression.rewards = json.dumps(added(before, n_items, more))
        self._touch(impression)

    # --- settle and void ------------------------------------------------------------------------------------

    def settle_due(self, id: str) -> None:
        """Settle an impression whose window is over, unless another process did."""
        impression = self.impressions.get(id)
        if impression is None or impression.outcome != PENDING or impression.expires > self.now:
            return
        if not self._await_conversions(impression):
            self._finish(impression, SETTLED)

    def disown(self, id: str) -> None:
        """Void an impression that was answered with the given order, because its commit seemed to fail."""
        impression = self.impressions.get(id)
        if impression is not None and impression.outcome == PENDING:
            self._finish(impression, VOID)

    def _end(self, id: str, outcome: int) -> Settlement:
        impression = self._impression(id)
        self.settle_due(id)  # a void that comes after the window is too late
        if impression.outcome == PENDING and (outcome == SETTLED or impression.reward is None):
            self._finish(impression, outcome)
        if impression.outcome != outcome:
            found = SETTLED if impression.outcome == PENDING else impression.outcome
            raise Conflict(f"the impression {id!r} is {OUTCOMES[found]} already")
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
            if impression.source == POLICY:
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
        if impression.learning is not None or impression.source != POLICY:  # else it was, from its clicks
            self._learn(row, impression)
        if outcome == VOID:
            row.voided += 1
            return
        row.settled += 1
        row.clicks += impression.clicks.bit_count()
        row.reward += self._count_reward(impression)
        self._compared.add(impression)

    def _await_conversions(self, impression: ImpressionRow) -> bool:
        """Whether an impression whose clicks are over has time left for other events; if it is about clicks, it is
        learned from now."""
        worth, conversion = self.settings.worth, self.settings.conversion_ms
        if worth is None or conversion is None or self.now >= impression.at + conversion:
            return False
        row = self._by_id[impression.query]
        impression.reward = worth.click * impression.clicks.bit_count()
        impression.expires = impression.at + conversion
        self._touch(impression)
        if impression.learning is not None and worth.is_about_clicks(impression.id):
            self._learn(row, impression)
            impression.learning = None
            self._changed(row)
        return True

    def _count_reward(self, impression: ImpressionRow) -> float:
        """What a settled impression earned in all, also if rewards were set only when it was shown."""
        n_clicks, worth = impression.clicks.bit_count(), self.settings.worth
        click = 1.0 if worth is None else worth.click
        if worth is None and impression.reward is None and impression.rewards is None:
            return n_clicks
        if worth is None and impression.reward is not None and n_clicks:
            click = impression.reward / n_clicks
        if n_clicks and click:
            clicked = (k for k in range(impression.clicks.bit_length()) if impression.clicks >> k & 1)
            self._earn(impression, dict.fromkeys(clicked, click))
        impression.reward = sum(json.loads(impression.rewards or "[]"))
        return impression.reward

    def _learn(self, row: QueryRow, impression: ImpressionRow) -> None:
        """Learn from an impression, if there is something to learn, and count that."""
        learned = False
        if impression.learning is not None:
            try:
                learned = self._teach(row, impression)
            except LearnerError:
                log.exception("the impression %s is settled without learning from it", impression.id)
            except Damaged as error:
                self.learners.found_damage(row.name, error)
        if learned:
            row.learned += 1
            row.idle = 0
        elif impression.source in (POLICY, RULES):
            row.idle += 1

    def _feedback(self, impression: ImpressionRow) -> int:
        """What a policy is told of a list: a bit for each position."""
        worth = self.settings.worth
        if worth is None or worth.is_about_clicks(impression.id):
            return impression.clicks
        if impression.rewards is None:
            return 0
        return worth.draw(impression.id, json.loads(impression.items), json.loads(impression.rewards))

    def _teach(self, row: QueryRow, impression: ImpressionRow) -> bool:
        """Tell the policy what became of a list of its own; whether it learned from that."""
        learner = self.learner(row)
        assert impression.learning is not None
        version, ranking, memo = learning.read(impression.learning)
        complete = True
        if version != learner.version:
            renumbered = learner.feedback(version, ranking, memo)
            if renumbered is None:
                return False
            ranking, memo, complete = renumbered
        order, remembered = np.frombuffer(ranking, "<i2").astype(np.int64), np.frombuffer(memo).copy()
        learner.check(order, remembered, complete=complete)
        if impression.outcome != VOID and complete:
            feedback = self._feedback(impression)
            clicks = records.bits(feedback, len(order))
            self._carefully(row, learner.settle, order, clicks, remembered)
            self._append(row, records.settle(ranking, feedback, memo))
            return True
        self._carefully(row, learner.void, order, remembered)
        self._append(row, records.void(ranking, memo))
        return False


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
