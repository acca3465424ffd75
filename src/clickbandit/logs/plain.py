"""The three shapes of a plain table: a row for each list, a row for each result shown, or counts by item."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from clickbandit.click_models.base import MAX_POSITIONS
from clickbandit.errors import InputError
from clickbandit.logs.columns import EXAMPLE, Columns, guess
from clickbandit.logs.formats.base import Opening, ReadOptions
from clickbandit.logs.lists import read_lists
from clickbandit.logs.reading import Reading
from clickbandit.logs.results import read_results
from clickbandit.logs.rows import Tables, note_lines, note_problems, take
from clickbandit.logs.saved import is_saved
from clickbandit.logs.table import LogTable, frame_table
from clickbandit.logs.tally import SESSIONS_BY_QUERY, Tally


class Shape(NamedTuple):
    """A table with certain columns, and how several of them are counted together."""

    columns: tuple[str, ...]
    read: Callable[[Tables, Tally, ReadOptions], Reading]


def read_log(tables: Tables, tally: Tally, options: ReadOptions) -> Reading:
    """Count a log, whose tables may be of either shape."""
    return _read(tables, tally, options, (LISTS, RESULTS, GRID))


def read_item_counts(table: LogTable, tally: Tally, options: ReadOptions) -> Reading:
    """Add up counts by query, item and position."""
    return _read([table], tally, options, (COUNTED,))


def read_frame(
    frame: Any, tally: Tally, where: str, strict: bool = False, columns: Columns | None = None
) -> Reading:
    """Count a data frame (pandas, polars, Arrow) of any shape; messages call it `where`."""
    options = ReadOptions(strict, columns=columns or Columns())
    table = frame_table(frame, where, tally.database)
    return _read([table], tally, options, (LISTS, RESULTS, GRID, COUNTED))


def is_log(opening: Opening) -> bool:
    """Whether a file is a table with the columns of a log."""
    shapes = (LISTS, RESULTS, GRID)
    return not is_counted(opening) and any(set(opening.columns).issuperset(shape.columns) for shape in shapes)


def is_counted(opening: Opening) -> bool:
    """Whether a file holds counts: by item, or saved."""
    saved = opening.schema is not None and is_saved(opening.schema)
    return saved or set(opening.columns).issuperset(COUNTED.columns)


def _read(tables: Tables, tally: Tally, options: ReadOptions, shapes: Sequence[Shape]) -> Reading:
    """Count tables, those of a shape together."""
    columns = options.columns
    if columns.one_row_per:
        shapes = (LISTS,) if columns.one_row_per == "list" else (RESULTS, GRID)
    by_shape: dict[Shape, list[LogTable]] = {}
    for table in tables:
        renamed = table.renamed(columns)
        by_shape.setdefault(_shape_of(renamed, columns, shapes), []).append(renamed)
    return sum((shape.read(these, tally, options) for shape, these in by_shape.items()), Reading())


def _shape_of(table: LogTable, columns: Columns, shapes: Sequence[Shape]) -> Shape:
    """The shape that a table has; of several, the one with most of the columns that are named."""
    possible = [shape for shape in shapes if table.columns.keys() >= set(shape.columns)]
    if possible:
        return max(possible, key=lambda shape: len(columns.given.keys() & set(shape.columns)))
    expected = "; or ".join(", ".join(shape.columns) for shape in shapes if shape is not GRID)
    found = ", ".join(table.types) or "none"
    guessed = guess(table.types)
    hint = f": if these are they, give {guessed}" if guessed else f": name them, as in {EXAMPLE}"
    hint = "" if columns.given or (COUNTED in shapes and len(shapes) == 1) or len(table.types) < 2 else hint
    raise InputError(f"{table.where} must have the columns {expected}; found {found}{hint}")


# --- counts by item -----------------------------------------------------------------------------------------

_COUNTED = """
    CREATE OR REPLACE TEMP TABLE counted (file INTEGER, n BIGINT, malformed VARCHAR, query VARCHAR, item VARCHAR,
        position INTEGER, impressions BIGINT, clicks BIGINT);
"""
_INSERT = """
    INSERT INTO counted SELECT {file}, n, malformed, said(query), said(item), try_cast(position AS INTEGER),
        try_cast(impressions AS BIGINT), try_cast(clicks AS BIGINT) FROM {{rows}}
"""
_CHECKED = f"""
    CREATE OR REPLACE TEMP VIEW checked AS
    SELECT *, 1 AS times, concat_ws(', ', query, item, position, impressions, clicks) AS raw,
           CASE WHEN malformed IS NOT NULL THEN malformed
                WHEN query IS NULL OR item IS NULL THEN 'no query or no item'
                WHEN position IS NULL OR position < 1 THEN 'a position that is not 1, 2, ..'
                WHEN position > {MAX_POSITIONS} THEN 'a position beyond {MAX_POSITIONS}'
                WHEN impressions IS NULL OR impressions < 0 OR clicks IS NULL OR clicks < 0
                    THEN 'impressions or clicks that are no counts'
                WHEN clicks > impressions THEN 'more clicks than impressions' END AS problem
    FROM counted
"""


def _read_counted(tables: Tables, tally: Tally, options: ReadOptions) -> Reading:
    """Add up tables with a row for each query, item and position."""
    database = tally.database
    database.run(_COUNTED)
    reading = take(tables, COUNTED.columns, lambda table, file: _INSERT.format(file=file), database, options)
    database.run(_CHECKED)
    note_lines(len(tables), database, reading)
    note_problems([table.where for table in tables], database, reading, options.strict)
    tally.add_items("checked WHERE problem IS NULL AND impressions > 0")
    by_query = SESSIONS_BY_QUERY.format(table="checked WHERE problem IS NULL")
    ((clicks, sessions),) = database.run(f"""
        SELECT coalesce(sum(clicks) FILTER (problem IS NULL), 0), (SELECT coalesce(sum(sessions), 0) FROM ({by_query}))
        FROM checked
    """)
    reading.clicks, reading.sessions = int(clicks), int(sessions)
    database.run("DROP VIEW checked; DROP TABLE counted")
    return reading


LISTS = Shape(("query", "list", "clicks"), read_lists)
RESULTS = Shape(("impression", "query", "position", "item", "click"), read_results)
GRID = Shape(("impression", "query", "row", "column", "item", "click"), read_results)
COUNTED = Shape(("query", "item", "position", "impressions", "clicks"), _read_counted)
