"""Statements that go to a PostgreSQL server together, and are waited for once.

psycopg sends each statement by itself and waits for it, which takes longer than the statement, in its pipeline too; so
this uses psycopg's interface to libpq, `psycopg.pq`. Values go as PostgreSQL has them in memory, and a list of them is
an array, so that one statement writes any number of rows.
"""

import itertools
import select
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus

MAX_PREPARED = 500
"""Statements that the server keeps for a connection; what comes when there are as many is planned each time."""
BOOL, BYTES, INT, TEXT, FLOAT = 16, 17, 20, 25, 701
"""The types of columns, as the server numbers them."""
ARRAY_OF = {BOOL: 1000, BYTES: 1001, INT: 1016, TEXT: 1009, FLOAT: 1022}
_TYPES = {bool: BOOL, bytes: BYTES, int: INT, str: TEXT, float: FLOAT}
_Key = tuple[bytes, tuple[int, ...]]
"""Of a statement: its text and types."""
_BINARY = 1
_ARRAY = struct.Struct(">iiIii")
"""Its dimensions, whether there are nulls, the type, and of its only dimension the length and the first number."""
_LENGTH = struct.Struct(">i").pack
_NULL = _LENGTH(-1)
_WRITE: dict[int, Callable[[Any], bytes]] = {
    BOOL: struct.Struct(">?").pack,
    BYTES: bytes,
    INT: struct.Struct(">q").pack,
    TEXT: str.encode,
    FLOAT: struct.Struct(">d").pack,
}


class Statement(NamedTuple):
    """One to be run, with its values as the server takes them."""

    text: bytes
    """Values stand as `$1`."""
    types: tuple[int, ...]
    """Of its values."""
    values: Sequence[bytes | None]


def write(values: Sequence[Any]) -> tuple[tuple[int, ...], list[bytes | None]]:
    """Values and their types, as these are in Python; a list is an array of what its first value is, or of text."""
    types: list[int] = []
    written: list[bytes | None] = []
    for value in values:
        if isinstance(value, list):
            type_ = _type_of(value[0]) if value else TEXT
            types.append(ARRAY_OF[type_])
            written.append(array(value, type_))
        elif value is None:
            types.append(0)
            written.append(None)
        else:
            types.append(type_ := _type_of(value))
            written.append(_to_bytes(value, type_))
    return tuple(types), written


def _type_of(value: Any) -> int:
    found = _TYPES.get(type(value))
    if found is not None:
        return found
    for kind, type_ in _TYPES.items():
        if isinstance(value, kind):
            return type_
    raise psycopg.DataError(f"a store has no type for {type(value).__name__}")


def _to_bytes(value: Any, type_: int) -> bytes:
    try:
        return _WRITE[type_](value)
    except struct.error as error:
        raise psycopg.DataError(f"{value!r:.100} cannot be stored: {error}") from error


def array(values: Sequence[Any], type_: int) -> bytes:
    parts = [_ARRAY.pack(1, 1, type_, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            written = _to_bytes(value, type_)
            parts += (_LENGTH(len(written)), written)
    return b"".join(parts)


class Result:
    """What a statement gave."""

    def __init__(self, found: Any, transformer: Any) -> None:
        self._found = found
        self._transformer = transformer

    @property
    def rowcount(self) -> int:
        return int(self._found.command_tuples or 0)

    def fetchall(self) -> list[tuple[Any, ...]]:
        self._transformer.set_pgresult(self._found)
        rows: list[tuple[Any, ...]] = self._transformer.load_rows(0, self._found.ntuples, tuple)
        return rows


class Pipeline:
    """The way of one connection's statements to the server."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._pg = connection.pgconn
        self._transformer = Transformer(connection)
        self._names: dict[_Key, bytes] = {}
        """Of statements that the server has prepared."""
        self._numbers = itertools.count(1)
        self._ready = select.poll()
        self._pg.enter_pipeline_mode()

    def run(self, statements: Sequence[Statement]) -> list[Result]:
        """Run them, one after another: a `psycopg.Error` if one fails, and then those after it are not run."""
        results: list[Result] = []
        failure: psycopg.Error | None = None
        try:
            new: dict[_Key, bytes] = {}
            sent: list[_Key | None] = []
            for statement in statements:
                self._send(statement, new, sent)
            self._pg.pipeline_sync()
            while self._pg.flush():
                self._wait(select.POLLIN | select.POLLOUT)
            for prepared in sent:
                found = self._next()
                if found.status == ExecStatus.FATAL_ERROR:
                    failure = error_from_result(found)
                elif prepared is None:
                    results.append(Result(found, self._transformer))
                elif found.status == ExecStatus.COMMAND_OK:
                    self._names[prepared] = new[prepared]
            while (found := self._next()).status != ExecStatus.PIPELINE_SYNC:
                failure = error_from_result(found)  # of the end of a transaction that nobody began
        except BaseException as error:  # what comes next would be taken for the answers to other statements
            self._pg.finish()
            # else the server said first why it ended
            if failure is None or not isinstance(error, psycopg.Error):
                raise
        if failure is not None:
            raise failure
        return results

    def _send(self, statement: Statement, new: dict[_Key, bytes], sent: list[_Key | None]) -> None:
        """Send a statement, and have it prepared before if it is new; add what there will be answers to."""
        text, types, values = statement
        formats, key = [_BINARY] * len(values), (text, types)
        name = self._names.get(key) or new.get(key)
        if name is None and len(self._names) + len(new) < MAX_PREPARED:
            name = new[key] = b"_%d" % next(self._numbers)
            self._pg.send_prepare(name, text, types)
            sent.append(key)
        if name is None:
            self._pg.send_query_params(text, values, types, formats, _BINARY)
        else:
            self._pg.send_query_prepared(name, values, formats, _BINARY)
        sent.append(None)

    def _next(self) -> Any:
        """The answer to the next statement."""
        while True:
            while self._pg.is_busy():
                self._wait(select.POLLIN)
            found = self._pg.get_result()
            if self._pg.status == ConnStatus.BAD:
                said = self._pg.error_message if found is None else found.error_message
                raise psycopg.OperationalError(said.decode("utf-8", "replace"))
            if found is not None:  # which ends the answers to a statement
                return found

    def _wait(self, events: int) -> None:
        self._ready.register(self._pg.socket, events)
        self._ready.poll()
        self._pg.consume_input()
