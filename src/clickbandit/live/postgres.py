"""A store in a PostgreSQL database, for any number of processes on any number of machines.

Correctness rests on the database's transactions alone. A batch first makes the queries that are new to it, by name, and
then locks the rows of all that it is about, by id: nobody waits for a row while holding one that comes later, and rows
just made are invisible to the others, so there are no deadlocks. What a batch reads it reads after that, at the level
"read committed", and so as the last holder of the lock left it. When a worker dies its connection ends, and with it its
transaction and its locks.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from operator import attrgetter
from typing import Any, ParamSpec, TypeVar

from clickbandit.errors import InputError
from clickbandit.live.store import (
    IMPRESSION_COLUMNS,
    PENDING,
    QUERY_COLUMNS,
    STATE,
    Changes,
    Delays,
    ImpressionRow,
    Listing,
    Locked,
    LogRow,
    NewQuery,
    QueryRow,
    Snapshot,
    Totals,
)
from clickbandit.live.types import State, StoreError

try:
    import psycopg
except ImportError as error:
    raise InputError(
        "a PostgreSQL store needs psycopg: install it with pip install 'clickbandit[postgres]'"
    ) from error

VERSION = 2
"""Of the tables below."""

_TABLES = f"""
create table meta (version bigint not null);
insert into meta values ({VERSION});

create table queries (
    id bigint generated always as identity primary key, name text not null collate "C" unique, policy text not null,
    positions bigint not null, horizon bigint not null, "window" bigint, created bigint not null, frozen text,
    {", ".join(f"{name} bigint not null default 0" for name in QUERY_COLUMNS[8:])}
) with (fillfactor = 50);

create table impressions (
    number bigint generated always as identity primary key, id text not null collate "C" unique, query bigint not null,
    at bigint not null, expires bigint not null, source bigint not null, compared boolean not null,
    items text not null, body bytea not null, propensities bytea, learning bytea, outcome bigint not null,
    clicks bigint not null
) with (fillfactor = 70);
create index due on impressions (expires, number) where outcome = {PENDING};

create table events (
    number bigint generated always as identity primary key, key text not null collate "C" unique,
    impression text not null, item text not null, at bigint not null, late boolean not null, timestamp text
);

create table log (
    query bigint not null, number bigint not null, records bytea not null, at bigint not null,
    primary key (query, number)
);

create table snapshots (
    query bigint not null, number bigint not null, state bytea not null, at bigint not null,
    base boolean not null default false, primary key (query, number)
);
create index to_prune on snapshots (at) where not base;

create table histories (query bigint primary key, history bytea not null);
"""
_NAMES = ("meta", "queries", "impressions", "events", "log", "snapshots", "histories")

_QUERY = ", ".join(f'"{name}"' for name in QUERY_COLUMNS)
_IMPRESSION = ", ".join(f'"{name}"' for name in IMPRESSION_COLUMNS)
_CHANGING = [name for name in QUERY_COLUMNS if name not in ("id", "name", "created")]
_SET_QUERY = ", ".join(f'"{name}" = %s' for name in _CHANGING)
_query_values = attrgetter(*_CHANGING, "id")
_NEW_IMPRESSION = (
    f"insert into impressions ({_IMPRESSION}) values ({', '.join(['%s'] * len(IMPRESSION_COLUMNS))})"
)
_impression_values = attrgetter(*IMPRESSION_COLUMNS)
_NEW_NAMES = ", ".join(f'"{name}"' for name in NewQuery._fields)
_NEW_QUERY = (
    f"insert into queries ({_NEW_NAMES}) "
    f"values ({', '.join(['%s'] * len(NewQuery._fields))}) on conflict (name) do nothing"
)
_COUNT_AGAIN = 60.0
"""Seconds after which the queries are counted anew, for other processes make some too."""
_SESSION = {
    # a process that hangs must not keep others waiting for ever, nor a network that swallows packets
    "idle_in_transaction_session_timeout": "15s",
    "lock_timeout": "15s",
    "statement_timeout": "60s",
    "default_transaction_isolation": "read committed",
    "synchronous_commit": "on",
}
_RETRY = (psycopg.errors.UniqueViolation, psycopg.errors.LockNotAvailable, psycopg.OperationalError)

P = ParamSpec("P")
R = TypeVar("R")


def _guarded(method: Callable[P, R]) -> Callable[P, R]:
    """The database's errors as the store's; those that may be gone at the next attempt are worth another."""

    @wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except psycopg.Error as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise StoreError(f"PostgreSQL: {said}", retry=isinstance(error, _RETRY)) from error

    return guarded


class PostgresStore:
    """See `clickbandit.live.store.Store`."""

    def __init__(self, url: str) -> None:
        self._url = url
        with ExitStack() as failed:
            try:
                self._connection = _connect(url)
                failed.callback(self._connection.close)
                self._make_tables()
            except psycopg.Error as error:
                raise InputError(
                    f"the PostgreSQL database cannot be used as a store: {' '.join(str(error).split())}"
                ) from error
            failed.pop_all()
        self._n_queries = 0
        self._counted_at = -_COUNT_AGAIN

    def _make_tables(self) -> None:
        with self._transaction() as run:
            run(
                "select pg_advisory_xact_lock(hashtext('clickbandit tables'))"
            )  # of workers that start at once
            found = run(
                "select table_name from information_schema.tables where table_schema = current_schema() "
                "and table_name = any(%s)",
                (list(_NAMES),),
            ).fetchall()
            if not found:
                run(_TABLES)
                return
            version = run("select version from meta").fetchone() if ("meta",) in found else None
        if version != (VERSION,):
            raise InputError(
                f"the PostgreSQL database must hold the tables of a ranker, version {VERSION}, found "
                f"{f'version {version[0]}' if version else 'other tables of these names'}: name another database"
            )

    # --- transactions ---------------------------------------------------------------------------------------

    @_guarded
    def begin(self) -> None:
        if self._connection.closed:
            self._connection = _connect(self._url)
        self._connection.execute("begin")

    def commit(self) -> None:
        try:
            self._connection.execute("commit")
        except psycopg.Error as error:  # it may be committed all the same, so this is not to be tried again
            raise StoreError(f"PostgreSQL: the commit failed: {' '.join(str(error).split())}") from error

    def rollback(self) -> None:
        try:
            self._connection.execute("rollback")
        except psycopg.Error:
            self._connection.close()

    @_guarded
    def due(self, now: int, limit: int) -> list[str]:
        rows = self._connection.execute(
            f"select id from impressions where outcome = {PENDING} and expires <= %s "
            "order by expires, number limit %s",
            (now, limit),
        )
        return [id for (id,) in rows]

    @_guarded
    def lock(
        self, names: Collection[str], ids: Collection[str], new: Sequence[NewQuery], most: int
    ) -> Locked:
        run = self._connection.execute
        if new:
            self._make_queries(new, most)
        rows = run(
            f"select {_QUERY} from queries where id in (select id from queries where name = any(%s) "
            "union select query from impressions where id = any(%s)) order by id for update",
            (list(names), list(ids)),
        )
        queries = {row[1]: QueryRow(*row) for row in rows}
        locked = {query.id for query in queries.values()}
        impressions = {}
        if ids:
            found = run(f"select {_IMPRESSION} from impressions where id = any(%s)", (list(ids),))
            impressions = {row[0]: ImpressionRow(*row) for row in found}
        if any(impression.query not in locked for impression in impressions.values()):
            # made by another process between these two statements: its query must be locked first
            raise StoreError("PostgreSQL: an impression was made meanwhile", retry=True)
        return Locked(queries, impressions)

    def _make_queries(self, new: Sequence[NewQuery], most: int) -> None:
        run = self._connection.execute
        names = [query.name for query in new]
        known = {name for (name,) in run("select name from queries where name = any(%s)", (names,))}
        missing = sorted((query for query in new if query.name not in known), key=lambda query: query.name)
        if not missing:
            return
        if time.monotonic() - self._counted_at >= _COUNT_AGAIN:
            (self._n_queries,) = run("select count(*) from queries").fetchone() or (0,)
            self._counted_at = time.monotonic()
        made = missing[: max(0, most - self._n_queries)]
        self._n_queries += len(made)
        for query in made:  # one by one, in this order, so that two processes cannot wait for each other
            run(_NEW_QUERY, query)

    @_guarded
    def known_events(self, keys: Sequence[str]) -> set[str]:
        rows = self._connection.execute("select key from events where key = any(%s)", (list(keys),))
        return {key for (key,) in rows}

    @_guarded
    def snapshot(self, query: int, *, oldest: bool = False) -> Snapshot | None:
        row = self._connection.execute(
            "select query, number, state, at from snapshots where query = %s "
            f"order by number {'asc' if oldest else 'desc'} limit 1",
            (query,),
        ).fetchone()
        return None if row is None else Snapshot(*row)

    @_guarded
    def log(self, query: int, after: int) -> Iterable[LogRow]:
        rows = self._connection.execute(
            "select query, number, records, at from log where query = %s and number > %s order by number",
            (query, after),
        )
        return [LogRow(*row) for row in rows]

    @_guarded
    def history(self, query: int) -> bytes | None:
        row = self._connection.execute("select history from histories where query = %s", (query,)).fetchone()
        return None if row is None else bytes(row[0])

    @_guarded
    def save(self, changes: Changes) -> None:
        # new names in their order, so that processes which are given the same ones cannot wait for each other
        impressions = sorted(changes.impressions, key=attrgetter("id"))
        events = sorted(changes.events)
        with self._connection.pipeline(), self._connection.cursor() as cursor:
            many = cursor.executemany
            if changes.queries:
                many(f"update queries set {_SET_QUERY} where id = %s", map(_query_values, changes.queries))
            if impressions:
                many(_NEW_IMPRESSION, map(_impression_values, impressions))
            if changes.touched:
                many(
                    "update impressions set outcome = %s, clicks = %s where id = %s",
                    [(i.outcome, i.clicks, i.id) for i in changes.touched],
                )
            if events:
                many(
                    "insert into events (key, impression, item, at, late, timestamp) "
                    "values (%s, %s, %s, %s, %s, %s)",
                    events,
                )
            if changes.log:
                many("insert into log values (%s, %s, %s, %s)", changes.log)
            if changes.snapshots:
                many(
                    "insert into snapshots (query, number, state, at) values (%s, %s, %s, %s)",
                    changes.snapshots,
                )
            if changes.histories:
                many(
                    "insert into histories values (%s, %s) "
                    "on conflict (query) do update set history = excluded.history",
                    changes.histories,
                )

    # --- keeping it small -----------------------------------------------------------------------------------

    @_guarded
    def prune(self, before: int, limit: int) -> int:
        if self._connection.closed:
            self._connection = _connect(self._url)
        with self._transaction() as run:
            gone = run(
                "delete from impressions where number in (select number from impressions order by number limit %s "
                f"for update skip locked) and at < %s and outcome != {PENDING}",
                (limit, before),
            ).rowcount
            gone += run(
                "delete from events where number in (select number from events order by number limit %s "
                "for update skip locked) and at < %s",
                (limit, before),
            ).rowcount
            # once a snapshot is that old its query's log starts from it
            old = run(
                "select s.query, s.number from snapshots s join queries q on q.id = s.query "
                "where not s.base and s.at < %s order by s.at limit %s for update of q skip locked",
                (before, limit),
            ).fetchall()
            for query, number in old:
                gone += run("delete from log where query = %s and number <= %s", (query, number)).rowcount
                gone += run(
                    "delete from snapshots where query = %s and number < %s", (query, number)
                ).rowcount
                run("update snapshots set base = true where query = %s and number = %s", (query, number))
            return gone

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., "psycopg.Cursor[Any]"]]:
        self._connection.execute("begin")
        try:
            yield self._connection.execute
            self._connection.execute("commit")
        except BaseException:
            self.rollback()
            raise

    # --- the rest -------------------------------------------------------------------------------------------

    @_guarded
    def policies(self) -> list[str]:
        return [policy for (policy,) in self._connection.execute("select distinct policy from queries")]

    @_guarded
    def reader(self) -> "PostgresReader":
        return PostgresReader(self._url)

    def close(self) -> None:
        self._connection.close()


class PostgresReader:
    """See `clickbandit.live.store.Reader`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = _connect(url)

    def _run(self, query: str, values: Sequence[Any] = ()) -> "psycopg.Cursor[Any]":
        if self._connection.closed:
            self._connection = _connect(self._url)
        try:
            return self._connection.execute(query, values)
        except psycopg.OperationalError:
            self._connection.close()
            raise

    @_guarded
    def queries(self, listing: Listing) -> tuple[list[QueryRow], int]:
        wanted = {"strpos(lower(name), lower(%s)) > 0": listing.search, f"{STATE} = %s": listing.state}
        conditions = [condition for condition, value in wanted.items() if value]
        where = f"where {' and '.join(conditions)}" if conditions else ""
        given = [value for value in wanted.values() if value]
        (total,) = self._run(f"select count(*) from queries {where}", given).fetchone() or (0,)
        column = "name" if listing.sort == "query" else listing.sort
        order = f"order by {column} {'desc' if listing.descending else 'asc'}, name"
        page = f"select id from queries {where} {order} limit %s offset %s"  # sorts no more than it must
        rows = self._run(
            f"select {_QUERY} from queries where id in ({page}) {order}",
            (*given, listing.limit, listing.offset),
        )
        return [QueryRow(*row) for row in rows], int(total)

    @_guarded
    def query(self, name: str) -> tuple[QueryRow, bytes | None] | None:
        row = self._run(
            f"select {_QUERY}, history from queries left join histories on query = id where name = %s",
            (name,),
        ).fetchone()
        return None if row is None else (QueryRow(*row[:-1]), row[-1])

    @_guarded
    def recent(self, query: int, among: int, limit: int) -> list[ImpressionRow]:
        rows = self._run(
            f"select {_IMPRESSION} from impressions where query = %s "
            "and number > (select max(number) from impressions) - %s order by number desc limit %s",
            (query, among, limit),
        )
        return [ImpressionRow(*row) for row in rows]

    @_guarded
    def states(self) -> dict[State, int]:
        return dict(self._run(f"select {STATE}, count(*) from queries group by 1").fetchall())

    @_guarded
    def delays(self, among: int) -> Delays:
        rows = self._run(
            "select events.at - impressions.at, late from events join impressions on id = impression "
            "where events.number > (select max(number) from events) - %s",
            (among,),
        ).fetchall()
        return Delays([milliseconds for milliseconds, _ in rows], sum(late for _, late in rows))

    @_guarded
    def oldest(self) -> int | None:
        row = self._run("select at from impressions order by number limit 1").fetchone()
        return None if row is None else int(row[0])

    @_guarded
    def totals(self) -> Totals:
        sums = ", ".join(f"coalesce(sum({name}), 0)::bigint" for name in Totals._fields[3:])
        row = self._run(
            f"select count(*), count(*) filter (where learned > horizon), count(frozen), {sums} from queries"
        ).fetchone()
        assert row is not None
        return Totals(*row)

    @_guarded
    def size(self) -> int:
        sizes = " + ".join(f"pg_total_relation_size('{name}')" for name in _NAMES)
        (size,) = self._run(f"select {sizes}").fetchone() or (0,)
        return int(size)

    def close(self) -> None:
        self._connection.close()


def _connect(url: str) -> "psycopg.Connection[Any]":
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
    for name, value in _SESSION.items():
        connection.execute("select set_config(%s, %s, false)", (name, value))
    return connection
