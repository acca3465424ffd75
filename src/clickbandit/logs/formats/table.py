"""Tables as DuckDB reads them: CSV files, Parquet files and data frames."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clickbandit.errors import InputError
from clickbandit.extras import duckdb
from clickbandit.logs import files
from clickbandit.logs.formats.base import Opening
from clickbandit.logs.tally import Database

_REJECTED = {
    "MISSING COLUMNS": "not as many fields as the header",
    "UNQUOTED VALUE": "quotes that do not close",
    "INVALID ENCODING": "bytes that are not UTF-8",
    "LINE SIZE OVER MAXIMUM": "a line that is too long",
}
"""Why DuckDB rejects a line, in our words."""


@dataclass(frozen=True)
class LogTable:
    """A table that holds a log."""

    sql: str
    """What stands for the table in a statement."""
    where: str
    """What messages call it."""
    columns: Mapping[str, str]
    """The type of each column, by its name in lower case."""
    is_csv: bool = False

    @property
    def first_line(self) -> int:
        """The line of the first row: a CSV file's header is line 1."""
        return 2 if self.is_csv else 1

    def take_rejected(self, database: Database) -> list[tuple[int, str]]:
        """The lines of a CSV file that are no rows, and why; to be asked once after the table was read."""
        if not self.is_csv:
            return []
        found = database.run(
            "SELECT line, min(error_type::VARCHAR) FROM reject_errors GROUP BY line ORDER BY line"
        )
        database.run("TRUNCATE reject_errors; TRUNCATE reject_scans")
        return [(line, _REJECTED.get(kind, _REJECTED["MISSING COLUMNS"])) for line, kind in found]


def open_table(path: Path, database: Database) -> LogTable:
    """The table in a Parquet or a CSV file."""
    return (parquet_table if files.head(path).startswith(files.PARQUET) else csv_table)(path, database)


def parquet_table(path: Path, database: Database) -> LogTable:
    """The table in a Parquet file."""
    return describe(f"read_parquet({_quoted(str(path))})", str(path), database)


def csv_table(path: Path, database: Database) -> LogTable:
    """The table in a CSV file, all columns as text."""
    first = files.head(path).decode(errors="replace").partition("\n")[0]
    columns = ", ".join(f"{_quoted(name)}: 'VARCHAR'" for name in split_header(first))
    sql = (
        f"read_csv({_quoted(str(path))}, header = true, auto_detect = false, columns = {{{columns}}}, "
        f"delim = '{_delimiter(first)}', quote = '\"', escape = '\"', "
        f"compression = '{files.compression(path)}', ignore_errors = true, store_rejects = true)"
    )
    return describe(sql, str(path), database, is_csv=True)


def describe(sql: str, where: str, database: Database, *, is_csv: bool = False) -> LogTable:
    """The table that `sql` stands for, with its columns."""
    try:
        rows = database.run(f"DESCRIBE SELECT * FROM {sql}")
    except duckdb.Error as error:
        raise InputError(
            f"{where} cannot be read: expected CSV with a header or Parquet, but {str(error).splitlines()[0]}"
        ) from error
    return LogTable(sql, where, {row[0].lower(): row[1] for row in rows}, is_csv)


def columns_of(opening: Opening) -> set[str]:
    """The names of a file's columns in lower case, if it is a table."""
    if opening.schema is not None:
        return {name.lower() for name in opening.schema.names}
    return set(split_header(opening.lines[0])) if opening.lines else set()


def split_header(line: str) -> list[str]:
    """The names in the header of a CSV file."""
    names = line.lstrip("\ufeff").strip().split(_delimiter(line))
    return [name.strip().strip('"').lower() for name in names]


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)


def _quoted(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))
