"""The learners of all queries: those in memory, brought up to date, and the others from the store."""

from collections import OrderedDict
from collections.abc import Iterable

from clickbandit.live.algorithm import Algorithms
from clickbandit.live.learner import Learner
from clickbandit.live.stores.contract import QueryRow, Store
from clickbandit.live.values import StoreError


class LearnerError(Exception):
    """What was learned about a query cannot be used: its policy failed or is gone, or its log is damaged."""


class Learners:
    """Keeps in memory those that were used last, at most `max_learners` of them."""

    def __init__(self, store: Store, algorithms: Algorithms, max_learners: int) -> None:
        self._store = store
        self._algorithms = algorithms
        self._max = max_learners
        self._known: OrderedDict[int, Learner] = OrderedDict()
        self.n_loaded = 0
        """How many were read from the store."""

    def __len__(self) -> int:
        return len(self._known)

    def get(self, query: int) -> Learner | None:
        return self._known.get(query)

    def forget(self, query: int) -> None:
        """It may be half changed: it is to be made anew from the store."""
        self._known.pop(query, None)

    def clear(self) -> None:
        self._known.clear()

    def used(self, rows: Iterable[QueryRow]) -> None:
        """Keep these, and let go of those that were not used for longest."""
        for row in rows:
            if row.id in self._known:
                self._known.move_to_end(row.id)
        while len(self._known) > self._max:
            self._known.popitem(last=False)

    def at(self, row: QueryRow, pending: Iterable[bytes]) -> Learner:
        """A query's learner as of its last record; those that are not stored yet are `pending`."""
        learner = self._known.get(row.id)
        if learner is None or learner.number != row.number:
            try:
                learner = self.load(row, pending)
            except StoreError:
                raise
            except Exception as error:  # its policy is a file that is gone, say, or has another state now
                raise LearnerError(
                    f"what was learned about query {row.name!r} with {row.policy} cannot be loaded "
                    f"({type(error).__name__}: {error}): reset it"
                ) from error
            self._known[row.id] = learner
        return learner

    def blank(self, row: QueryRow) -> Learner:
        """One that knows nothing, in the place of one that cannot be loaded."""
        learner = Learner.blank(row.name, self._algorithms, row.number, row.generation)
        self._known[row.id] = learner
        return learner

    def load(self, row: QueryRow, pending: Iterable[bytes], *, whole: bool = False) -> Learner:
        """A learner as of a query's last record: what is in memory, or a snapshot, and the records after it.

        With `whole` from the beginning of the log.
        """
        learner = None if whole else self._known.get(row.id)
        if learner is not None:
            try:
                return self._replay(learner, row, pending)
            except Exception:  # it is behind by more than the log has, or a policy left it half changed
                self.forget(row.id)
        self.n_loaded += 1
        snapshot = self._store.snapshot(row.id, oldest=whole)
        if snapshot is None:
            learner = Learner(row.name, self._algorithms)
        else:
            learner = Learner.from_bytes(row.name, self._algorithms, snapshot.state)
        return self._replay(learner, row, pending)

    def _replay(self, learner: Learner, row: QueryRow, pending: Iterable[bytes]) -> Learner:
        for entry in self._store.log(row.id, learner.number):
            learner.replay(entry.records)
        for records in pending:
            learner.replay(records)
        if learner.number != row.number:
            raise LearnerError(f"the log must go to record {row.number}, found {learner.number}")
        return learner
