"""A connection to a database, as the statements of stores need it. Values stand as `?`."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from clickbandit.live.values import StoreError


def columns(names: Iterable[str]) -> str:
    """Names as a statement has them: quoted, since some mean something to a database."""
    return ", ".join(f'"{name}"' for name in names)


def insert(table: str, names: Collection[str]) -> str:
    return f"insert into {table} ({columns(names)}) values ({', '.join('?' * len(names))})"


class Insertion:
    """Rows of a table, without the columns that have their usual value in all of them: each costs time.

    >>> Insertion("boxes", ("id", "lid", "label"), {"lid": 0, "label": None}).of([(1, 0, None), (2, 0, "red")])
    ('insert into boxes ("lid", "id", "label") values (0, ?, ?)', [(1, None), (2, 'red')])
    """

    def __init__(self, table: str, names: Sequence[str], usual: Mapping[str, int | None]) -> None:
        self._table = table
        self._names = names
        self._usual = [(k, usual[name]) for k, name in enumerate(names) if name in usual]
        self._statement = lru_cache(None)(self._write)

    def of(self, rows: Collection[Sequence[Any]]) -> tuple[str, list[Sequence[Any]]]:
        """A statement, and its values for each of these rows."""
        values = list(zip(*rows, strict=True))
        left_out = tuple([k for k, usual in self._usual if values and values[k].count(usual) == len(rows)])
        for k in reversed(left_out):
            del values[k]
        return self._statement(left_out), list(zip(*values, strict=True))

    def _write(self, left_out: tuple[int, ...]) -> str:
        constant = {self._names[k]: usual for k, usual in self._usual if k in left_out and usual is not None}
        given = [name for k, name in enumerate(self._names) if k not in left_out]
        values = [*map(str, constant.values()), *["?"] * len(given)]
        return f"insert into {self._table} ({columns([*constant, *given])}) values ({', '.join(values)})"


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
    def update(
        self, table: str, names: tuple[str, ...], rows: Sequence[Sequence[Any]], marked: bool = False
    ) -> None:
        """Set these columns of rows, each of which has their values and its id; and their mark if they get it."""

    @abstractmethod
    def next_mark(self) -> None:
        """Before a transaction settles impressions, all of which get one mark."""

    @abstractmethod
    def last_mark(self) -> int:
        """The highest mark of impressions that are settled, when none with a lower one can come any more."""

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

    def find(self, what: str, table: str, column: str, keys: Collection[Any]) -> list[tuple[Any, ...]]:
        """Select the rows of a table that have one of these keys, each given once, in a column."""
        if not keys:
            return []
        return self.rows(f"select {what} from {table} where {column} {self.one_of}", (self.list_of(keys),))
