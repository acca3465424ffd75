"""How impressions end: what is learned from them, and what they earned."""

import json
import logging
from collections.abc import Iterable
from contextlib import suppress

import numpy as np

from clickbandit.live import learning, records
from clickbandit.live.learners import LearnerError
from clickbandit.live.of_queries import OfQueries
from clickbandit.live.records import Damaged
from clickbandit.live.rewards import added
from clickbandit.live.stores.rows import (
    OUTCOMES,
    PENDING,
    POLICY,
    RULES,
    SETTLED,
    VOID,
    ImpressionRow,
    QueryRow,
)
from clickbandit.live.strays import Stray
from clickbandit.live.values import Conflict, Settlement

log = logging.getLogger("clickbandit.live")


class Settling(OfQueries):
    """Settles impressions, and voids them."""

    def settle_due(self, id: str) -> None:
        """Settle an impression whose window is over, unless another process did."""
        impression = self.impressions.get(id)
        if impression is None or impression.outcome != PENDING or impression.expires > self.now:
            return
        if not self._await_conversions(impression):
            self._finish(impression, SETTLED)

    def disown(self, strays: Iterable[Stray]) -> None:
        """Void impressions that nobody saw, since they seemed not to be stored and were answered with another list."""
        for id, since, _ in strays:
            impression = self.impressions.get(id)
            if impression is not None and impression.outcome == PENDING and impression.at >= since:
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

    def _earn(self, impression: ImpressionRow, more: dict[int, float]) -> None:
        """Add to what an impression earned, by position."""
        before = None if impression.rewards is None else json.loads(impression.rewards)
        n_items = len(json.loads(impression.items))
        impression.rewards = json.dumps(added(before, n_items, more))
        self._touch(impression)

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
        assert impression.learning is not None
        learner = self.learner(row)
        if impression.numbers is learner.numbers and impression.outcome != VOID:
            clicked, kept = self._feedback(impression), learning.content(impression.learning)
            try:
                learner.settle_own(kept, clicked)
            except Exception as error:
                raise self._broken(row, error) from error
            record = records.settle_both(kept, len(learner.ranking), len(learner.memo), clicked)
            self._append(row, learner, record)
            return True
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
            self._append(row, learner, records.settle(ranking, feedback, memo))
            return True
        self._carefully(row, learner.void, order, remembered)
        self._append(row, learner, records.void(ranking, memo))
        return False
