"""What stores in a database share: their statements, written once for SQLite and PostgreSQL.

Values stand as `?`. Where the two differ, a `Database` says how it has it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, ClassVar

from clickbandit.live.stores.contract import (
    DIVIDED,
    FINISHED,
    IMPRESSION_COLUMNS,
    PENDING,
    QUERY_COLUMNS,
    SILENT_AFTER,
    STUCK_AFTER,
    Changes,
    ClickDelays,
    EventRow,
    ImpressionRow,
    Listing,
    LogRow,
    QueryRow,
    Snapshot,
    Totals,
)
from clickbandit.live.values import State, StoreError

STATE = f"""case when frozen is not null then 'frozen' when progress = {FINISHED} then 'settled'
    when idle >= {STUCK_AFTER} or learned >= {SILENT_AFTER} and clicks = 0 then 'stuck'
    when progress = {DIVIDED} then 'splitting' else 'exploring' end"""
"""A query's state, as `views.state` has it in Python."""

_CHANGING = [name for name in QUERY_COLUMNS if name not in ("id", "name", "created")]
_query_values = attrgetter(*_CHANGING, "id")
_impression_values = attrgetter(*IMPRESSION_COLUMNS)


def columns(names: Iterable[str]) -> str:
    """Names as a statement has them: quoted, for some mean something to a database."""
    return ", ".join(f'"{name}"' for name in names)


def insert(table: str, names: Collection[str]) -> str:
    return f"insert into {table} ({columns(names)}) values ({', '.join('?' * len(names))})"


QUERY = columns(QUERY_COLUMNS)
IMPRESSION = columns(IMPRESSION_COLUMNS)
_SET_QUERY = f"update queries set {', '.join(f'{columns([name])} = ?' for name in _CHANGING)} where id = ?"
_SET_IMPRESSION = "update impressions set outcome = ?, clicks = ? where id = ?"
_ADD_IMPRESSION = insert("impressions", IMPRESSION_COLUMNS)
_ADD_EVENT = insert("events", EventRow._fields)
_ADD_LOG = insert("log", LogRow._fields)
_ADD_SNAPSHOT = insert("snapshots", Snapshot._fields)
_SNAPSHOT = f"select {columns(Snapshot._fields)} from snapshots where query = ? and number"
_LOG = f"select {columns(LogRow._fields)} from log where query = ? and number > ? order by number"
_ADD_HISTORY = insert("histories", ("query", "history"))
_FORGET_LOG = "delete from log where query = ? and number <= ?"
_SET_HISTORY = f"{_ADD_HISTORY} on conflict (query) do update set history = excluded.history"


class Database(ABC):
    """A connection whose errors are the store's."""

    errors: ClassVar[type[Exception]]
    one_of: ClassVar[str]
    """Follows a column: is it one of the values in a list?"""
    position_of: ClassVar[str]
    """The function that finds a text in another."""
    is_later: ClassVar[str]
    """Of a snapshot: that the log does not start from it."""
    for_update: ClassVar[str] = ""
    """Ends a selection of rows: lock them."""
    unlocked: ClassVar[str] = ""
    """Ends a selection of rows of a table: lock them, without those that another process holds."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def roll_back(self) -> None:
        """End the transaction, if there is one; never fails."""

    @abstractmethod
    def _execute(self, statement: str, values: Sequence[Any]) -> Any:
        """A cursor after one statement."""

    @abstractmethod
    def _execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """One statement for each row of values."""

    @abstractmethod
    def failure(self, error: Exception) -> StoreError:
        """An error of the database as the store's."""

    @abstractmethod
    def list_of(self, values: Collection[Any]) -> Any:
        """A value for `one_of`."""

    @abstractmethod
    def size(self) -> int:
        """How many bytes the store takes."""

    @abstractmethod
    def close(self) -> None:
        """Release the connection."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement, and say how many rows it changed."""
        try:
            return self._execute(statement, values).rowcount  # type: ignore[no-any-return]
        except self.errors as error:
            raise self.failure(error) from error

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row of values."""
        try:
            if rows:
                self._execute_many(statement, rows)
        except self.errors as error:
            raise self.failure(error) from error

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._execute(statement, values).fetchall()  # type: ignore[no-any-return]
        except self.errors as error:
            raise self.failure(error) from error

    def row(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The only row of a selection, if it has one."""
        return next(iter(self.rows(statement, values)), None)

    def find(self, what: str, column: str, keys: Collection[Any]) -> list[tuple[Any, ...]]:
        """Select the rows that have one of these keys in a column."""
        return self.rows(f"select {what} where {column} {self.one_of}", (self.list_of(keys),)) if keys else []


class SqlStore(ABC):
    """What a store does in the same words in every database. See `contract.Store`."""

    database: Database
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

    def known_events(self, keys: Sequence[str]) -> set[str]:
        return {key for (key,) in self.database.find("key from events", "key", keys)}

    def snapshot(self, query: int, before: int | None = None) -> Snapshot | None:
        row = self.database.row(
            f"{_SNAPSHOT} < ? order by number desc limit 1", (query, 2**62 if before is None else before)
        )
        return None if row is None else Snapshot(*row)

    def log(self, query: int, after: int) -> Iterable[LogRow]:
        return [LogRow(*row) for row in self.database.rows(_LOG, (query, after))]

    def history(self, query: int) -> bytes | None:
        row = self.database.row("select history from histories where query = ?", (query,))
        return None if row is None else row[0]

    def save(self, changes: Changes) -> None:
        written: tuple[tuple[str, Sequence[Sequence[Any]]], ...] = (
            (_SET_QUERY, [_query_values(row) for row in changes.queries]),
            (_ADD_IMPRESSION, [_impression_values(row) for row in changes.impressions]),
            (_SET_IMPRESSION, [(i.outcome, i.clicks, i.id) for i in changes.touched]),
            (_ADD_EVENT, changes.events),
            (_ADD_LOG, changes.log),
            (_ADD_SNAPSHOT, changes.snapshots),
            (_SET_HISTORY, changes.histories),
        )
        based = [(snapshot.query, snapshot.number) for snapshot in changes.snapshots if snapshot.base]
        self.database.run_many("delete from snapshots where query = ? and number <= ?", based)
        for statement, rows in written:
            self.database.run_many(statement, rows)
        self.database.run_many(_FORGET_LOG, based)
        if changes.forgotten:
            ids = (self.database.list_of(changes.forgotten),)
            self.database.run(f"delete from events where impression {self.database.one_of}", ids)
            self.database.run(f"delete from impressions where id {self.database.one_of}", ids)

    def _forget_before(self, query: int, number: int) -> int:
        """Delete all that a snapshot replaces, and say how many rows that were."""
        gone = self.database.run(_FORGET_LOG, (query, number))
        return gone + self.database.run(
            "delete from snapshots where query = ? and number < ?", (query, number)
        )

    def commit(self) -> None:
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
            self.database.run("commit")
        except BaseException:
            self.rollback()
            raise

    # --- keeping it small -----------------------------------------------------------------------------------

    def prune(self, before: int, limit: int) -> int:
        database, gone = self.database, 0
        with self._transaction() as run:
            for table, condition in (("impressions", f"and outcome != {PENDING}"), ("events", "")):
                oldest = (
                    f"select number from {table} order by number limit ? {database.unlocked.format(table)}"
                )
                delete = f"delete from {table} where number in ({oldest}) and at < ? {condition}"
                gone += run(delete, (limit, before))
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
        for table in ("impressions", "log", "snapshots", "histories"):
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


class SqlReader:
    """Reads through a connection of its own. See `contract.Reader`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def queries(self, listing: Listing) -> tuple[list[QueryRow], int]:
        wanted = {
            f"{self._database.position_of}(lower(name), lower(?)) > 0": listing.search,
            f"{STATE} = ?": listing.state,
        }
        conditions = [condition for condition, value in wanted.items() if value]
        where = f"where {' and '.join(conditions)}" if conditions else ""
        given = [value for value in wanted.values() if value]
        (total,) = self._database.row(f"select count(*) from queries {where}", given) or (0,)
        column = "name" if listing.sort == "query" else listing.sort
        order = f"order by {column} {'desc' if listing.descending else 'asc'}, name"
        page = f"select id from queries {where} {order} limit ? offset ?"  # sorts no more than it must
        rows = self._database.rows(
            f"select {QUERY} from queries where id in ({page}) {order}",
            (*given, listing.limit, listing.offset),
        )
        return [QueryRow(*row) for row in rows], int(total)

    def query(self, name: str) -> tuple[QueryRow, bytes | None] | None:
        row = self._database.row(
            f"select {QUERY}, history from queries left join histories on query = id where name = ?", (name,)
        )
        return None if row is None else (QueryRow(*row[:-1]), row[-1])

    def next_query(self, after: int) -> tuple[int, str] | None:
        row = self._database.row("select id, name from queries where id > ? order by id limit 1", (after,))
        return None if row is None else (row[0], row[1])

    def snapshot(self, query: int, after: int) -> Snapshot | None:
        row = self._database.row(f"{_SNAPSHOT} > ? order by number limit 1", (query, after))
        return None if row is None else Snapshot(*row)

    def log(self, query: int, after: int, limit: int) -> Iterable[LogRow]:
        return [LogRow(*row) for row in self._database.rows(f"{_LOG} limit ?", (query, after, limit))]

    def recent(self, query: int, among: int, limit: int) -> list[ImpressionRow]:
        rows = self._database.rows(
            f"select {IMPRESSION} from impressions where query = ? "
            "and number > (select max(number) from impressions) - ? order by number desc limit ?",
            (query, among, limit),
        )
        return [ImpressionRow(*row) for row in rows]

    def totals(self) -> Totals:
        sums = ", ".join(f"cast(coalesce(sum({name}), 0) as bigint)" for name in Totals._fields[3:])
        row = self._database.row(
            f"select count(*), count(*) filter (where learned > horizon), count(frozen), {sums} from queries"
        )
        return Totals(*(row or ()))

    def states(self) -> dict[State, int]:
        return dict(self._database.rows(f"select {STATE}, count(*) from queries group by 1"))

    def delays(self, among: int) -> ClickDelays:
        rows = self._database.rows(
            "select events.at - impressions.at, late from events join impressions on id = impression "
            "where events.number > (select max(number) from events) - ?",
            (among,),
        )
        return ClickDelays([milliseconds for milliseconds, _ in rows], sum(late for _, late in rows))

    def oldest(self) -> int | None:
        row = self._database.row("select at from impressions order by number limit 1")
        return None if row is None else row[0]

    def size(self) -> int:
        return self._database.size()

    def close(self) -> None:
        self._database.close()
