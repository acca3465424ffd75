"""The three shapes of a plain table: a row for each list, a row for each item shown, or counts by item.

Rows that are alike are grouped before their lists are taken apart.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from clickbandit.click_models.base import MAX_POSITIONS
from clickbandit.errors import InputError
from clickbandit.extras import duckdb, pa
from clickbandit.logs.formats.base import Opening
from clickbandit.logs.formats.table import LogTable, columns_of, describe
from clickbandit.logs.reading import MAX_EXAMPLES, Reading
from clickbandit.logs.saved import is_saved
from clickbandit.logs.tally import SESSIONS_BY_QUERY, Database, Tally


class Shape(NamedTuple):
    """A table with certain columns, and how it is counted."""

    columns: tuple[str, ...]
    read: Callable[[LogTable, Tally, bool], Reading]


def read_log(table: LogTable, tally: Tally, strict: bool) -> Reading:
    """Count a log of either shape."""
    return _read(table, tally, strict, (LISTS, ITEMS))


def read_item_counts(table: LogTable, tally: Tally, strict: bool) -> Reading:
    """Add up counts by query, item and position."""
    return _read(table, tally, strict, (COUNTED,))


def read_frame(frame: Any, tally: Tally, where: str, strict: bool = False) -> Reading:
    """Count a data frame (pandas, polars, Arrow) of any shape; messages call it `where`."""
    if not hasattr(frame, "__arrow_c_stream__"):  # a lazy frame of polars
        frame = frame.collect()
    table = pa.table(frame)
    table = table.rename_columns([str(name).lower() for name in table.column_names])
    database = tally.database
    database.connection.register("frame", table)
    try:
        return _read(describe("frame", where, database), tally, strict, (LISTS, ITEMS, COUNTED))
    finally:
        database.connection.unregister("frame")


def is_log(opening: Opening) -> bool:
    """Whether a file is a table with the columns of a log."""
    columns = columns_of(opening)
    return not is_counted(opening) and any(columns.issuperset(shape.columns) for shape in (LISTS, ITEMS))


def is_counted(opening: Opening) -> bool:
    """Whether a file holds counts: by item, or saved."""
    saved = opening.schema is not None and is_saved(opening.schema)
    return saved or columns_of(opening).issuperset(COUNTED.columns)


def _read(table: LogTable, tally: Tally, strict: bool, shapes: tuple[Shape, ...]) -> Reading:
    shape = next((shape for shape in shapes if table.columns.keys() >= set(shape.columns)), None)
    if shape is None:
        expected = "; or ".join(", ".join(shape.columns) for shape in shapes)
        found = ", ".join(table.columns) or "none"
        raise InputError(f"{table.where} must have the columns {expected}; found {found}")
    return shape.read(table, tally, strict)


def _run(database: Database, table: LogTable, sql: str) -> None:
    try:
        database.run(sql)
    except duckdb.Error as error:
        raise InputError(f"{table.where} cannot be read: {str(error).splitlines()[0]}") from error


# --- logs ---------------------------------------------------------------------------------------------------

# A list in one cell: in brackets or not, separated by | ; , or blanks, its entries in quotes or not.
_MACROS = """
    CREATE OR REPLACE TEMP MACRO bare(cell) AS trim(cell, '[]() ');
    CREATE OR REPLACE TEMP MACRO entries(cell) AS
        CASE WHEN bare(cell) = '' THEN []
             ELSE list_transform(
                CASE WHEN contains(cell, '|') THEN string_split(bare(cell), '|')
                     WHEN contains(cell, ';') THEN string_split(bare(cell), ';')
                     WHEN contains(cell, ',') THEN string_split(bare(cell), ',')
                     ELSE regexp_split_to_array(bare(cell), '\\s+') END,
                lambda entry: trim(entry, ' ''"')) END;
    CREATE OR REPLACE TEMP MACRO marks(cell) AS
        CASE WHEN regexp_full_match(cell, '[01]+') THEN string_split(cell, '') ELSE entries(cell) END;
    CREATE OR REPLACE TEMP MACRO is_click(mark) AS lower(mark) IN ('1', 'true');
"""

# Both make `found`, lists with their clicks, and `checked`, the table's rows with what is wrong with them.
_FIND_LISTS = f"""
    CREATE OR REPLACE TEMP TABLE grouped AS
    SELECT query::VARCHAR AS query, list, clicks, count(*) AS times, min(n) AS n FROM rows GROUP BY ALL;
    CREATE OR REPLACE TEMP TABLE found AS
    SELECT *, false AS broken,
           CASE WHEN query IS NULL OR query = '' THEN 'no query'
                WHEN items IS NULL OR marked IS NULL THEN 'no list or no clicks'
                WHEN len(items) <> len(marked) THEN 'not as many clicks as items'
                WHEN len(list_filter(items, lambda item: item IS NULL OR item = '')) > 0 THEN 'an empty item'
                WHEN len(list_filter(marked, lambda mark: mark IS NULL
                         OR lower(mark) NOT IN ('0', '1', 'true', 'false'))) > 0
                    THEN 'a click that is neither 0 nor 1' END AS problem,
           CASE WHEN len(items) <= {MAX_POSITIONS} THEN list_sum(list_transform(
               list_filter(range(len(items)), lambda k: is_click(marked[k + 1])),
               lambda k: 1::UBIGINT << k::INTEGER)) END AS bits
    FROM (SELECT * EXCLUDE (list, clicks), {{items}} AS items, {{marked}} AS marked FROM grouped);
    CREATE OR REPLACE TEMP VIEW checked AS SELECT n, problem, times FROM found;
"""

_FIND_ITEMS = f"""
    CREATE OR REPLACE TEMP TABLE shown_items AS
    SELECT n, impression::VARCHAR AS impression, query::VARCHAR AS query, item::VARCHAR AS item,
           try_cast(position AS INTEGER) AS place, lower(click::VARCHAR) AS mark,
           CASE WHEN impression IS NULL THEN 'no impression'
                WHEN query IS NULL OR query::VARCHAR = '' THEN 'no query'
                WHEN item IS NULL OR item::VARCHAR = '' THEN 'no item'
                WHEN place IS NULL OR place < 1 THEN 'a position that is not 1, 2, ..'
                WHEN mark IS NULL OR mark NOT IN ('0', '1', 'true', 'false')
                    THEN 'a click that is neither 0 nor 1' END AS problem
    FROM rows;
    CREATE OR REPLACE TEMP TABLE found AS
    SELECT query, items, bits, count(*) AS times, NULL AS problem, broken FROM (
        SELECT any_value(query) AS query, list(item ORDER BY place) AS items,
               bit_or(CASE WHEN is_click(mark) AND place <= {MAX_POSITIONS}
                           THEN 1::UBIGINT << (place - 1) ELSE 0 END) AS bits,
               count(problem) > 0 OR min(query) <> max(query) OR min(place) <> 1 OR max(place) <> count(*)
                   OR count(DISTINCT place) <> count(*) AS broken
        FROM shown_items WHERE impression IS NOT NULL GROUP BY impression)
    GROUP BY ALL;
    CREATE OR REPLACE TEMP VIEW checked AS SELECT n, problem, 1 AS times FROM shown_items;
"""


def _read_lists(table: LogTable, tally: Tally, strict: bool) -> Reading:
    """Count a table with a row for each list."""
    find = _FIND_LISTS.format(items=_as_list(table, "list"), marked=_as_list(table, "clicks"))
    return _read_rows(find, table, tally, strict)


def _read_items(table: LogTable, tally: Tally, strict: bool) -> Reading:
    """Count a table with a row for each item shown."""
    return _read_rows(_FIND_ITEMS, table, tally, strict)


def _as_list(table: LogTable, name: str) -> str:
    if table.columns[name].endswith("]"):
        return f"list_transform({name}, lambda entry: entry::VARCHAR)"
    return f"{'marks' if name == 'clicks' else 'entries'}(coalesce({name}::VARCHAR, ''))"


def _read_rows(find: str, table: LogTable, tally: Tally, strict: bool) -> Reading:
    database = tally.database
    database.run(_MACROS)
    database.run("SET preserve_insertion_order = true")  # so that rows can be numbered
    rows = f"CREATE OR REPLACE TEMP VIEW rows AS SELECT row_number() OVER () AS n, * FROM {table.sql};"
    try:
        _run(database, table, rows + find)
    finally:
        database.run("SET preserve_insertion_order = false")
    reading = Reading(files=1)
    _note_problems(table, tally, reading, strict)
    usable = f"NOT broken AND len(items) BETWEEN 1 AND {MAX_POSITIONS}"
    ((broken, empty, long, sessions, clicks),) = database.run(f"""
        SELECT coalesce(sum(times) FILTER (broken), 0), coalesce(sum(times) FILTER (len(items) = 0), 0),
               coalesce(sum(times) FILTER (len(items) > {MAX_POSITIONS} AND NOT broken), 0),
               coalesce(sum(times) FILTER ({usable}), 0),
               coalesce(sum(times * bit_count(coalesce(bits, 0)::UBIGINT)) FILTER ({usable}), 0)
        FROM found WHERE problem IS NULL
    """)
    tally.add_lists(f"""
        (SELECT query, items, coalesce(bits, 0)::UBIGINT AS clicks, times AS sessions
         FROM found WHERE problem IS NULL AND {usable})
    """)
    reading.sessions, reading.clicks = int(sessions), int(clicks)
    reading.note("broken impressions", int(broken))
    reading.note("empty lists", int(empty))
    reading.note("lists longer than 64", int(long))
    return reading


def _note_problems(table: LogTable, tally: Tally, reading: Reading, strict: bool) -> None:
    database = tally.database
    rejected = table.take_rejected(database)
    ((n_rows, n_bad),) = database.run("""
        SELECT coalesce(sum(times), 0), coalesce(sum(times) FILTER (problem IS NOT NULL), 0) FROM checked
    """)
    bad = database.run(f"""
        SELECT n, problem FROM checked WHERE problem IS NOT NULL ORDER BY n LIMIT {MAX_EXAMPLES}
    """)
    lines = [line for line, _ in rejected]
    problems = sorted(rejected + [(_line(n + table.first_line - 1, lines), problem) for n, problem in bad])
    reading.lines = int(n_rows)
    reading.note_malformed(table.where, problems, int(n_bad) + len(rejected), strict)


def _line(line: int, rejected: list[int]) -> int:
    """A row's line in its file, past the lines that are no rows."""
    for other in rejected:
        line += other <= line
    return line


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


def _read_counted(table: LogTable, tally: Tally, strict: bool) -> Reading:
    """Add up a table with a row for each query, item and position."""
    database = tally.database
    _run(database, table, _FIND_COUNTS.format(source=table.sql))
    problems = Counter(problem for _, problem in table.take_rejected(database))
    problems.update(
        dict(database.run("SELECT problem, count(*) FROM found WHERE problem IS NOT NULL GROUP BY ALL"))
    )
    if problems and strict:
        raise InputError(
            f"{table.where} has a row with {min(problems)}: correct it, or read without --strict"
        )
    tally.add_items("found WHERE problem IS NULL AND impressions > 0")
    reading = Reading(files=1)
    reading.note("malformed lines", problems.total())
    reading.malformed = [
        f"{table.where}: {times:,} rows with {problem}" for problem, times in sorted(problems.items())
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
ITEMS = Shape(("impression", "query", "position", "item", "click"), _read_items)
COUNTED = Shape(("query", "item", "position", "impressions", "clicks"), _read_counted)
