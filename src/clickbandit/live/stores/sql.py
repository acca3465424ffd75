"""What stores in a database share: their statements, written once for SQLite and PostgreSQL.

Values stand as `?`. Where the two differ, a `Database` says how it has it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, ClassVar

from clickbandit.live.stores.contract import Changes, Locked
from clickbandit.live.stores.database import Database, Insertion, columns, insert
from clickbandit.live.stores.reading import Decision
from clickbandit.live.stores.rows import (
    COMPARISON_KEY,
    DAY,
    IMPRESSION_COLUMNS,
    PENDING,
    QUERY_COLUMNS,
    SETTLED,
    WEEK,
    ComparisonRow,
    EventRow,
    ImpressionRow,
    LogRow,
    OfferRow,
    QueryRow,
    Snapshot,
)
from clickbandit.live.stores.sql_reader import DECISION, LOG, QUERY, SNAPSHOT, SqlReader

_CHANGING = tuple(name for name in QUERY_COLUMNS if name not in ("id", "name", "created"))
_query_values = attrgetter(*_CHANGING, "id")
_impression_values = attrgetter(*IMPRESSION_COLUMNS)
_TOUCHED = {
    kind: (names, attrgetter(*names, "id"))
    for kind, names in (
        ("clicked", ("clicks",)),
        ("over", ("outcome", "clicks")),
        ("earns", ("outcome", "clicks", "expires", "learning", "reward", "rewards")),
    )
}
"""The columns of an impression that changed, and their values. To set an outcome as it was would take as long as to
change it, for an index goes by it."""
_add_impressions = Insertion(
    "impressions",
    IMPRESSION_COLUMNS,
    {"outcome": PENDING, "clicks": 0, **dict.fromkeys(("user", "share", "unit", "reward", "rewards"))},
)
_add_events = Insertion("events", EventRow._fields, dict.fromkeys(("timestamp", "reward")))
_ADD_LOG = insert("log", LogRow._fields)
_ADD_SNAPSHOT = insert("snapshots", Snapshot._fields)
_ADD_HISTORY = insert("histories", ("query", "history"))
_COUNTED = ("impressions", "clicks", "squares")
_ADD_COMPARISON = (
    f"{insert('comparisons', ComparisonRow._fields)} on conflict ({columns(COMPARISON_KEY)}) do update set "
    + ", ".join(f"{name} = comparisons.{name} + excluded.{name}" for name in _COUNTED)
)
_ADD_OFFER = (
    f"{insert('offers', OfferRow._fields)} on conflict (id) do update set at = excluded.at "
    f"where offers.at < excluded.at - {DAY}"
)
_FORGET_LOG = "delete from log where query = ? and number <= ?"
_SET_HISTORY = f"{_ADD_HISTORY} on conflict (query) do update set history = excluded.history"


class SqlStore(ABC):
    """What a store does in the same words in every database. See `contract.Store`."""

    database: Database
    settles_between: ClassVar[bool] = False
    _n_queries = 0
    """How many queries there are, and of these how many the transaction at hand has made."""
    _n_created = 0

    @abstractmethod
    def _open(self) -> Database:
        """Another connection."""

    # --- transactions ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.database.begin()

    def due(self, now: int, limit: int) -> list[str]:
        rows = self.database.rows(
            f"select id from impressions where outcome = {PENDING} and expires <= ? order by expires, number limit ?",
            (now, limit),
        )
        return [id for (id,) in rows]

    def _add(self, impressions: Iterable[Sequence[Any]], locked: Locked) -> None:
        """Add rows of impressions to those of a batch, and the queries that they are of."""
        rows = [locked.impressions.setdefault(row[0], ImpressionRow(*row)) for row in impressions]
        others = {row.query for row in rows} - {query.id for query in locked.queries.values()}
        for row in self.database.find(QUERY, "queries", "id", others):
            locked.queries[row[1]] = QueryRow(*row)

    def snapshot(self, query: int, before: int | None = None) -> Snapshot | None:
        row = self.database.row(
            f"{SNAPSHOT} < ? order by number desc limit 1", (query, 2**62 if before is None else before)
        )
        return None if row is None else Snapshot(*row)

    def log(self, query: int, after: int) -> Iterable[LogRow]:
        return [LogRow(*row) for row in self.database.rows(LOG, (query, after))]

    def history(self, query: int) -> bytes | None:
        row = self.database.row("select history from histories where query = ?", (query,))
        return None if row is None else row[0]

    def lessons(self, limit: int) -> list[tuple[int, bytes]]:
        asked = "select id, prior from queries where prior is not null order by updated desc limit ?"
        return [(id, bytes(lesson)) for id, lesson in self.database.rows(asked, (limit,))]

    def save(self, changes: Changes) -> None:
        if changes.settled:
            self.database.next_mark()
        written: tuple[tuple[str, Sequence[Sequence[Any]]], ...] = (
            _add_events.of(changes.events),
            (_ADD_SNAPSHOT, changes.snapshots),
            (_SET_HISTORY, changes.histories),
            (_ADD_COMPARISON, changes.comparisons),
            (_ADD_OFFER, changes.offers),
            ("delete from comparisons where unit = ?", [(user,) for user in changes.forgotten_users]),
            ("update queries set prior = ? where id = ?", [(told, id) for id, told in changes.lessons]),
        )
        based = [(snapshot.query, snapshot.number) for snapshot in changes.snapshots if snapshot.base]
        self.database.run_many("delete from snapshots where query = ? and number <= ?", based)
        self._save_queries(changes)
        self.database.run_many(*_add_impressions.of(list(map(_impression_values, changes.impressions))))
        self._save_touched(changes.touched)
        for statement, rows in written:
            self.database.run_many(statement, rows)
        self.database.run_many(_FORGET_LOG, based)
        if changes.forgotten:
            ids = (self.database.list_of(changes.forgotten),)
            self.database.run(f"delete from events where impression {self.database.one_of}", ids)
            self.database.run(f"delete from impressions where id {self.database.one_of}", ids)

    def _save_queries(self, changes: Changes) -> None:
        """Their rows, and those of their logs."""
        self.database.update("queries", _CHANGING, [_query_values(row) for row in changes.queries])
        self.database.run_many(_ADD_LOG, changes.log)

    def _save_touched(self, touched: Sequence[ImpressionRow]) -> None:
        """Few columns of most."""
        kinds: dict[tuple[str, bool], list[ImpressionRow]] = {}
        for one in touched:
            earns = one.reward is not None or one.rewards is not None
            kind = "earns" if earns else "clicked" if one.outcome == PENDING else "over"
            kinds.setdefault((kind, one.outcome == SETTLED), []).append(one)
        for (kind, settled), rows in kinds.items():
            names, values = _TOUCHED[kind]
            self.database.update("impressions", names, list(map(values, rows)), marked=settled)

    def _forget_before(self, query: int, number: int) -> int:
        """Delete all that a snapshot replaces, and say how many rows that were."""
        gone = self.database.run(_FORGET_LOG, (query, number))
        return gone + self.database.run(
            "delete from snapshots where query = ? and number < ?", (query, number)
        )

    def commit(self) -> None:
        self._commit()

    def _commit(self) -> None:
        """End any transaction, also one of a method's own."""
        self.database.run("commit")
        self._n_created = 0

    def rollback(self) -> None:
        self._n_queries -= self._n_created
        self._n_created = 0
        self.database.roll_back()

    def _make(self, statement: str, new: Sequence[Sequence[Any]], max_queries: int) -> None:
        """Make queries, as long as there may be more."""
        made = new[: max(0, max_queries - self._n_queries)]
        for values in made:  # one by one, in this order, so that two processes cannot wait for each other
            self.database.run(statement, values)
        self._n_queries += len(made)
        self._n_created += len(made)

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., int]]:
        self.database.begin()
        try:
            yield self.database.run
            self._commit()
        except BaseException:
            self.rollback()
            raise

    # --- keeping it small -----------------------------------------------------------------------------------

    def prune(self, before: int, limit: int, keep: Callable[[list[Decision]], None] | None = None) -> int:
        database, gone = self.database, 0
        with self._transaction() as run:
            oldest = (
                f"select number, at, outcome from impressions order by number limit ? {database.unlocked}"
            )
            rows = database.rows(oldest.format("impressions"), (limit,))
            over = [number for number, at, outcome in rows if at < before and outcome != PENDING]
            if keep is not None and over:
                kept = f"{DECISION} impressions.number {database.one_of} order by impressions.number"
                decisions = [Decision(*row) for row in database.rows(kept, (database.list_of(over),))]
                if decisions:
                    keep(decisions)
            if over:
                gone += run(
                    f"delete from impressions where number {database.one_of}", (database.list_of(over),)
                )
            oldest = f"select number from events order by number limit ? {database.unlocked.format('events')}"
            gone += run(f"delete from events where number in ({oldest}) and at < ?", (limit, before))
            unused = "select id from offers where at < ? limit ?"
            gone += run(f"delete from offers where id in ({unused})", (before - 2 * DAY, limit))
            some = f"select number from comparisons where length in ({DAY}, {WEEK}) and start < ? limit ?"
            gone += run(f"delete from comparisons where number in ({some})", (before - WEEK, limit))
            # once a snapshot is that old its query's log starts from it
            old = database.rows(
                "select query, snapshots.number from snapshots join queries on id = query "
                f"where {database.is_later} and at < ? order by at limit ? {database.unlocked.format('queries')}",
                (before, limit),
            )
            for query, number in old:
                gone += self._forget_before(query, number)
                run("update snapshots set base = true where query = ? and number = ?", (query, number))
        return gone

    def probe(self) -> None:
        with self._transaction() as run:
            run("update meta set probed = coalesce(probed, 0) + 1")

    def of_user(self, user: str, limit: int) -> list[str]:
        rows = self.database.rows('select id from impressions where "user" = ? limit ?', (user, limit))
        return [id for (id,) in rows]

    def delete(self, name: str) -> int | None:
        with self._transaction():
            row = self.database.row(
                f"select id from queries where name = ? {self.database.for_update}", (name,)
            )
            if row is None:
                return None
            self._delete([row[0]])
        return int(row[0])

    def evict(self, before: int, limit: int) -> list[int]:
        with self._transaction():
            rows = self.database.rows(
                "select id from queries where learned = 0 and impressions > 0 and impressions = settled + voided "
                "and generation <= 1 and frozen is null and updated < ? limit ? "
                + self.database.unlocked.format("queries"),
                (before, limit),
            )
            queries = [id for (id,) in rows]
            if queries:
                self._delete(queries)
        return queries

    def _delete(self, queries: Sequence[int]) -> None:
        run, one_of = self.database.run, self.database.one_of
        values = (self.database.list_of(queries),)
        of_queries = f"query {one_of}"
        run(f"delete from events where impression in (select id from impressions where {of_queries})", values)
        for table in ("impressions", "log", "snapshots", "histories", "comparisons", "offers"):
            run(f"delete from {table} where {of_queries}", values)
        run(f"delete from queries where id {one_of}", values)
        self._n_queries -= len(queries)

    # --- the rest -------------------------------------------------------------------------------------------

    def latest(self) -> int | None:
        row = self.database.row("select at from impressions order by number desc limit 1")
        return None if row is None else row[0]

    def policies(self) -> list[str]:
        return [policy for (policy,) in self.database.rows("select distinct policy from queries")]

    def reader(self) -> "SqlReader":
        return SqlReader(self._open())

    def close(self) -> None:
        self.database.close()
