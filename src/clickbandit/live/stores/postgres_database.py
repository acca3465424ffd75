"""A connection to a PostgreSQL server, as the statements of stores need it."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from typing import Any

from clickbandit.errors import InputError
from clickbandit.live.stores.database import Database, columns
from clickbandit.live.values import StoreError

try:
    import psycopg
    from psycopg.types.numeric import Int8Dumper
except ImportError as error:
    raise InputError(
        "a PostgreSQL store needs psycopg: install it with pip install 'clickbandit[postgres]'"
    ) from error

NAMES = (
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
"""Of the tables."""
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
_ROWS_TOGETHER = 32
"""Rows that one statement writes: psycopg sends each statement by itself, and the server wakes for each."""
_STEP = 4
"""Where a statement is for several rows their number is a multiple of this, so that there are not too many."""
_INSERTION = re.compile(r"insert into (\w+) \((.+?)\) values \((.+?)\)(.*)")


class PostgresDatabase(Database):
    """A connection to a server."""

    errors = psycopg.Error
    one_of = "= any(?)"
    position_of = "strpos"
    is_later = "not base"
    for_update = "for update"
    unlocked = "for update of {} skip locked"

    def __init__(self, url: str, *, reconnects: bool = False) -> None:
        self._url = url
        self._reconnects = reconnects
        """Also without `begin`: for statements that are transactions of their own."""
        self._settings = _SESSION if reconnects else _OF_BATCHES
        self._connect()
        self._begins = False
        """Whether a transaction begins with the next statement, which saves a wait."""
        self._types: dict[str, dict[str, str]] = {}
        """Of the columns of tables."""
        self._mark = ""
        """The function that gives the mark of the transaction."""

    def _connect(self) -> None:
        """Every statement by itself, except between `begin` and `commit`."""
        try:
            self._connection: psycopg.Connection[Any] = psycopg.connect(
                self._url,
                autocommit=True,
                cursor_factory=psycopg.RawCursor,  # the usual one would read long statements again each time
                connect_timeout=10,
                keepalives_idle=10,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=20_000,
                application_name="clickbandit",
            )
            # else a number has another type the larger it is, and a statement another plan for each
            self._connection.adapters.register_dumper(int, Int8Dumper)
            for setting in self._settings.items():
                self._connection.execute("select set_config($1, $2, false)", setting)
        except psycopg.Error as error:
            raise _failure(error) from error

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
            self._connection.close()

    def _reconnect(self) -> None:
        if self._connection.closed:
            self._connect()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Statements that are sent without waiting for one another.

        Should one fail, psycopg may take those after it for prepared, which they are not: the next transaction gets
        another connection.
        """
        try:
            with self._connection.pipeline():
                yield
        except (psycopg.Error, StoreError) as error:
            self._connection.close()
            raise error if isinstance(error, StoreError) else self.failure(error) from error

    def _execute(self, statement: str, values: Sequence[Any]) -> "psycopg.Cursor[Any]":
        if self._reconnects:
            self._reconnect()
        return self.cursor(statement, values)

    def cursor(self, statement: str, values: Sequence[Any] = ()) -> "psycopg.Cursor[Any]":
        if self._begins:
            self._begins = False
            self._connection.execute("begin")
        return self._connection.execute(_own(statement), values or None)

    def _execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        inserts = _INSERTION.fullmatch(statement)
        if inserts is None:
            for row in rows:
                self._execute(statement, row)
            return
        types = self._types_of(inserts[1])
        for n, some in _in_parts(rows):
            self._execute(_insert(statement, tuple(types.items()), len(some)), [*_values(some), n])

    def update(
        self, table: str, names: tuple[str, ...], rows: Sequence[Sequence[Any]], marked: bool = False
    ) -> None:
        types = tuple(self._types_of(table).items())
        for _, some in _in_parts(rows):
            self.run(_update(table, names, self._mark if marked else "", types, len(some)), _values(some))
            if marked:
                self._mark = "currval"

    def _types_of(self, table: str) -> dict[str, str]:
        if table not in self._types:
            self._types[table] = dict(
                self.rows(
                    "select attname, format_type(atttypid, null) from pg_attribute "
                    "where attrelid = cast(? as text)::regclass and attnum > 0 and not attisdropped",
                    (table,),
                )
            )
        return self._types[table]

    def failure(self, error: Exception) -> StoreError:
        if self._reconnects and isinstance(error, psycopg.OperationalError):
            self._connection.close()
        return _failure(error)

    def list_of(self, values: Collection[Any]) -> list[Any]:
        return list(values)

    def next_mark(self) -> None:
        """It is drawn by the first statement that sets it, after this has locked the table: see `last_mark`."""
        self._mark = "nextval"

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
        sizes = " + ".join(f"pg_total_relation_size('{name}')" for name in NAMES)
        return int(self.rows(f"select {sizes}")[0][0])

    def close(self) -> None:
        self._connection.close()


def _failure(error: Exception) -> StoreError:
    """One that may be gone at the next attempt is worth another."""
    said = " ".join(str(error).split()) or type(error).__name__
    return StoreError(f"PostgreSQL: {said}", retry=isinstance(error, _RETRY))


def _in_parts(rows: Sequence[Sequence[Any]]) -> Iterator[tuple[int, Sequence[Sequence[Any]]]]:
    """Rows that are written together, after how many they are: a statement may be for more, so the last is repeated."""
    for at in range(0, len(rows), _ROWS_TOGETHER):
        some = rows[at : at + _ROWS_TOGETHER]
        n = len(some)
        yield n, [*some, *[some[-1]] * (-n % _STEP)] if n > 1 else some


def _values(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """All of them; as text in columns where some are null, for null has no type, and psycopg takes a statement with
    other types for another one."""
    by_column = [
        list(map(_text, values)) if 0 < values.count(None) < len(rows) else values
        for values in zip(*rows, strict=True)
    ]
    return list(chain.from_iterable(zip(*by_column, strict=True)))


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return None if value is None else str(value)


@lru_cache(1000)
def _insert(statement: str, types: tuple[tuple[str, str], ...], n: int) -> str:
    """A statement that inserts a row, for the first few of n rows."""
    found = _INSERTION.fullmatch(statement)
    assert found is not None
    table, names, row, end = found.groups()
    type_of = dict(types)
    first = (
        f"?::{type_of[name[1:-1]]}" if value == "?" else value
        for name, value in zip(names.split(", "), row.split(", "), strict=True)
    )
    rows = ", ".join([f"({', '.join(first)})", *[f"({row})"] * (n - 1)])
    return f"insert into {table} ({names}) select * from (values {rows}) as new limit ?{end}"


@lru_cache(1000)
def _update(table: str, names: tuple[str, ...], mark: str, types: tuple[tuple[str, str], ...], n: int) -> str:
    """A statement that sets columns of n rows by their ids, each of which may be there twice, and the same mark."""
    type_of, given = dict(types), (*names, "id")
    first = ", ".join(f"?::{type_of[name]}" for name in given)
    rows = ", ".join([f"({first})", *[f"({', '.join('?' * len(given))})"] * (n - 1)])
    sets = ", ".join(
        [f'"{name}" = new."{name}"' for name in names] + [f"mark = (select {mark}('marks'))"] * bool(mark)
    )
    return (
        f"update {table} set {sets} from (values {rows}) as new ({columns(given)}) where {table}.id = new.id"
    )


@lru_cache(1000)
def _own(statement: str) -> bytes:
    """A statement with the database's placeholders."""
    head, *rest = statement.split("?")
    return (head + "".join(f"${k}{part}" for k, part in enumerate(rest, 1))).encode()
