"""A connection to a SQLite file, as the statements of stores need it."""

import json
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from clickbandit.live.stores.database import Database, columns
from clickbandit.live.values import StoreError

_KEYS_TOGETHER = 50
"""Keys that one statement looks for."""
_ROWS_TOGETHER = 32
"""Rows that one statement inserts: with a statement for each, the interpreter's lock is let go of for each."""


class SqliteDatabase(Database):
    """A connection to a file."""

    errors = sqlite3.Error
    one_of = "in (select value from json_each(?))"
    position_of = "instr"
    is_later = "base = 0"

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, cached_statements=256
        )

    def begin(self) -> None:
        self.run("begin immediate")

    def roll_back(self) -> None:
        with suppress(StoreError):  # what failed has ended the transaction
            if self._connection.in_transaction:
                self.run("rollback")

    def _execute(self, statement: str, values: Sequence[Any]) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def _execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        if not (statement.startswith("insert") and statement.endswith("?)")):
            self._connection.executemany(statement, rows)
            return
        for at in range(0, len(rows), _ROWS_TOGETHER):
            some = rows[at : at + _ROWS_TOGETHER]
            self._connection.execute(_for_rows(statement, len(some)), tuple(chain.from_iterable(some)))

    def update(
        self, table: str, names: tuple[str, ...], rows: Sequence[Sequence[Any]], marked: bool = False
    ) -> None:
        self.run_many(_update(table, names, marked), rows)

    def failure(self, error: Exception) -> StoreError:
        return StoreError(f"SQLite: {error}")

    def find(self, what: str, table: str, column: str, keys: Collection[Any]) -> list[tuple[Any, ...]]:
        wanted, found = list(keys), []
        for at in range(0, len(wanted), _KEYS_TOGETHER):
            some = wanted[at : at + _KEYS_TOGETHER]
            found += self.rows(_for_keys(what, table, column, len(some)), some)
        return found

    def run_script(self, script: str) -> None:
        self._connection.executescript(script)

    def list_of(self, values: Collection[Any]) -> str:
        return json.dumps(list(values))

    def next_mark(self) -> None:
        self.run("update meta set mark = coalesce(mark, 0) + 1")

    def last_mark(self) -> int:
        return int(self.rows("select coalesce(mark, 0) from meta")[0][0])

    def size(self) -> int:
        (pages,), (page,) = self.rows("pragma page_count")[0], self.rows("pragma page_size")[0]
        return int(pages * page)

    def close(self) -> None:
        self._connection.close()


@lru_cache
def _update(table: str, names: tuple[str, ...], marked: bool) -> str:
    sets = [f"{columns([name])} = ?" for name in names] + ["mark = (select mark from meta)"] * marked
    return f"update {table} set {', '.join(sets)} where id = ?"


@lru_cache
def _for_keys(what: str, table: str, column: str, n: int) -> str:
    """A selection of the rows that have one of n keys. SQLite would first put keys after `in` into a table of their
    own, which takes longer than to look for them."""
    keys = ", ".join(["(?)"] * n)
    return f"with keys (one) as (values {keys}) select {what} from keys cross join {table} on {column} = one"


@lru_cache(256)
def _for_rows(statement: str, n: int) -> str:
    """A statement that inserts one row, for n of them. Where it fails it ends the transaction: to undo it alone SQLite
    would copy every page that it changes, into a temporary file if there are many."""
    head, values, row = statement.replace("insert", "insert or rollback", 1).rpartition(" values ")
    return f"{head}{values}{', '.join([row] * n)}"
