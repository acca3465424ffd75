"""A store in a PostgreSQL database, for any number of processes on any number of machines.

Correctness rests on the database's transactions alone. A batch locks the rows of all queries that it is about, by id,
after it has made those that are new to it, by name, and then those of all impressions, by id: nobody waits for a row
while holding one that comes later, and rows just made are invisible to the others, so there are no deadlocks. What a
batch reads it reads after that, at the level "read committed", and so as the last holder of the lock left it; what is
due it locks last, without waiting for anyone. Clicks in time change nothing but their impression, so its query is left
to whoever makes its lists.
When a worker dies its connection ends, and with it its transaction and its locks.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from operator import attrgetter
from typing import Any

from clickbandit.errors import InputError
from clickbandit.live.stores.contract import LATE, Changes, Locked, Part, takes_clicks
from clickbandit.live.stores.database import Database, insert
from clickbandit.live.stores.migrations import VERSION, steps
from clickbandit.live.stores.rows import PENDING, ImpressionRow, NewQuery, QueryRow
from clickbandit.live.stores.schema import tables
from clickbandit.live.stores.sql import SqlStore
from clickbandit.live.stores.sql_reader import IMPRESSION, QUERY, SqlReader
from clickbandit.live.values import StoreError, Unreachable

try:
    import psycopg
except ImportError as error:
    raise InputError(
        "a PostgreSQL store needs psycopg: install it with pip install 'clickbandit[postgres]'"
    ) from error

_TABLES = f"{tables('postgresql')}create sequence marks"
_NAMES = (
    "meta",
    "queries",
    "impressions",
    "events",
    "log",
    "snapshots",
    "histories",
    "comparisons",
    "offers",
)

_TAKES_CLICKS = f"(outcome = {PENDING} and reward is null and expires > ?)"
"""As `takes_clicks` has it."""
_NEW_QUERY = f"{insert('queries', NewQuery._fields)} on conflict (name) do nothing"
_LOCK_QUERIES = (
    f"select {QUERY} from queries where id in (select id from queries where name = any(?) "
    "union select query from impressions where id = any(?) "
    f"union select query from impressions where id = any(?) and not {_TAKES_CLICKS}) order by id for update"
)
_LOCK_IMPRESSIONS = f"select {IMPRESSION} from impressions where id = any(?) order by id for update"
_OWNER = "get_byte(sha256(convert_to(name, 'UTF8')), 0)"
"""As `Part.owner` has it."""
_COUNT_AGAIN = 60.0
"""Seconds after which the queries are counted again, since other processes add some too."""
_SESSION = {
    # a process that hangs must not keep others waiting for ever, nor a network that swallows packets
    "idle_in_transaction_session_timeout": "15s",
    "lock_timeout": "15s",
    "statement_timeout": "60s",
    "default_transaction_isolation": "read committed",
    "synchronous_commit": "on",
}
_OF_BATCHES = _SESSION | dict.fromkeys(
    ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin"), "off"
)
"""Batches look up rows by their keys. Plans made while the tables were empty would be kept, and read all of a table
each time; and only a plain scan of the index of what is due marks the entries of what was settled as dead."""
_RETRY = (psycopg.errors.UniqueViolation, psycopg.errors.LockNotAvailable, psycopg.OperationalError)


class PostgresDatabase(Database):
    """A connection to a server."""

    errors = psycopg.Error
    one_of = "= any(?)"
    position_of = "strpos"
    is_later = "not base"
    next_mark = "select nextval('marks')"
    set_mark = ", mark = currval('marks')"
    for_update = "for update"
    unlocked = "for update of {} skip locked"

    def __init__(self, url: str, *, reconnects: bool = False) -> None:
        self._url = url
        self._reconnects = reconnects
        """Also without `begin`: for statements that are transactions of their own."""
        self._settings = _SESSION if reconnects else _OF_BATCHES
        self.connection = _connect(url, self._settings)
        self._begins = False
        """Whether a transaction begins with the next statement, which saves a wait."""

    def begin(self) -> None:
        self._reconnect()
        self._begins = True

    def roll_back(self) -> None:
        if self._begins:
            self._begins = False
            return
        try:
            self.run("rollback")
        except StoreError:
            self.connection.close()

    def _reconnect(self) -> None:
        if self.connection.closed:
            try:
                self.connection = _connect(self._url, self._settings)
            except psycopg.Error as error:
                raise self.failure(error) from error

    def _execute(self, statement: str, values: Sequence[Any]) -> "psycopg.Cursor[Any]":
        if self._reconnects:
            self._reconnect()
        return self.cursor(statement, values)

    def cursor(self, statement: str, values: Sequence[Any] = ()) -> "psycopg.Cursor[Any]":
        self._begin_now()
        return self.connection.execute(_own(statement), values or None)

    def _begin_now(self) -> None:
        if self._begins:
            self._begins = False
            self.connection.execute("begin")

    def _execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._begin_now()
        with self.connection.cursor() as cursor:
            cursor.executemany(_own(statement), rows)

    def failure(self, error: Exception) -> StoreError:
        """One that may be gone at the next attempt is worth another."""
        if self._reconnects and isinstance(error, psycopg.OperationalError):
            self.connection.close()
        said = " ".join(str(error).split()) or type(error).__name__
        return StoreError(f"PostgreSQL: {said}", retry=isinstance(error, _RETRY))

    def list_of(self, values: Collection[Any]) -> list[Any]:
        return list(values)

    def last_mark(self) -> int:
        """Transactions that are settling end before the lock is taken, and those that begin later get higher marks."""
        self._reconnect()
        self.run("begin")
        try:
            self.run("lock table impressions in share mode")
            ((mark,),) = self.rows("select case when is_called then last_value else 0 end from marks")
        finally:
            self.roll_back()
        return int(mark)

    def size(self) -> int:
        sizes = " + ".join(f"pg_total_relation_size('{name}')" for name in _NAMES)
        return int(self.rows(f"select {sizes}")[0][0])

    def close(self) -> None:
        self.connection.close()


@cache
def _own(statement: str) -> str:
    """A statement with the database's placeholders."""
    return statement.replace("?", "%s")


class PostgresStore(SqlStore):
    """See `clickbandit.live.stores.contract.Store`."""

    database: PostgresDatabase

    def __init__(self, url: str) -> None:
        self._url = url
        with ExitStack() as failed:
            try:
                self.database = PostgresDatabase(url)
                failed.callback(self.database.close)
                self._make_tables()
            except (psycopg.Error, StoreError) as error:
                said = " ".join(str(error).split()).removeprefix("PostgreSQL: ")
                later = (
                    error.retry
                    if isinstance(error, StoreError)
                    else isinstance(error, psycopg.OperationalError)
                )
                raise (Unreachable if later else InputError)(
                    f"the PostgreSQL database cannot be used as a store: {said}"
                ) from error
            failed.pop_all()
        self._counted_at = -_COUNT_AGAIN

    def _make_tables(self) -> None:
        with self._transaction() as run:
            run("select pg_advisory_xact_lock(hashtext('clickbandit tables'))")  # workers start at once
            name = "table_schema = current_schema() and table_name"
            found = self.database.find("table_name", "information_schema.tables", name, _NAMES)
            if not found:
                run(_TABLES)
                return
            row = self.database.row("select version from meta") if ("meta",) in found else None
            version = None if row is None else row[0]
            upgrade = steps("the PostgreSQL database", version, "postgresql")
            if upgrade:
                run("set local statement_timeout = 0")  # everything is copied
                for (name,) in found:
                    run(f"create table {name}_version_{version} as table {name}")
                for statement in upgrade:
                    run(statement)
                run("update meta set version = ?", (VERSION,))

    def _open(self) -> PostgresDatabase:
        try:
            return PostgresDatabase(self._url, reconnects=True)
        except psycopg.Error as error:
            raise self.database.failure(error) from error

    def commit(self) -> None:
        try:
            super().commit()
        except StoreError as error:  # it may be committed nevertheless, so this must not be retried
            said = str(error).removeprefix("PostgreSQL: ")
            raise StoreError(f"PostgreSQL: the commit failed: {said}") from error

    def lock(
        self,
        names: Collection[str],
        ids: Collection[str],
        new: Sequence[NewQuery],
        max_queries: int,
        clicked: Collection[str] = (),
        now: int = 0,
    ) -> Locked:
        wanted = list(names), list(ids), list(clicked), now
        locked = self._lock(*wanted)
        missing = sorted((query for query in new if query.name not in locked.queries), key=attrgetter("name"))
        if missing and self._count() < max_queries:
            self.database.run("rollback")  # a process that adds a query must hold no other
            self.database.run("begin")
            self._make(_NEW_QUERY, missing, max_queries)
            locked = self._lock(*wanted)
        return locked

    def _lock(self, names: list[str], ids: list[str], clicked: list[str], now: int) -> Locked:
        try:
            with self.database.connection.pipeline():
                queries = self.database.cursor(_LOCK_QUERIES, (names, ids, clicked, now))
                impressions = self.database.cursor(_LOCK_IMPRESSIONS, (ids + clicked,))
                rows, found = queries.fetchall(), impressions.fetchall()
        except psycopg.Error as error:
            raise self.database.failure(error) from error
        locked = Locked(
            {row[1]: QueryRow(*row) for row in rows}, {row[0]: ImpressionRow(*row) for row in found}
        )
        held, only_clicked = {row[0] for row in rows}, set(clicked)
        for row in locked.impressions.values():
            # made or settled by another process between these two statements: its query must be locked first
            if row.query not in held and not (row.id in only_clicked and takes_clicks(row, now)):
                raise StoreError("PostgreSQL: an impression changed meanwhile", retry=True)
        return locked

    def take_due(self, now: int, limit: int, part: Part, locked: Locked) -> list[str]:
        own = (
            ""
            if part.of == 1
            else f"and (mod({_OWNER}, {part.of}) = {part.number} or expires <= {now - LATE})"
        )
        ids = [
            id
            for (id,) in self.database.rows(
                "select impressions.id from impressions join queries on queries.id = query "
                f"where outcome = {PENDING} and expires <= ? {own} order by expires, impressions.number limit ? "
                f"{self.database.unlocked.format('queries, impressions')}",
                (now, limit),
            )
        ]
        # what the one before did to them is seen only now that they are locked
        self._add(self.database.find(IMPRESSION, "impressions", "id", ids), locked)
        return ids

    def _delete(self, queries: Sequence[int]) -> None:
        impressions = "select id from impressions where query = any(?) order by id for update"
        # in the order in which batches lock them, and only counted, for they may be many
        self.database.run(f"select count(*) from ({impressions}) as held", (list(queries),))
        super()._delete(queries)

    def _count(self) -> int:
        """How many queries there are, about."""
        if time.monotonic() - self._counted_at >= _COUNT_AGAIN:
            ((self._n_queries,),) = self.database.rows("select count(*) from queries")
            self._counted_at = time.monotonic()
        return self._n_queries

    def save(self, changes: Changes) -> None:
        # new names in their order, so that processes which are given the same ones cannot wait for each other
        ordered = replace(
            changes,
            impressions=sorted(changes.impressions, key=attrgetter("id")),
            events=sorted(changes.events),
        )
        try:
            with self.database.connection.pipeline():
                if changes.settled:  # the lock that `last_mark` waits for, before there is a mark
                    self.database.run("lock table impressions in row exclusive mode")
                super().save(ordered)
        except psycopg.Error as error:
            raise self.database.failure(error) from error


def open_database(url: str) -> SqlReader:
    """Reads a database that others may serve."""
    try:
        database = PostgresDatabase(url, reconnects=True)
    except psycopg.Error as error:
        raise InputError(f"the PostgreSQL database cannot be read as a store: {error}") from None
    try:
        if steps("the PostgreSQL database", database.rows("select version from meta")[0][0], "postgresql"):
            raise InputError(
                "the PostgreSQL database has older tables: serve it once, which brings them up to date"
            )
    except BaseException as error:
        database.close()
        if isinstance(error, StoreError):
            raise InputError(
                f"the PostgreSQL database must hold the tables of a ranker, found: {error}"
            ) from None
        raise
    return SqlReader(database)


def _connect(url: str, settings: Mapping[str, str]) -> "psycopg.Connection[Any]":
    """Every statement by itself, except between `begin` and `commit`."""
    connection = psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=10,
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        tcp_user_timeout=20_000,
        application_name="clickbandit",
    )
    for name, value in settings.items():
        connection.execute("select set_config(%s, %s, false)", (name, value))
    return connection
