"""What is asked about queries, in a transaction: to freeze or reset one, and what was learned about it."""

import json

from clickbandit.live.learners import LearnerError
from clickbandit.live.records import Damaged, StartRecord
from clickbandit.live.requests import InUse, ResetRequest, StateRequest
from clickbandit.live.stores.rows import QueryRow
from clickbandit.live.switching import past, switch
from clickbandit.live.told import Told
from clickbandit.live.transaction import Transaction
from clickbandit.live.values import LimitReached, Preview, QueryDetail, QuerySummary
from clickbandit.live.views import summary


class OfQueries(Transaction):
    """Does what is asked about queries."""

    def _made(self, name: str) -> QueryRow:
        """A query that was made for its request if there was none, unless there are too many."""
        row = self.queries.get(name)
        if row is None:
            raise LimitReached(
                f"{name!r} would be a new query, and there are as many as there may be (max_queries)"
            )
        return row

    def _freeze(self, row: QueryRow, frozen: bool) -> QuerySummary:
        if frozen and row.frozen is None:
            row.frozen = json.dumps(self.learner(row).best(), ensure_ascii=False)
        elif not frozen:
            row.frozen = None
        self._frozen.add(row.id)
        self._changed(row)
        return summary(row)

    def _reset(self, request: ResetRequest) -> QuerySummary | Preview:
        row = self._made(request.query)
        if request.replay and row.generation > 0:
            return self._switch(row, request)
        before = row.policy, row.positions, row.horizon, row.window, row.frozen
        row.policy, row.positions, row.horizon, row.window = request.settings
        row.frozen = None
        try:
            self._start_again(row)
        except BaseException:
            row.policy, row.positions, row.horizon, row.window, row.frozen = before
            raise
        self._changed(row)
        return summary(row)

    def _start_again(self, row: QueryRow) -> None:
        try:
            learner = self.learner(row)
        except LearnerError:  # what cannot be loaded is replaced, and so is the log up to here
            learner = self.learners.blank(row)
            self._replaced.add(row.id)
        if row.generation > 0:
            told = Told() if learner.changes else learner.told
            self._restructure(row, learner, self.start(row, learner.items, told))

    def _switch(self, row: QueryRow, request: ResetRequest) -> QuerySummary | Preview:
        """Put another learner in the place of one, or say what that would show; all of it or nothing."""
        learner = self.learner(row)
        policy, positions, horizon, _ = request.settings
        start = StartRecord(policy, positions, horizon, self.settings.seed, learner.items)
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
            self._append(row, made.learner, record)
        return summary(row)

    def _detail(self, row: QueryRow) -> QueryDetail:
        learner = self.learner(row)
        self._to_show.append(row.id)
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
        self._to_show.append(row.id)
        return InUse(row.id, row.number, learner.to_bytes(), row.id not in self._replaced)
