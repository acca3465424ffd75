"""Tables: files of CSV, Parquet and JSON lines, and data frames, read part by part."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from clickbandit.errors import InputError
from clickbandit.extras import duckdb, pa
from clickbandit.logs import delimited, files
from clickbandit.logs.columns import Columns
from clickbandit.logs.tally import LogDatabase

UNDECODABLE, NOT_JSON = "bytes that are not UTF-8", "not a JSON object"


class TablePart(NamedTuple):
    """Some rows of a table."""

    sql: str
    """What stands for them in a statement: `n`, the number of a line or row, `malformed`, why it is no row or NULL,
    and the columns asked for, called `c0`, `c1`, .."""
    frames: Mapping[str, Any] = {}
    """Tables that the statement names."""
    bytes_read: int = 0
    """How far into a file on disk they end."""
    truncated: bool = False
    """The file's compressed data ended early: this is all that could be read."""


@dataclass(frozen=True)
class LogTable:
    """A table that holds a log."""

    where: str
    """What messages call it."""
    types: Mapping[str, str]
    """The type of each column, by its name in lower case."""
    parts: Callable[[Sequence[str]], Iterator[TablePart]]
    """The rows with some columns."""
    twice: frozenset[str] = frozenset()
    """Names that several columns have."""
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The columns that are one of ours, where these have other names."""

    @property
    def columns(self) -> dict[str, str]:
        """The type of each column by our names."""
        named = {
            ours: self.types[theirs[0].lower()] if len(theirs) == 1 else "VARCHAR"
            for ours, theirs in self.sources.items()
        }
        return {**self.types, **named}

    def renamed(self, columns: Columns) -> "LogTable":
        """The table with our names for the columns that have others; those that are not named have ours already."""
        for ours, theirs in columns.given.items():
            for name in theirs:
                if name.lower() not in self.types:
                    raise InputError(
                        f"{self.where} has no column {name!r} for {ours}: it has {', '.join(self.types)}"
                    )
        sources = dict(columns.given)
        if columns.one_row_per == "list":
            for ours, other in (("list", "item"), ("clicks", "click")):
                if ours not in self.types and other in self.types:
                    sources.setdefault(ours, [other])
        return replace(self, sources=sources)

    def read(self, wanted: Sequence[str]) -> Iterator[TablePart]:
        """The rows, with the columns asked for by our names."""
        sources = {ours: [name.lower() for name in self.sources.get(ours, [ours])] for ours in wanted}
        names = list(dict.fromkeys(name for theirs in sources.values() for name in theirs))
        for name in names:
            if name in self.twice:
                raise InputError(
                    f"{self.where} has two columns called {name!r}: give one of them another name"
                )
        taken = []
        for ours, theirs in sources.items():
            cells = [f"c{names.index(name)}" for name in theirs]
            texts = ", ".join(f"{cell}::VARCHAR" for cell in cells)
            taken.append(f'{cells[0] if len(cells) == 1 else f"concat_ws(chr(31), {texts})"} AS "{ours}"')
        for part in self.parts(names):
            yield part._replace(sql=f"(SELECT n, malformed, {', '.join(taken)} FROM {part.sql})")


def open_table(path: Path, database: LogDatabase) -> LogTable:
    """The table in a Parquet or a CSV file."""
    return parquet_table(path, database) if files.head(path).startswith(files.PARQUET) else csv_table(path)


def parquet_table(path: Path, database: LogDatabase) -> LogTable:
    """The table in a Parquet file."""
    source = f"read_parquet({quoted(str(path))}, file_row_number = true)"
    try:
        types = _types(source, database)
    except duckdb.Error as error:
        raise InputError(
            f"{path} cannot be read as Parquet, it may be damaged or cut short: {str(error).splitlines()[0]}"
        ) from error
    del types["file_row_number"]
    actual = {name.lower(): name for name in types}

    def parts(names: Sequence[str]) -> Iterator[TablePart]:
        cells = _as_cells(quoted_name(actual[name]) for name in names)
        yield TablePart(
            f"(SELECT file_row_number + 1 AS n, NULL::VARCHAR AS malformed, {cells} FROM {source})"
        )

    return LogTable(str(path), {name.lower(): kind for name, kind in types.items()}, parts)


def csv_table(path: Path) -> LogTable:
    """The table in a CSV file, all columns as text."""
    header = delimited.header_of(files.head(path))
    names = [name.lower() for name in header.names]

    def parts(wanted: Sequence[str]) -> Iterator[TablePart]:
        fields = [names.index(name) for name in wanted]
        for block in files.ahead(delimited.read_rows(path, header, fields)):
            yield TablePart("part", {"part": block.rows}, block.bytes_read, block.truncated)

    return LogTable(str(path), {name: "VARCHAR" for name in names if name}, parts, _twice(names))


def frame_table(frame: Any, where: str, database: LogDatabase) -> LogTable:
    """The table in a data frame (pandas, polars, Arrow)."""
    table = _as_arrow(frame)
    names = [str(name).lower() for name in table.column_names]
    columns = [f"c{i}" for i in range(len(names))]
    types = _types("part", database, part=table.rename_columns(columns))

    def parts(wanted: Sequence[str]) -> Iterator[TablePart]:
        taken = [table.column(names.index(name)) for name in wanted]
        numbers = pa.array(range(1, table.num_rows + 1), pa.int64())
        nothing = pa.nulls(table.num_rows, pa.string())
        part = pa.table(
            [numbers, nothing, *taken], names=["n", "malformed", *(f"c{i}" for i in range(len(wanted)))]
        )
        yield TablePart("part", {"part": part})

    return LogTable(
        where, {name: types[c] for name, c in zip(names, columns, strict=True)}, parts, _twice(names)
    )


def _as_arrow(frame: Any) -> pa.Table:
    """A data frame as Arrow has it; columns of pandas with cells of several types as texts."""
    if not hasattr(frame, "__arrow_c_stream__"):  # a lazy frame of polars
        frame = frame.collect()
    try:
        return pa.table(frame)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        if not hasattr(frame, "items"):
            raise
    names, columns = zip(*frame.items(), strict=True)  # pandas, where names may be there twice
    return pa.table([_as_column(column) for column in columns], names=[str(name) for name in names])


def _as_column(cells: Any) -> pa.Array:
    try:
        return pa.array(cells, from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        pass
    if any(isinstance(cell, list | tuple) or hasattr(cell, "tolist") for cell in cells):
        return pa.array([_texts(cell) if hasattr(cell, "__len__") else None for cell in cells])
    return pa.array(_texts(cells.astype(object).where(cells.notna(), None)))


def _texts(cells: Any) -> list[str | None]:
    return [None if cell is None else str(cell) for cell in cells]


# --- JSON lines ---------------------------------------------------------------------------------------------


def json_table(path: Path) -> LogTable:
    """The table in a file with a JSON object in each line: a column for each field of the first ones.

    Values are texts as they stand, and arrays lists of texts; a field within a field is called `outer.inner`.
    """
    kinds: dict[str, bool] = {}
    for line in files.head(path).decode(errors="replace").split("\n"):
        try:
            for name, value in _flat(json.loads(line)):
                kinds[name] = kinds.get(name, False) or isinstance(value, list)
        except (ValueError, RecursionError, TypeError):
            continue
    if not kinds:
        raise InputError(f"{path} must have a JSON object in each line, found none in its first lines")
    actual = {name.lower(): name for name in kinds}

    def parts(wanted: Sequence[str]) -> Iterator[TablePart]:
        names = [actual[name] for name in wanted]
        roots = [name.partition(".")[0] for name in names]
        values = [
            f"json_extract_string({json_field(root)}, {quoted(_path(name, kinds[name]))})"
            for name, root in zip(names, roots, strict=True)
        ]
        if not kinds[names[0]]:  # a line that is no row is whole in the first column, as in CSV
            values[0] = f"CASE WHEN malformed IS NULL THEN {values[0]} ELSE line END"
        cells = _as_cells(values)
        for part in json_parts(path, roots):
            yield part._replace(sql=f"(SELECT n, malformed, {cells} FROM {part.sql})")

    types = {name.lower(): "VARCHAR[]" if is_list else "VARCHAR" for name, is_list in kinds.items()}
    return LogTable(str(path), types, parts, _twice([name.lower() for name in kinds]))


def json_parts(path: Path, roots: Sequence[str]) -> Iterator[TablePart]:
    """The lines of a file: `n`, `malformed`, `line`, and `object` with these fields of each as JSON."""
    shape = quoted(json.dumps(dict.fromkeys(roots, "JSON")))
    for block in files.blocks(path):
        text = f"n IN ({', '.join(map(str, block.undecodable))})" if block.undecodable else "false"
        sql = f"""
            (SELECT *, CASE WHEN {text} THEN '{UNDECODABLE}' WHEN object IS NULL THEN '{NOT_JSON}' END AS malformed
             FROM (SELECT *, CASE WHEN regexp_matches(line, '^\\s*\\{{')
                                  THEN try(json_transform(line, {shape})) END AS object
                   FROM part WHERE NOT regexp_full_match(line, '\\s*')))
        """
        yield TablePart(sql, {"part": block.lines}, block.bytes_read, block.truncated)


def json_field(root: str) -> str:
    """A field of `object`."""
    return f"struct_extract(object, {quoted(root)})"


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


# --- statements ---------------------------------------------------------------------------------------------


def _types(source: str, database: LogDatabase, **frames: Any) -> dict[str, str]:
    return {row[0]: row[1] for row in database.run(f"DESCRIBE SELECT * FROM {source}", **frames)}


def _as_cells(expressions: Iterable[str]) -> str:
    return ", ".join(f"{expression} AS c{i}" for i, expression in enumerate(expressions))


def _twice(names: Sequence[str]) -> frozenset[str]:
    return frozenset(name for name, times in Counter(names).items() if times > 1)


def quoted(text: str) -> str:
    """A text as it may stand in a statement."""
    return "'{}'".format(text.replace("'", "''"))


def quoted_name(name: str) -> str:
    """A column's name as it may stand in a statement."""
    return '"{}"'.format(name.replace('"', '""'))
