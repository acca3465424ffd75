"""A connection to a database, as the statements of stores need it. Values stand as `?`."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar

from clickbandit.live.values import StoreError


def columns(names: Iterable[str]) -> str:
    """Names as a statement has them: quoted, since some mean something to a database."""
    return ", ".join(f'"{name}"' for name in names)


def insert(table: str, names: Collection[str]) -> str:
    return f"insert into {table} ({columns(names)}) values ({', '.join('?' * len(names))})"


class Database(ABC):
    """A connection whose errors are the store's."""

    errors: ClassVar[type[Exception]]
    one_of: ClassVar[str]
    """Follows a column: is it one of the values in a list?"""
    position_of: ClassVar[str]
    """The function that finds a text in another."""
    is_later: ClassVar[str]
    """Of a snapshot: that the log does not start from it."""
    next_mark: ClassVar[str] = ""
    """Where there is one: the statement before impressions are settled, to which `set_mark` gives the next mark."""
    set_mark: ClassVar[str] = ""
    give_mark: ClassVar[str] = ""
    """Where there is one: the statement that gives it to those of these ids when they are settled."""
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

    def find(self, what: str, column: str, keys: Collection[Any]) -> list[tuple[Any, ...]]:
        """Select the rows that have one of these keys in a column."""
        return self.rows(f"select {what} where {column} {self.one_of}", (self.list_of(keys),)) if keys else []
