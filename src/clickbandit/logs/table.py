"""Tables as DuckDB reads them: files of CSV, Parquet and JSON lines, and data frames."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from clickbandit.errors import InputError
from clickbandit.extras import duckdb
from clickbandit.logs import files
from clickbandit.logs.columns import Columns
from clickbandit.logs.formats.base import split_header
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

    def renamed(self, columns: Columns) -> "LogTable":
        """The table with the columns that are named under our names, and all others."""
        if not columns.given:
            return self
        sources, types = [], {}
        for ours, theirs in columns.given.items():
            for name in theirs:
                if name.lower() not in self.columns:
                    raise InputError(
                        f"{self.where} has no column {name!r} for {ours}: it has {', '.join(self.columns)}"
                    )
            whole = len(theirs) == 1
            parts = ", ".join(
                quoted_name(name) if whole else f"{quoted_name(name)}::VARCHAR" for name in theirs
            )
            sources.append(f'{parts if whole else f"concat_ws(chr(31), {parts})"} AS "{ours}"')
            types[ours] = self.columns[theirs[0].lower()] if whole else "VARCHAR"
        return replace(self, sql=f"(SELECT {', '.join(sources)} FROM {self.sql})", columns=types)


def open_table(path: Path, database: Database) -> LogTable:
    """The table in a Parquet or a CSV file."""
    return (parquet_table if files.head(path).startswith(files.PARQUET) else csv_table)(path, database)


def parquet_table(path: Path, database: Database) -> LogTable:
    """The table in a Parquet file."""
    return describe(f"read_parquet({quoted(str(path))})", str(path), database)


def csv_table(path: Path, database: Database) -> LogTable:
    """The table in a CSV file, all columns as text."""
    names, delimiter = split_header(files.head(path).decode(errors="replace").partition("\n")[0])
    columns = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in names)
    sql = (
        f"read_csv({quoted(str(path))}, header = true, auto_detect = false, columns = {{{columns}}}, "
        f"delim = '{delimiter}', quote = '\"', escape = '\"', "
        f"compression = '{files.compression(path)}', ignore_errors = true, store_rejects = true)"
    )
    return describe(sql, str(path), database, is_csv=True)


def json_table(path: Path, database: Database) -> LogTable:
    """The table in a file with a JSON object in each line: a column for each field of the first ones.

    Values are texts as they stand, and arrays lists of texts; a field within a field is called `outer.inner`. A line
    that is no JSON has no value in any column.
    """
    kinds: dict[str, bool] = {}
    for line in files.head(path).decode(errors="replace").splitlines():
        try:
            for name, value in _flat(json.loads(line)):
                kinds[name] = kinds.get(name, False) or isinstance(value, list)
        except (ValueError, RecursionError, TypeError):
            continue
    roots = dict.fromkeys(name.partition(".")[0] for name in kinds)
    if not roots:
        raise InputError(f"{path} must have a JSON object in each line, found none in its first lines")
    listed = ", ".join(f"{quoted(root)}: 'JSON'" for root in roots)
    source = (
        f"read_json({quoted(str(path))}, format = 'newline_delimited', compression = '{files.compression(path)}', "
        f"ignore_errors = true, maximum_object_size = {files.MAX_LINE}, "
        f"columns = {{{listed}}})"
    )
    columns = ", ".join(
        f"json_extract_string({quoted_name(name.partition('.')[0])}, {quoted(_path(name, is_list))}) "
        f"AS {quoted_name(name.lower())}"
        for name, is_list in kinds.items()
    )
    return describe(f"(SELECT {columns} FROM {source})", str(path), database)


def _flat(value: object) -> Iterator[tuple[str, object]]:
    """The fields of an object, those within fields by both names."""
    if not isinstance(value, dict):
        raise TypeError
    for name, part in value.items():
        if isinstance(part, dict):
            yield from ((f"{name}.{inner}", deeper) for inner, deeper in _flat(part))
        else:
            yield str(name), part


def _path(name: str, is_list: bool) -> str:
    inner = "".join(f'."{part}"' for part in name.split(".")[1:])
    return f"${inner}{'[*]' if is_list else ''}"


def describe(sql: str, where: str, database: Database, *, is_csv: bool = False) -> LogTable:
    """The table that `sql` stands for, with its columns."""
    try:
        rows = database.run(f"DESCRIBE SELECT * FROM {sql}")
    except duckdb.Error as error:
        raise InputError(
            f"{where} cannot be read: expected CSV with a header or Parquet, but {str(error).splitlines()[0]}"
        ) from error
    return LogTable(sql, where, {row[0].lower(): row[1] for row in rows}, is_csv)


def quoted(text: str) -> str:
    """A text as it may stand in a statement."""
    return "'{}'".format(text.replace("'", "''"))


def quoted_name(name: str) -> str:
    """A column's name as it may stand in a statement."""
    return '"{}"'.format(name.replace('"', '""'))
