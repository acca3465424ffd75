"""A store in one SQLite file, for one process: write-ahead log, every commit on disk before it is acknowledged."""

import fcntl
import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from operator import attrgetter
from pathlib import Path
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

VERSION = 2
"""Of the tables below."""

_TABLES = f"""
create table meta (version integer not null);
insert into meta values ({VERSION});

create table queries (
    id integer primary key, name text not null unique, policy text not null, positions integer not null,
    horizon integer not null, window integer, created integer not null, frozen text, updated integer not null,
    number integer not null, snapshot integer not null, generation integer not null, items integer not null,
    impressions integer not null,
    learned integer not null, settled integer not null, voided integer not null, clicks integer not null,
    late integer not null, treated integer not null, treated_clicks integer not null,
    treated_squares integer not null, held_out integer not null, held_out_clicks integer not null,
    held_out_squares integer not null, progress integer not null, idle integer not null
);

create table impressions (
    number integer primary key, id text not null unique, query integer not null, at integer not null,
    expires integer not null, source integer not null, compared integer not null, items text not null,
    body blob not null, propensities blob, learning blob, outcome integer not null, clicks integer not null
);
create index due on impressions (expires) where outcome = {PENDING};

create table events (
    number integer primary key, key text not null unique, impression text not null, item text not null,
    at integer not null, late integer not null, timestamp text
);

create table log (
    query integer not null, number integer not null, records blob not null, at integer not null,
    primary key (query, number)
) without rowid;

create table snapshots (
    query integer not null, number integer not null, state blob not null, at integer not null,
    base integer not null default 0, primary key (query, number)
) without rowid;
create index to_prune on snapshots (at) where base = 0;

create table histories (query integer primary key, history blob not null);
"""

_QUERY = ", ".join(QUERY_COLUMNS)
_IMPRESSION = ", ".join(IMPRESSION_COLUMNS)
_FIXED = ("id", "name", "created")
_CHANGING = [name for name in QUERY_COLUMNS if name not in _FIXED]
_SET_QUERY = ", ".join(f"{name} = ?" for name in _CHANGING)
_query_values = attrgetter(*_CHANGING, "id")
_NEW_IMPRESSION = (
    f"insert into impressions ({_IMPRESSION}) values ({', '.join('?' * len(IMPRESSION_COLUMNS))})"
)
_impression_values = attrgetter(*IMPRESSION_COLUMNS)
_IN_LIST = "in (select value from json_each(?))"
_FIND_IMPRESSIONS = f"select {_IMPRESSION} from impressions where id {_IN_LIST}"
_FIND_NAMES = f"select {_QUERY} from queries where name {_IN_LIST}"
_FIND_QUERIES = f"select {_QUERY} from queries where id {_IN_LIST}"
_LATER = [name for name in QUERY_COLUMNS if name not in ("id", *NewQuery._fields)]
_NEW_QUERY = (
    f"insert into queries ({', '.join([*NewQuery._fields, *_LATER])}) "
    f"values ({', '.join('?' * (len(QUERY_COLUMNS) - 1))})"
)
_NEW_QUERY_REST = [getattr(QueryRow(0, "", "", 0, 0, None, 0), name) for name in _LATER]
_CACHE_KIB = 65_536
_CHECKPOINT_PAGES = 4000

P = ParamSpec("P")
R = TypeVar("R")


def _guarded(method: Callable[P, R]) -> Callable[P, R]:
    """SQLite's errors as the store's."""

    @wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except sqlite3.Error as error:
            raise StoreError(f"SQLite: {error}") from error

    return guarded


class SqliteStore:
    """See `clickbandit.live.store.Store`."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock_file = _lock(self.path)
        try:
            self._connection = _connect(self.path)
            self._connection.execute("pragma journal_mode = wal")
            self._connection.execute("pragma synchronous = full")
            self._connection.execute(f"pragma cache_size = -{_CACHE_KIB}")
            self._connection.execute(f"pragma wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            self._make_tables()
            (self._n_queries,) = self._connection.execute("select count(*) from queries").fetchone()
            self._n_created = 0
        except sqlite3.Error as error:
            os.close(self._lock_file)
            raise InputError(f"{path} cannot be used as a store: {error}") from error
        except InputError:
            os.close(self._lock_file)
            raise

    def _make_tables(self) -> None:
        run = self._connection.execute
        names = {name for (name,) in run("select name from sqlite_master where type = 'table'")}
        if not names:
            self._connection.executescript(f"begin;{_TABLES}commit;")
            return
        found = run("select version from meta").fetchone() if "meta" in names else None
        if found != (VERSION,):
            raise InputError(
                f"{self.path} must hold the tables of a ranker, version {VERSION}, found "
                f"{f'version {found[0]}' if found else 'other tables'}: name another file"
            )

    # --- transactions ---------------------------------------------------------------------------------------

    @_guarded
    def begin(self) -> None:
        self._connection.execute("begin immediate")

    @_guarded
    def commit(self) -> None:
        self._connection.execute("commit")
        self._n_queries += self._n_created
        self._n_created = 0

    def rollback(self) -> None:
        self._n_created = 0
        try:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
        except sqlite3.Error:
            pass  # what failed has ended the transaction

    @_guarded
    def due(self, now: int, limit: int) -> list[str]:
        rows = self._connection.execute(
            f"select id from impressions where outcome = {PENDING} and expires <= ? order by expires, number limit ?",
            (now, limit),
        )
        return [id for (id,) in rows]

    @_guarded
    def lock(
        self, names: Collection[str], ids: Collection[str], new: Sequence[NewQuery], most: int
    ) -> Locked:
        impressions = {row[0]: ImpressionRow(*row) for row in self._find(_FIND_IMPRESSIONS, ids)}
        queries = {row[1]: QueryRow(*row) for row in self._find(_FIND_NAMES, names)}
        created = [query for query in new if query.name not in queries]
        if created:
            created = created[: max(0, most - self._n_queries)]
            self._connection.executemany(_NEW_QUERY, [(*query, *_NEW_QUERY_REST) for query in created])
            self._n_created += len(created)
            for row in self._find(_FIND_NAMES, [query.name for query in created]):
                queries[row[1]] = QueryRow(*row)
        known = {query.id for query in queries.values()}
        others = {impression.query for impression in impressions.values()} - known
        for row in self._find(_FIND_QUERIES, others):
            queries[row[1]] = QueryRow(*row)
        return Locked(queries, impressions)

    def _find(self, select: str, keys: Collection[str] | Collection[int]) -> Iterable[tuple[Any, ...]]:
        return self._connection.execute(select, (json.dumps(list(keys)),)) if keys else ()

    @_guarded
    def known_events(self, keys: Sequence[str]) -> set[str]:
        return {key for (key,) in self._find(f"select key from events where key {_IN_LIST}", keys)}

    @_guarded
    def snapshot(self, query: int, *, oldest: bool = False) -> Snapshot | None:
        row = self._connection.execute(
            "select query, number, state, at from snapshots where query = ? "
            f"order by number {'asc' if oldest else 'desc'} limit 1",
            (query,),
        ).fetchone()
        return None if row is None else Snapshot(*row)

    @_guarded
    def log(self, query: int, after: int) -> Iterable[LogRow]:
        rows = self._connection.execute(
            "select query, number, records, at from log where query = ? and number > ? order by number",
            (query, after),
        )
        return [LogRow(*row) for row in rows]

    @_guarded
    def history(self, query: int) -> bytes | None:
        row = self._connection.execute("select history from histories where query = ?", (query,)).fetchone()
        return None if row is None else row[0]

    @_guarded
    def save(self, changes: Changes) -> None:
        many = self._connection.executemany
        if changes.queries:
            many(f"update queries set {_SET_QUERY} where id = ?", map(_query_values, changes.queries))
        if changes.impressions:
            many(_NEW_IMPRESSION, map(_impression_values, changes.impressions))
        if changes.touched:
            many(
                "update impressions set outcome = ?, clicks = ? where id = ?",
                [(i.outcome, i.clicks, i.id) for i in changes.touched],
            )
        if changes.events:
            many(
                "insert into events (key, impression, item, at, late, timestamp) values (?, ?, ?, ?, ?, ?)",
                changes.events,
            )
        if changes.log:
            many("insert into log values (?, ?, ?, ?)", changes.log)
        if changes.snapshots:
            many("insert into snapshots (query, number, state, at) values (?, ?, ?, ?)", changes.snapshots)
        if changes.histories:
            many("insert or replace into histories values (?, ?)", changes.histories)

    # --- keeping it small -----------------------------------------------------------------------------------

    @_guarded
    def prune(self, before: int, limit: int) -> int:
        with self._transaction() as run:
            gone = run(
                "delete from impressions where number in (select number from impressions order by number limit ?) "
                f"and at < ? and outcome != {PENDING}",
                (limit, before),
            ).rowcount
            gone += run(
                "delete from events where number in (select number from events order by number limit ?) and at < ?",
                (limit, before),
            ).rowcount
            # once a snapshot is that old its query's log starts from it
            old = run(
                "select query, number from snapshots where base = 0 and at < ? order by at limit ?",
                (before, limit),
            ).fetchall()
            for query, number in old:
                gone += run("delete from log where query = ? and number <= ?", (query, number)).rowcount
                gone += run("delete from snapshots where query = ? and number < ?", (query, number)).rowcount
                run("update snapshots set base = 1 where query = ? and number = ?", (query, number))
            return gone

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        self._connection.execute("begin immediate")
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
    def reader(self) -> "SqliteReader":
        return SqliteReader(self.path)

    def close(self) -> None:
        self._connection.close()
        os.close(self._lock_file)


class SqliteReader:
    """See `clickbandit.live.store.Reader`."""

    def __init__(self, path: Path) -> None:
        self._connection = _connect(path)
        self._connection.execute("pragma query_only = true")

    @_guarded
    def queries(self, listing: Listing) -> tuple[list[QueryRow], int]:
        wanted = {"instr(lower(name), lower(?)) > 0": listing.search, f"{STATE} = ?": listing.state}
        conditions = [condition for condition, value in wanted.items() if value]
        where = f"where {' and '.join(conditions)}" if conditions else ""
        given = [value for value in wanted.values() if value]
        (total,) = self._connection.execute(f"select count(*) from queries {where}", given).fetchone()
        column = "name" if listing.sort == "query" else listing.sort
        order = f"order by {column} {'desc' if listing.descending else 'asc'}, name"
        page = f"select id from queries {where} {order} limit ? offset ?"  # sorts no more than it must
        rows = self._connection.execute(
            f"select {_QUERY} from queries where id in ({page}) {order}",
            (*given, listing.limit, listing.offset),
        )
        return [QueryRow(*row) for row in rows], total

    @_guarded
    def query(self, name: str) -> tuple[QueryRow, bytes | None] | None:
        row = self._connection.execute(
            f"select {_QUERY}, history from queries left join histories on query = id where name = ?", (name,)
        ).fetchone()
        return None if row is None else (QueryRow(*row[:-1]), row[-1])

    @_guarded
    def recent(self, query: int, among: int, limit: int) -> list[ImpressionRow]:
        rows = self._connection.execute(
            f"select {_IMPRESSION} from impressions where query = ? "
            "and number > (select max(number) from impressions) - ? order by number desc limit ?",
            (query, among, limit),
        )
        return [ImpressionRow(*row) for row in rows]

    @_guarded
    def states(self) -> dict[State, int]:
        return dict(self._connection.execute(f"select {STATE}, count(*) from queries group by 1").fetchall())

    @_guarded
    def delays(self, among: int) -> Delays:
        rows = self._connection.execute(
            "select events.at - impressions.at, late from events join impressions on id = impression "
            "where events.number > (select max(number) from events) - ?",
            (among,),
        ).fetchall()
        return Delays([milliseconds for milliseconds, _ in rows], sum(late for _, late in rows))

    @_guarded
    def oldest(self) -> int | None:
        row = self._connection.execute("select at from impressions order by number limit 1").fetchone()
        return None if row is None else row[0]

    @_guarded
    def totals(self) -> Totals:
        sums = ", ".join(f"coalesce(sum({name}), 0)" for name in Totals._fields[3:])
        row = self._connection.execute(
            f"select count(*), coalesce(sum(learned > horizon), 0), count(frozen), {sums} from queries"
        ).fetchone()
        return Totals(*row)

    @_guarded
    def size(self) -> int:
        run = self._connection.execute
        (pages,), (page,) = run("pragma page_count").fetchone(), run("pragma page_size").fetchone()
        return int(pages * page)

    def close(self) -> None:
        self._connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)


def _lock(path: Path) -> int:
    """Keep other processes away for as long as this one lives, however it ends."""
    name = path.with_name(path.name + "-lock")
    try:
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(f"{path} cannot be used as a store: {error}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(file, 100).decode(errors="replace").strip()
        os.close(file)
        raise InputError(
            f"{path} is in use by process {owner or 'unknown'}, and a SQLite store serves one at a time: close that "
            "one, name another file, or use PostgreSQL for many"
        ) from None
    os.ftruncate(file, 0)
    os.write(file, f"{os.getpid()}\n".encode())
    return file
