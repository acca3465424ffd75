"""The three shapes of a plain table: a row for each list, a row for each result shown, or counts by item."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from clickbandit.click_models.base import MAX_POSITIONS
from clickbandit.errors import InputError
from clickbandit.extras import pa
from clickbandit.logs.columns import Columns, guess
from clickbandit.logs.formats.base import Opening, ReadOptions
from clickbandit.logs.reading import Reading
from clickbandit.logs.results import read_results
from clickbandit.logs.rows import add_found, find_rows, note_problems, run
from clickbandit.logs.saved import is_saved
from clickbandit.logs.table import LogTable, describe
from clickbandit.logs.tally import SESSIONS_BY_QUERY, Tally


class Shape(NamedTuple):
    """A table with certain columns, and how it is counted."""

    columns: tuple[str, ...]
    read: Callable[[LogTable, Columns, Tally, bool], Reading]


def read_log(table: LogTable, tally: Tally, options: ReadOptions) -> Reading:
    """Count a log of either shape."""
    return _read(table, tally, options, (LISTS, RESULTS, GRID))


def read_item_counts(table: LogTable, tally: Tally, options: ReadOptions) -> Reading:
    """Add up counts by query, item and position."""
    return _read(table, tally, options, (COUNTED,))


def read_frame(
    frame: Any, tally: Tally, where: str, strict: bool = False, columns: Columns | None = None
) -> Reading:
    """Count a data frame (pandas, polars, Arrow) of any shape; messages call it `where`."""
    if not hasattr(frame, "__arrow_c_stream__"):  # a lazy frame of polars
        frame = frame.collect()
    table = pa.table(frame)
    table = table.rename_columns([str(name).lower() for name in table.column_names])
    database = tally.database
    database.connection.register("frame", table)
    try:
        options = ReadOptions(strict, columns=columns or Columns())
        return _read(describe("frame", where, database), tally, options, (LISTS, RESULTS, GRID, COUNTED))
    finally:
        database.connection.unregister("frame")


def is_log(opening: Opening) -> bool:
    """Whether a file is a table with the columns of a log."""
    shapes = (LISTS, RESULTS)
    return not is_counted(opening) and any(set(opening.columns).issuperset(shape.columns) for shape in shapes)


def is_counted(opening: Opening) -> bool:
    """Whether a file holds counts: by item, or saved."""
    saved = opening.schema is not None and is_saved(opening.schema)
    return saved or set(opening.columns).issuperset(COUNTED.columns)


def _read(table: LogTable, tally: Tally, options: ReadOptions, shapes: tuple[Shape, ...]) -> Reading:
    columns = options.columns
    renamed = table.renamed(columns)
    if columns.one_row_per:
        shapes = (LISTS,) if columns.one_row_per == "list" else (RESULTS, GRID)
    shape = next((shape for shape in shapes if renamed.columns.keys() >= set(shape.columns)), None)
    if shape is None:
        expected = "; or ".join(", ".join(shape.columns) for shape in shapes if shape is not GRID)
        found = ", ".join(table.columns) or "none"
        guessed = guess(table.columns)
        hint = f": if these are they, give --columns {guessed}" if guessed and not columns.given else ""
        raise InputError(f"{table.where} must have the columns {expected}; found {found}{hint}")
    return shape.read(renamed, columns, tally, options.strict)


# --- a row for each list ------------------------------------------------------------------------------------

# Rows that are alike are grouped before their lists are taken apart, unless impressions tell copies from sessions.
_GROUPED = """
    SELECT query::VARCHAR AS query, list, clicks, count(*) AS times, min(n) AS n FROM {rows} GROUP BY ALL
"""
_COPIES = "(SELECT impression, query, list, clicks, min(n) AS n FROM rows GROUP BY ALL)"
_FIND_LISTS = f"""
    CREATE OR REPLACE TEMP TABLE checked_lists AS
    SELECT *, CASE WHEN query IS NULL OR query = '' THEN 'no query'
                   WHEN items IS NULL OR marked IS NULL THEN 'no list or no clicks'
                   WHEN len(items) <> len(marked) THEN 'not as many clicks as items'
                   WHEN len(list_filter(items, lambda item: item IS NULL OR item = '')) > 0 THEN 'an empty item'
                   WHEN len(list_filter(marked, lambda mark: coalesce(click_of(mark), -1) = -1)) > 0
                       THEN 'a click that is neither yes nor no' END AS problem,
           CASE WHEN len(items) <= {MAX_POSITIONS} THEN list_sum(list_transform(
               list_filter(range(len(items)), lambda k: click_of(marked[k + 1]) = 1),
               lambda k: 1::UBIGINT << k::INTEGER)) END AS bits
    FROM (SELECT *, {{items}} AS items, {{marked}} AS marked FROM ({{grouped}}));
    CREATE OR REPLACE TEMP VIEW checked AS
    SELECT n, problem, times, concat_ws(', ', query, list::VARCHAR, clicks::VARCHAR) AS raw FROM checked_lists;
    CREATE OR REPLACE TEMP VIEW found AS SELECT query, items, bits, times FROM checked_lists WHERE problem IS NULL;
"""


def _read_lists(table: LogTable, columns: Columns, tally: Tally, strict: bool) -> Reading:
    """Count a table with a row for each list."""
    database, has_ids = tally.database, "impression" in columns.given
    grouped = _GROUPED.format(rows=_COPIES if has_ids else "rows")
    items, marked = _as_list(table, "list"), _as_list(table, "clicks")
    find_rows(table, _FIND_LISTS.format(items=items, marked=marked, grouped=grouped), database)
    reading = Reading(files=1)
    note_problems(table, tally, reading, strict)
    add_found(tally, reading)
    if has_ids:
        n_rows = database.value("SELECT count(*) FROM rows")
        copies = n_rows - database.value("SELECT coalesce(sum(times), 0) FROM checked")
        reading.note("rows that are copies", int(copies))
        reading.lines += int(copies)
    database.run("DROP VIEW found; DROP VIEW checked; DROP TABLE checked_lists")
    return reading


def _as_list(table: LogTable, name: str) -> str:
    if table.columns[name].endswith("]"):
        return f"list_transform({name}, lambda entry: entry::VARCHAR)"
    return f"{'marks' if name == 'clicks' else 'entries'}(coalesce({name}::VARCHAR, ''))"


# --- counts by item -----------------------------------------------------------------------------------------

_FIND_COUNTS = f"""
    CREATE OR REPLACE TEMP TABLE found AS
    SELECT *, CASE WHEN query IS NULL OR item IS NULL THEN 'no query or no item'
                   WHEN position IS NULL OR position < 1 THEN 'a position that is not 1, 2, ..'
                   WHEN position > {MAX_POSITIONS} THEN 'a position beyond {MAX_POSITIONS}'
                   WHEN impressions IS NULL OR impressions < 0 OR clicks IS NULL OR clicks < 0
                       THEN 'impressions or clicks that are no counts'
                   WHEN clicks > impressions THEN 'more clicks than impressions' END AS problem
    FROM (SELECT query::VARCHAR AS query, item::VARCHAR AS item, try_cast(position AS INTEGER) AS position,
                 try_cast(impressions AS BIGINT) AS impressions, try_cast(clicks AS BIGINT) AS clicks
          FROM {{source}})
"""


def _read_counted(table: LogTable, columns: Columns, tally: Tally, strict: bool) -> Reading:
    """Add up a table with a row for each query, item and position."""
    database = tally.database
    run(database, table, _FIND_COUNTS.format(source=table.sql))
    causes = Counter(problem for _, problem in table.take_rejected(database))
    causes.update(
        dict(database.run("SELECT problem, count(*) FROM found WHERE problem IS NOT NULL GROUP BY ALL"))
    )
    if causes and strict:
        raise InputError(f"{table.where} has a row with {min(causes)}: correct it, or read without --strict")
    tally.add_items("found WHERE problem IS NULL AND impressions > 0")
    reading = Reading(files=1)
    reading.note_malformed(table.where, [], causes, strict)
    reading.malformed = [
        f"{table.where}: {times:,} rows with {problem}" for problem, times in sorted(causes.items())
    ]
    by_query = SESSIONS_BY_QUERY.format(table="found WHERE problem IS NULL")
    ((reading.lines, clicks, sessions),) = database.run(f"""
        SELECT count(*), coalesce(sum(clicks) FILTER (problem IS NULL), 0),
               (SELECT coalesce(sum(sessions), 0) FROM ({by_query}))
        FROM found
    """)
    reading.clicks, reading.sessions = int(clicks), int(sessions)
    return reading


LISTS = Shape(("query", "list", "clicks"), _read_lists)
RESULTS = Shape(("impression", "query", "position", "item", "click"), read_results)
GRID = Shape(("impression", "query", "row", "column", "item", "click"), read_results)
COUNTED = Shape(("query", "item", "position", "impressions", "clicks"), _read_counted)
