"""Tables with a row for each result shown: rows are put together to lists.

A list whose positions are 1, 2, .. once each is taken as it is. Of any other, rows that say the same twice are taken
once, and it is kept up to the first position of which nothing, or two different things, are known: how users click on
the top of a list does not depend on what stands below, so what is kept is counted right.
"""

from clickbandit.click_models.base import MAX_POSITIONS
from clickbandit.logs.columns import Columns
from clickbandit.logs.reading import Reading
from clickbandit.logs.rows import add_found, find_rows, note_problems
from clickbandit.logs.table import LogTable
from clickbandit.logs.tally import Database, Tally

_ROWS = """
    CREATE OR REPLACE TEMP TABLE results AS
    SELECT *, CASE WHEN impression IS NULL THEN 'no impression'
                   WHEN item IS NULL THEN 'no item'
                   WHEN place IS NULL AND mark = 1 AND position IS NULL THEN 'a click on nothing shown (no position)'
                   WHEN place IS NULL AND position IS NULL THEN 'no position'
                   WHEN place IS NULL OR place < 0 THEN 'a position that is not 1, 2, ..'
                   WHEN mark IS NULL THEN 'a click that is neither yes nor no' END AS problem
    FROM (SELECT n, said(impression) AS impression, said(query) AS query, said(item) AS item,
                 {position} AS place, said({raw_position}) AS position, click_of(click::VARCHAR) AS mark,
                 click::VARCHAR AS click
          FROM rows);
"""
_GRID = '(whole("row"::VARCHAR) - 1) * (SELECT max(whole("column"::VARCHAR)) FROM rows) + whole("column"::VARCHAR)'
_PAGED = """
    UPDATE results SET place = (page - 1) * {size} + place
    FROM (SELECT n, whole(page::VARCHAR) AS page FROM rows) AS pages
    WHERE pages.n = results.n AND page > 1 AND place <= {size};
"""
_FROM_ZERO = "UPDATE results SET place = place + 1 WHERE place IS NOT NULL"
_AT_ZERO = (
    "UPDATE results SET problem = 'a position that is not 1, 2, ..' WHERE problem IS NULL AND place = 0"
)
_UNKNOWN = "UPDATE results SET problem = 'no click, yes or no' WHERE problem IS NULL AND mark = -1"
_APART = """
    UPDATE results SET impression = impression || chr(31) || ((place - 1) // {size} + 1),
                       query = query || ' (page ' || ((place - 1) // {size} + 1) || ')',
                       place = (place - 1) % {size} + 1
    WHERE place > {size};
"""

# How many places there are is the number of bits that are set, if no place was seen twice.
_LISTS = f"""
    CREATE OR REPLACE TEMP VIEW checked AS
    SELECT n, problem, 1 AS times, concat_ws(', ', impression, query, item, position, click) AS raw FROM results;
    CREATE OR REPLACE TEMP TABLE impressions AS
    SELECT impression, min(query) AS query, max(query) AS other, count(*) AS size, max(place) AS last,
           list(item ORDER BY place) AS items, bit_count(bit_or(bit)) AS places,
           bit_or(CASE WHEN mark = 1 THEN bit ELSE 0 END) AS bits
    FROM (SELECT *, CASE WHEN place <= {MAX_POSITIONS} THEN 1::UBIGINT << (place - 1) ELSE 0 END AS bit
          FROM results WHERE problem IS NULL)
    GROUP BY impression;
    CREATE OR REPLACE TEMP TABLE messy AS
    SELECT impression FROM impressions WHERE NOT (size = last AND (places = size OR size > {MAX_POSITIONS}));
    CREATE OR REPLACE TEMP TABLE placed AS
    SELECT impression, place, any_value(item) AS item, max(mark) AS mark, count(*) AS rows,
           min(item) <> max(item) AS differ, min(query) AS query, max(query) AS other,
           count(DISTINCT (query, mark)) AS versions
    FROM results SEMI JOIN messy USING (impression) WHERE problem IS NULL GROUP BY impression, place;
    CREATE OR REPLACE TEMP TABLE mended AS
    SELECT *, len(list_filter(range(1, len(places) + 1), lambda i: places[i] = i)) AS top FROM (
        SELECT impression, min(query) AS query, max(other) AS other, max(place) AS last,
               list(item ORDER BY place) FILTER (NOT differ) AS items,
               list(place ORDER BY place) FILTER (NOT differ) AS places,
               bit_or(CASE WHEN mark = 1 AND place <= {MAX_POSITIONS} AND NOT differ
                           THEN 1::UBIGINT << (place - 1) ELSE 0 END) AS bits
        FROM placed GROUP BY impression);
    CREATE OR REPLACE TEMP TABLE lists_of_results AS
    SELECT query, other, items, bits, size = last AS whole, size AS top, 0 AS lost
    FROM impressions ANTI JOIN messy USING (impression)
    UNION ALL
    SELECT query, other, items[:top],
           CASE WHEN top < {MAX_POSITIONS} THEN bits & ((1::UBIGINT << coalesce(top, 0)::INTEGER) - 1) ELSE bits END,
           top = last, coalesce(top, 0), last - coalesce(top, 0)
    FROM mended;
    CREATE OR REPLACE TEMP TABLE found AS
    SELECT query, items, bits, count(*) AS times FROM lists_of_results
    WHERE query = other AND top > 0 GROUP BY ALL;
"""


def read_results(table: LogTable, columns: Columns, tally: Tally, strict: bool) -> Reading:
    """Count a table with a row for each result."""
    database = tally.database
    is_grid = "position" not in table.columns
    raw = '"row"' if is_grid else "position"
    position = _GRID if is_grid else "whole(position::VARCHAR)"
    find_rows(table, _ROWS.format(position=position, raw_position=raw), database)
    reading = Reading(files=1)
    _settle(columns, "page" in table.columns, database, reading)
    database.run(_LISTS)
    note_problems(table, tally, reading, strict)
    ((no_query, two, no_top, cut),) = database.run("""
        SELECT count(*) FILTER (query IS NULL), count(*) FILTER (query <> other),
               count(*) FILTER (query = other AND top = 0), count(*) FILTER (query = other AND top > 0 AND NOT whole)
        FROM lists_of_results
    """)
    ((copies, repeated),) = database.run("""
        SELECT coalesce(sum(rows - versions), 0), coalesce(sum(versions - 1), 0) FROM placed WHERE NOT differ
    """)
    add_found(tally, reading)
    reading.note("rows that are copies", int(copies))
    reading.note("rows that repeat a result", int(repeated))
    reading.note("impressions without a query", no_query)
    reading.note("impressions of two queries", two)
    reading.note("impressions without a first position", no_top)
    reading.note("impressions with a gap", cut)
    database.run("DROP VIEW checked")
    for name in ("results", "impressions", "messy", "placed", "mended", "lists_of_results"):
        database.run(f"DROP TABLE {name}")
    return reading


def _settle(columns: Columns, has_pages: bool, database: Database, reading: Reading) -> None:
    """Find out where positions begin and what no mark means, and tell pages apart if asked to."""
    ((at_zero, at_one, says_no),) = database.run("""
        SELECT count(*) FILTER (place = 0), count(*) FILTER (place = 1), count(*) FILTER (mark = 0) FROM results
    """)
    if at_zero and 2 * at_zero >= at_one:
        database.run(_FROM_ZERO)
        reading.note("files with positions from 0", 1)
    database.run(_AT_ZERO)
    if says_no:  # otherwise what is not marked was not clicked
        database.run(_UNKNOWN)
    if columns.page_size and has_pages:
        database.run(_PAGED.format(size=columns.page_size))
    if columns.second_pages == "apart":
        database.run(_APART.format(size=columns.page_size))
