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
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from operator import attrgetter

from clickbandit.errors import InputError
from clickbandit.live.stores.contract import LATE, SLOTS, Changes, Locked, Part, takes_clicks
from clickbandit.live.stores.database import insert
from clickbandit.live.stores.migrations import VERSION, steps
from clickbandit.live.stores.postgres_database import NAMES, PostgresDatabase
from clickbandit.live.stores.rows import PENDING, ImpressionRow, NewQuery, QueryRow
from clickbandit.live.stores.schema import tables
from clickbandit.live.stores.sql import SqlStore
from clickbandit.live.stores.sql_reader import IMPRESSION, QUERY, SqlReader
from clickbandit.live.values import StoreError, Unreachable

_TABLES = f"{tables('postgresql')}create sequence marks"
_TAKES_CLICKS = f"(outcome = {PENDING} and reward is null and expires > ?)"
"""As `takes_clicks` has it."""
_NEW_QUERY = f"{insert('queries', NewQuery._fields)} on conflict (name) do nothing"
_LOCK_QUERIES = (
    f"select {QUERY} from queries where id in (select id from queries where name = any(?) "
    "union select query from impressions where id = any(?) "
    f"union select query from impressions where id = any(?) and not {_TAKES_CLICKS}) order by id for update"
)
_LOCK_IMPRESSIONS = f"select {IMPRESSION} from impressions where id = any(?) order by id for update"
_KNOWN_EVENTS = "select key from events where key = any(?)"
_SLOT = f"(coalesce(offer, 0) & {SLOTS - 1})"
"""Of an impression; those of older tables may have no offer, and then somebody settles them."""
_COUNT_AGAIN = 60.0
"""Seconds after which the queries are counted again, since other processes add some too."""


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
            except StoreError as error:
                said = str(error).removeprefix("PostgreSQL: ")
                raise (Unreachable if error.retry else InputError)(
                    f"the PostgreSQL database cannot be used as a store: {said}"
                ) from error
            failed.pop_all()
        self._counted_at = -_COUNT_AGAIN

    def _make_tables(self) -> None:
        with self._transaction() as run:
            run("select pg_advisory_xact_lock(hashtext('clickbandit tables'))")  # workers start at once
            found = self._find_tables(NAMES)
            if not found:
                for statement in _TABLES.split(";"):
                    run(statement)
                return
            row = self.database.row("select version from meta") if "meta" in found else None
            version = None if row is None else row[0]
            upgrade = steps("the PostgreSQL database", version, "postgresql")
            if upgrade:
                copies = {name: f"{name}_version_{version}" for name in found}
                if kept := self._find_tables(copies.values()):
                    raise InputError(
                        "the PostgreSQL database must have no copies of tables that are to be upgraded, found "
                        f"{', '.join(kept)} of another upgrade: drop or rename them, and start again"
                    )
                run("set local statement_timeout = 0")  # everything is copied
                for name, copy in copies.items():
                    run(f"create table {copy} as table {name}")
                for statement in upgrade:
                    run(statement)
                run("update meta set version = ?", (VERSION,))

    def _find_tables(self, names: Collection[str]) -> list[str]:
        """Those of them that are there."""
        name = "table_schema = current_schema() and table_name"
        return sorted(
            found for (found,) in self.database.find("table_name", "information_schema.tables", name, names)
        )

    def _open(self) -> PostgresDatabase:
        return PostgresDatabase(self._url, reconnects=True)

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
        events: Collection[str] = (),
    ) -> Locked:
        wanted = list(names), list(ids), list(clicked), now, list(events)
        locked = self._lock(*wanted)
        missing = sorted((query for query in new if query.name not in locked.queries), key=attrgetter("name"))
        if missing and self._count() < max_queries:
            self.database.run("rollback")  # a process that adds a query must hold no other
            self.database.run("begin")
            self._make(_NEW_QUERY, missing, max_queries)
            locked = self._lock(*wanted)
        return locked

    def _lock(
        self, names: list[str], ids: list[str], clicked: list[str], now: int, events: list[str]
    ) -> Locked:
        rows, found, known = self.database.rows_of(
            (_LOCK_QUERIES, (names, ids, clicked, now)),
            (_LOCK_IMPRESSIONS, (ids + clicked,)),
            (_KNOWN_EVENTS, (events,)),
        )
        locked = Locked(
            {row[1]: QueryRow(*row) for row in rows},
            {row[0]: ImpressionRow(*row) for row in found},
            {key for (key,) in known},
        )
        held, only_clicked = {row[0] for row in rows}, set(clicked)
        for row in locked.impressions.values():
            # made or settled by another process between these two statements: its query must be locked first
            if row.query not in held and not (row.id in only_clicked and takes_clicks(row, now)):
                raise StoreError("PostgreSQL: an impression changed meanwhile", retry=True)
        return locked

    def take_due(self, now: int, limit: int, part: Part, locked: Locked) -> list[str]:
        own = f"(mod({_SLOT}, ?) = ? or expires <= ?)" if part.of > 1 else "true"
        values = (part.of, part.number, now - LATE) if part.of > 1 else ()
        ids = [
            id
            for (id,) in self.database.rows(
                "select impressions.id from impressions join queries on queries.id = query "
                f"where outcome = {PENDING} and expires <= ? and {own} order by expires, impressions.number limit ? "
                f"{self.database.unlocked.format('queries, impressions')}",
                (now, *values, limit),
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
        with self.database.together():
            super().save(ordered)


def open_database(url: str) -> SqlReader:
    """Reads a database that others may serve."""
    try:
        database = PostgresDatabase(url, reconnects=True)
    except StoreError as error:
        said = str(error).removeprefix("PostgreSQL: ")
        raise InputError(f"the PostgreSQL database cannot be read as a store: {said}") from None
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
