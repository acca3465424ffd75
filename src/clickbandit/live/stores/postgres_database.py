"""A connection to a PostgreSQL server, as the statements of stores need it."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from clickbandit.errors import InputError
from clickbandit.live.stores.database import Database
from clickbandit.live.values import StoreError

try:
    import psycopg

    from clickbandit.live.stores.postgres_pipeline import ARRAY_OF, Pipeline, Result, Statement, array, write
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
_OF_BATCHES = (
    _SESSION
    | {"plan_cache_mode": "force_generic_plan"}
    | dict.fromkeys(("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin"), "off")
)
"""Batches look up rows by their keys. Plans made while the tables were empty would be kept, and read all of a table
each time; and only a plain scan of the index of what is due marks the entries of what was settled as dead."""
_RETRY = (psycopg.errors.UniqueViolation, psycopg.errors.LockNotAvailable, psycopg.OperationalError)
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
        self._gathered: list[Statement] | None = None
        """Those that are to be sent together."""
        self._types: dict[str, dict[str, int]] = {}
        """Of the columns of tables."""
        self._mark = ""
        """The function that gives the mark of the transaction."""

    def _connect(self) -> None:
        """Every statement by itself, except between `begin` and `commit`."""
        try:
            self._connection = psycopg.connect(
                self._url,
                autocommit=True,
                client_encoding="UTF8",
                connect_timeout=10,
                keepalives_idle=10,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=20_000,
                application_name="clickbandit",
            )
            self._pipeline = Pipeline(self._connection)
            self._pipeline.run(
                [_statement("select set_config(?, ?, false)", setting) for setting in self._settings.items()]
            )
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
        """Statements that write: they are sent at the end of this, all at once."""
        gathered: list[Statement] = []
        self._gathered = gathered
        try:
            yield
        finally:
            self._gathered = None
        try:
            self._send(gathered)
        except psycopg.Error as error:
            raise self.failure(error) from error

    def rows_of(self, *statements: tuple[str, Sequence[Any]]) -> list[list[tuple[Any, ...]]]:
        """What these statements give, which are sent at once."""
        try:
            found = self._send([_statement(*statement) for statement in statements])
        except psycopg.Error as error:
            raise self.failure(error) from error
        return [result.fetchall() for result in found]

    def _send(self, statements: Sequence[Statement]) -> list[Result]:
        if self._reconnects:
            self._reconnect()
        n = len(statements)
        if self._begins and n:
            self._begins = False
            statements = [_BEGIN, *statements]
        return self._pipeline.run(statements)[-n:] if n else []

    def _execute(self, statement: str, values: Sequence[Any]) -> Any:
        return self._add(_statement(statement, values))

    def _add(self, statement: Statement) -> Any:
        if self._gathered is None:
            return self._send([statement])[0]
        self._gathered.append(statement)
        return _Sent

    def _execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        if not _INSERTION.fullmatch(statement):
            for row in rows:
                self._execute(statement, row)
            return
        table, names, text = _insertion(statement)
        self._add(self._of_columns(text, table, names, rows))

    def update(
        self, table: str, names: tuple[str, ...], rows: Sequence[Sequence[Any]], marked: bool = False
    ) -> None:
        if not rows:
            return
        text = _update(table, names, self._mark if marked else "")
        if marked:
            self._mark = "currval"
        self._add(self._of_columns(text, table, (*names, "id"), rows))

    def _of_columns(
        self, text: bytes, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> Statement:
        """A statement whose values are arrays: of each of these columns, what all rows have."""
        types = [self._types_of(table)[name] for name in names]
        columns = zip(*rows, strict=True)
        values = [array(column, type_) for column, type_ in zip(columns, types, strict=True)]
        return Statement(text, tuple(ARRAY_OF[type_] for type_ in types), values)

    def _types_of(self, table: str) -> dict[str, int]:
        if table not in self._types:
            asked = (
                "select attname::text, atttypid::bigint from pg_attribute "
                "where attrelid = cast(? as text)::regclass and attnum > 0 and not attisdropped"
            )
            gathered, self._gathered = self._gathered, None
            try:
                self._types[table] = dict(self.rows(asked, (table,)))
            finally:
                self._gathered = gathered
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


class _Sent:
    """What is known of a statement that was not sent yet."""

    rowcount = -1


@lru_cache(1000)
def _insertion(statement: str) -> tuple[str, tuple[str, ...], bytes]:
    """The table, the columns that are given, and a statement that takes arrays of them."""
    found = _INSERTION.fullmatch(statement)
    assert found is not None
    table, names, row, end = found.groups()
    values = dict(zip(names.split(", "), row.split(", "), strict=True))
    given = [name for name, value in values.items() if value == "?"]
    selected = ", ".join(f"new.{name}" if value == "?" else value for name, value in values.items())
    text = f"insert into {table} ({names}) select {selected} from {_unnested(given)}{end}"
    return table, tuple(name[1:-1] for name in given), text.encode()


@lru_cache(1000)
def _update(table: str, names: tuple[str, ...], mark: str) -> bytes:
    """A statement that sets columns of rows by their ids, all of which get the same mark."""
    sets = ", ".join(
        [f'"{name}" = new."{name}"' for name in names] + [f"mark = (select {mark}('marks'))"] * bool(mark)
    )
    new = _unnested([f'"{name}"' for name in (*names, "id")])
    return f"update {table} set {sets} from {new} where {table}.id = new.id".encode()


def _unnested(names: Sequence[str]) -> str:
    """Rows made of arrays, one for each of these columns."""
    return f"unnest({', '.join(f'${k}' for k in range(1, len(names) + 1))}) as new ({', '.join(names)})"


def _statement(text: str, values: Sequence[Any] = ()) -> Statement:
    return Statement(_own(text), *write(values))


@lru_cache(1000)
def _own(statement: str) -> bytes:
    """A statement with the database's placeholders."""
    head, *rest = statement.split("?")
    return (head + "".join(f"${k}{part}" for k, part in enumerate(rest, 1))).encode()


_BEGIN = _statement("begin")
