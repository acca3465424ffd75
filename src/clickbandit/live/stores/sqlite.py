"""A store in one SQLite file, for one process: write-ahead log, every commit on disk before it is acknowledged."""

import fcntl
import logging
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from clickbandit.errors import InputError
from clickbandit.live.stores.behind import Behind
from clickbandit.live.stores.cache import Rows
from clickbandit.live.stores.checkpoints import Checkpoints
from clickbandit.live.stores.contract import Changes, Locked, Part
from clickbandit.live.stores.database import insert
from clickbandit.live.stores.migrations import VERSION, steps
from clickbandit.live.stores.reading import Decision
from clickbandit.live.stores.rows import QUERY_COLUMNS, LogRow, NewQuery, QueryRow
from clickbandit.live.stores.schema import tables
from clickbandit.live.stores.sql import SqlStore
from clickbandit.live.stores.sql_reader import QUERY, SqlReader
from clickbandit.live.stores.sqlite_database import SqliteDatabase
from clickbandit.live.values import StoreError, Unreachable

_TABLES = tables("sqlite")
_DEFAULT_COLUMNS = [name for name in QUERY_COLUMNS if name not in ("id", *NewQuery._fields)]
_NEW_QUERY = insert("queries", [*NewQuery._fields, *_DEFAULT_COLUMNS])
_NEW_QUERY_REST = [getattr(QueryRow(0, "", "", 0, 0, None, 0), name) for name in _DEFAULT_COLUMNS]
_CACHE_KIB = 65_536
_MODE = 0o600
"""Of files: what users clicked is nobody else's business."""
_MAX_LOG = 16_000
"""Pages of the write-ahead log before SQLite itself moves them: see `checkpoints`."""
_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL)
"""Errors that may be over later."""

log = logging.getLogger("clickbandit.live")


class SqliteStore(SqlStore):
    """See `clickbandit.live.stores.contract.Store`."""

    database: SqliteDatabase
    settles_between = True

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()  # a link has the same lock
        try:
            with ExitStack() as undo:  # a connection that is left open would meet what becomes of the file
                self._lock_file = _lock(self.path)
                undo.callback(os.close, self._lock_file)
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE))
                self.database = SqliteDatabase(self.path)
                undo.callback(self.database.close)
                self._checkpoints = Checkpoints(SqliteDatabase(self.path))
                undo.callback(self._checkpoints.close)
                self._set_up()
                undo.pop_all()
        except (sqlite3.Error, StoreError, OSError) as error:
            said = str(error).removeprefix("SQLite: ")
            code = getattr(error.__cause__ or error, "sqlite_errorcode", None)
            kind = Unreachable if code is not None and code & 0xFF in _PASSING else InputError
            raise kind(f"{path} cannot be used as a store: {said}") from error

    def _set_up(self) -> None:
        found = os.stat(self.path)
        self._file = found.st_dev, found.st_ino
        for setting in (
            "journal_mode = wal",
            "synchronous = full",
            f"cache_size = -{_CACHE_KIB}",
            f"wal_autocheckpoint = {_MAX_LOG}",
        ):
            self.database.run(f"pragma {setting}")
        self._behind = Behind(self.database)
        self._rows = Rows(self.database, self._behind)
        self._version = 0
        self._unsure = False
        """Whether a transaction may have been committed or not."""
        self._make_tables()
        self._recover()
        ((self._n_queries,),) = self.database.rows("select count(*) from queries")
        self._checkpoints.begin()

    def begin(self) -> None:
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise StoreError(f"SQLite: {self.path} is gone: {error.strerror}") from None
        if (found.st_dev, found.st_ino) != self._file:
            raise StoreError(f"SQLite: {self.path} is another file than was opened: start again to use it")
        super().begin()
        ((version,),) = self.database.rows("pragma data_version")
        if version != self._version:  # somebody else has written to the file
            self._rows.clear()
            self._version = version
            self._unsure = True
        self._make_sure()

    def probe(self) -> None:
        self.begin()
        self.rollback()
        super().probe()

    def _make_tables(self) -> None:
        rows = self.database.rows
        names = {name for (name,) in rows("select name from sqlite_master where type = 'table'")}
        if not names:
            self.database.run_script(f"begin;{_TABLES}commit;")
            return
        found = rows("select version from meta")[0][0] if "meta" in names else None
        upgrade = steps(str(self.path), found, "sqlite")
        if upgrade:
            self._back_up(f"{self.path}.version-{found}")
            with self._transaction() as run:
                for statement in upgrade:
                    run(statement)
                run("update meta set version = ?", (VERSION,))

    def _recover(self) -> None:
        """Put into their tables what a process that was killed left behind."""
        damaged = self._behind.load()
        if damaged:
            log.error("%s: %d batches of rows are not what was written, and left out", self.path, damaged)
        self._put_all()

    def _put_all(self) -> None:
        with self._transaction():
            self._put_waiting()

    def _put_waiting(self) -> None:
        self._make_sure()
        self._unsure = True
        self._behind.put_all()

    def _make_sure(self) -> None:
        """Read what waits, if it is not known which transactions were committed."""
        if self._unsure:
            self._behind.load()
            self._unsure = False

    def _back_up(self, path: str) -> None:
        """Copy everything to another file, which is there under its name only when it is whole."""
        unfinished = f"{path}-unfinished"
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
        self.database.run("vacuum into ?", (unfinished,))
        with open(unfinished, "rb+") as file:
            os.fchmod(file.fileno(), _MODE)
            os.fsync(file.fileno())
        os.replace(unfinished, path)

    def _open(self) -> SqliteDatabase:
        database = SqliteDatabase(self.path)
        database.run("pragma query_only = true")
        return database

    def lock(
        self,
        names: Collection[str],
        ids: Collection[str],
        new: Sequence[NewQuery],
        max_queries: int,
        clicked: Collection[str] = (),
        now: int = 0,
        events: Collection[str] = (),
    ) -> Locked:
        queries = {row.name: row for row in self._rows.queries(names)}
        created = [query for query in new if query.name not in queries]
        if created:
            self._make(_NEW_QUERY, [(*query, *_NEW_QUERY_REST) for query in created], max_queries)
            made = self.database.find(QUERY, "queries", "name", [query.name for query in created])
            queries |= {row[1]: QueryRow(*row) for row in made}
        known = self.database.find("key", "events", "key", set(events))
        locked = Locked(queries, {}, {key for (key,) in known})
        self._lend({*ids, *clicked}, locked)
        return locked

    def take_due(self, now: int, limit: int, part: Part, locked: Locked) -> list[str]:
        due = self.due(now, limit)
        self._lend(due, locked)
        return due

    def _lend(self, ids: Collection[str], locked: Locked) -> None:
        """Add impressions to those of a batch, and the queries that they are of."""
        if not ids:
            return
        rows = self._rows.impressions(ids)
        for row in rows:
            locked.impressions.setdefault(row.id, row)
        others = {row.query for row in rows} - {query.id for query in locked.queries.values()}
        for query in self._rows.queries_by_id(others):
            locked.queries[query.name] = query

    def log(self, query: int, after: int) -> Iterable[LogRow]:
        return [*super().log(query, after), *self._behind.log(query, after)]

    def save(self, changes: Changes) -> None:
        self._unsure = True
        super().save(changes)

    def _save_queries(self, changes: Changes) -> None:
        self._rows.expect(changes)
        self._behind.add(changes)

    def _commit(self) -> None:
        super()._commit()
        self._unsure = False
        self._behind.keep()
        self._rows.keep()
        self._checkpoints.committed(self.database)

    def rollback(self) -> None:
        self._unsure |= self._rows.lent  # and so may have been changed
        self._behind.drop()
        self._rows.drop()
        super().rollback()

    def prune(self, before: int, limit: int, keep: Callable[[list[Decision]], None] | None = None) -> int:
        self._rows.forget_before(before)
        return super().prune(before, limit, keep)

    def evict(self, before: int, limit: int) -> list[int]:
        self._put_all()
        return super().evict(before, limit)

    def _delete(self, queries: Sequence[int]) -> None:
        self._put_waiting()  # which may be about these, and another may get their ids
        self._rows.clear()
        super()._delete(queries)

    def close(self) -> None:
        with suppress(StoreError):  # else it is done when the file is next opened
            self._put_all()
        self._checkpoints.close()
        super().close()
        os.close(self._lock_file)


def open_file(path: Path) -> SqlReader:
    """Reads a file that another process may serve."""
    if not path.is_file():
        raise InputError(
            f"{path} must be the file of a store, found none: name that of clickbandit serve --store"
        )
    database = SqliteDatabase(path)
    try:
        database.run("pragma query_only = true")
        tables = database.rows("select name from sqlite_master where name = 'meta'")
        found = database.rows("select version from meta")[0][0] if tables else None
        if steps(str(path), found, "sqlite"):
            raise InputError(
                f"{path} was written by an earlier version of clickbandit: serve it once, which brings it up to date"
            )
    except (StoreError, InputError) as error:
        database.close()
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read as a store: {error}") from None
    return SqlReader(database)


def _lock(path: Path) -> int:
    """Keep other processes away for as long as this one lives, however it ends."""
    name = path.with_name(path.name + "-lock")
    try:
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
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
