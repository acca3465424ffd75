"""Tables with a row for each result shown: rows are put together to lists.

A list whose positions are 1, 2, .. once each is taken as it is. Of any other, rows that say the same twice are taken
once, and it is kept up to the first position of which nothing, or two different things, are known: how users click on
the top of a list does not depend on what stands below, so what is kept is counted right.
"""

from collections.abc import Sequence

from clickbandit.click_models.base import MAX_POSITIONS
from clickbandit.logs.columns import Columns
from clickbandit.logs.formats.base import ReadOptions
from clickbandit.logs.reading import MAX_EXAMPLES, Reading
from clickbandit.logs.rows import Tables, add_found, note_lines, note_problems, take
from clickbandit.logs.table import LogTable
from clickbandit.logs.tally import LogDatabase, Tally

ROWS_AT_ONCE = 10_000_000
"""Of how many rows lists are made at a time, so that these fit in memory."""
_COLUMNS = ("impression", "query", "item", "click", "position", "row", "column", "page")
_RESULTS = """
    CREATE OR REPLACE TEMP TABLE results (
        file INTEGER, n BIGINT, malformed VARCHAR, impression VARCHAR, query VARCHAR, item VARCHAR, mark TINYINT,
        click VARCHAR, position VARCHAR, place INTEGER, down INTEGER, across INTEGER, page INTEGER);
"""
_INSERT = """
    INSERT INTO results SELECT {file}, n, malformed, said(impression), said(query), said(item),
        click_of(click::VARCHAR), click::VARCHAR, {where} FROM {{rows}}
"""

# Positions that begin with 0 are moved by one, those of further pages by the pages before; what is not clear then is a
# problem. Nothing of it is stored: it is worked out whenever rows are read.
_SETTLED = """
    CREATE OR REPLACE TEMP VIEW settled AS
    SELECT file, n, impression{of_page} AS impression, query{called} AS query, item, mark, click, position,
           {in_page} AS place,
           CASE WHEN malformed IS NOT NULL THEN malformed
                WHEN impression IS NULL THEN 'no impression'
                WHEN item IS NULL THEN 'no item'
                WHEN spot IS NULL AND mark = 1 AND position IS NULL THEN 'a click on nothing shown (no position)'
                WHEN spot IS NULL AND position IS NULL THEN 'no position'
                WHEN spot IS NULL OR spot < 1 THEN 'a position that is not 1, 2, ..'
                WHEN mark IS NULL THEN 'a click that is neither yes nor no'
                WHEN mark = -1 AND {says_no} THEN 'no click, yes or no' END AS problem
    FROM (SELECT *, {paged} AS spot FROM (SELECT *, {place} AS begun FROM results));
    CREATE OR REPLACE TEMP VIEW checked AS
    SELECT file, n, problem, 1 AS times,
           concat_ws(', ', replace(impression, chr(31), '+'), query, item, position, nullif(click, '')) AS raw
    FROM settled;
"""

# How many places there are is the number of bits that are set, if no place was seen twice.
_LISTS = f"""
    CREATE OR REPLACE TEMP VIEW usable AS SELECT * FROM settled WHERE problem IS NULL AND {{these}};
    CREATE OR REPLACE TEMP TABLE impressions AS
    SELECT impression, min(query) AS query, max(query) AS other, count(*) AS size, max(place) AS last,
           list(item ORDER BY place) AS items, bit_count(bit_or(bit)) AS places,
           bit_or(CASE WHEN mark = 1 THEN bit ELSE 0 END) AS bits
    FROM (SELECT *, CASE WHEN place <= {MAX_POSITIONS} THEN 1::UBIGINT << (place - 1) ELSE 0 END AS bit FROM usable)
    GROUP BY impression;
    CREATE OR REPLACE TEMP TABLE messy AS
    SELECT impression FROM impressions WHERE NOT (size = last AND (places = size OR size > {MAX_POSITIONS}));
    CREATE OR REPLACE TEMP TABLE placed AS
    SELECT impression, place, any_value(item) AS item, max(mark) AS mark, count(*) AS rows,
           min(item) <> max(item) AS differ, min(query) AS query, max(query) AS other,
           count(DISTINCT (query, mark)) AS versions
    FROM usable SEMI JOIN messy USING (impression) GROUP BY impression, place;
    CREATE OR REPLACE TEMP TABLE mended AS
    SELECT *, len(list_filter(range(1, len(places) + 1), lambda i: places[i] = i)) AS top FROM (
        SELECT impression, min(query) AS query, max(other) AS other, max(place) AS last,
               list(item ORDER BY place) FILTER (NOT differ) AS items,
               list(place ORDER BY place) FILTER (NOT differ) AS places,
               bit_or(CASE WHEN mark = 1 AND place <= {MAX_POSITIONS} AND NOT differ
                           THEN 1::UBIGINT << (place - 1) ELSE 0 END) AS bits
        FROM placed GROUP BY impression);
    CREATE OR REPLACE TEMP TABLE lists_of_results AS
    SELECT CASE WHEN query = other AND top > 0 THEN NULL ELSE replace(impression, chr(31), '+') END AS lost,
           * EXCLUDE impression
    FROM (SELECT impression, query, other, items, bits, size = last AS whole, size AS top
          FROM impressions ANTI JOIN messy USING (impression)
          UNION ALL
          SELECT impression, query, other, items[:top],
                 CASE WHEN top < {MAX_POSITIONS} THEN bits & ((1::UBIGINT << coalesce(top, 0)::INTEGER) - 1)
                      ELSE bits END,
                 top = last, coalesce(top, 0)
          FROM mended);
    CREATE OR REPLACE TEMP TABLE found AS
    SELECT query, items, bits, count(*) AS times FROM lists_of_results
    WHERE query = other AND top > 0 GROUP BY ALL;
"""
_TABLES = ("impressions", "messy", "placed", "mended", "lists_of_results", "found")


def read_results(tables: Tables, tally: Tally, options: ReadOptions) -> Reading:
    """Count tables with a row for each result, together."""

    def insert(table: LogTable, file: int) -> str:
        is_grid = is_grid_of(table, options.columns)
        at = "NULL" if is_grid else "whole(position::VARCHAR)"
        raw = 'said("row")' if is_grid else "said(position)"
        grid = 'whole("row"::VARCHAR), whole("column"::VARCHAR)' if is_grid else "NULL, NULL"
        has_pages = options.columns.page_size and "page" in table.columns
        page = "whole(page::VARCHAR)" if has_pages else "NULL"
        return _INSERT.format(file=file, where=f"{raw}, {at}, {grid}, {page}")

    start_results(tally.database)
    reading = take(tables, _COLUMNS, insert, tally.database, options)
    settle(options.columns, tally.database, reading)
    note_lines(len(tables), tally.database, reading)
    note_problems([table.where for table in tables], tally.database, reading, options.strict)
    count_results(tally, reading)
    return reading


def is_grid_of(table: LogTable, columns: Columns) -> bool:
    """Whether rows and columns say where a result stood."""
    return columns.row is not None or "position" not in table.columns


def start_results(database: LogDatabase) -> None:
    """Make the empty table `results`, to be filled before `settle`."""
    database.run(_RESULTS)


def settle(columns: Columns, database: LogDatabase, reading: Reading) -> None:
    """Find out by file where positions begin and what no mark means; then there are `settled` and `checked`."""
    numbers = ("place", "down", "across", "page")
    counted = ", ".join(f"count(*) FILTER ({x} = 0), count(*) FILTER ({x} = 1)" for x in numbers)
    rows = database.run(
        f"SELECT file, count(*) FILTER (mark = 0), max(across), {counted} FROM results GROUP BY file"
    )
    says_no = [file for file, no, *_ in rows if no]  # otherwise what is not marked was not clicked
    from_zero = {
        name: [row[0] for row in rows if row[3 + 2 * i] and 2 * row[3 + 2 * i] >= row[4 + 2 * i]]
        for i, name in enumerate(numbers)
    }
    reading.note("files with positions from 0", len({file for moved in from_zero.values() for file in moved}))
    place, down, across, page = (
        f"({name} + {_is_in('file', moved)}::INTEGER)" if moved else name for name, moved in from_zero.items()
    )
    wide = [row[2] + (row[0] in from_zero["across"]) for row in rows if row[2] is not None]
    if wide:
        grid = f"CASE WHEN {down} > 0 AND {across} > 0 THEN ({down} - 1) * {max(wide)} + {across} END"
        place = f"coalesce({place}, {grid})"
    size = columns.page_size
    paged = f"CASE WHEN {page} > 1 AND begun <= {size} THEN ({page} - 1) * {size} ELSE 0 END + begun"
    is_apart = columns.second_pages == "apart"
    later, at_page = f"spot > {size}", f"((spot - 1) // {size} + 1)"
    database.run(
        _SETTLED.format(
            says_no=_is_in("file", says_no),
            place=place,
            paged=paged if size else "begun",
            in_page=f"CASE WHEN {later} THEN (spot - 1) % {size} + 1 ELSE spot END" if is_apart else "spot",
            of_page=f" || CASE WHEN {later} THEN chr(31) || {at_page} ELSE '' END" if is_apart else "",
            called=f" || CASE WHEN {later} THEN ' (page ' || {at_page} || ')' ELSE '' END"
            if is_apart
            else "",
        )
    )


def _is_in(name: str, numbers: Sequence[int]) -> str:
    return f"({name} IN ({', '.join(map(str, numbers))}))" if numbers else "false"


def count_results(tally: Tally, reading: Reading) -> None:
    """Make lists of the rows of `results` that have no problem, and count them."""
    database = tally.database
    n_parts = 1 + int(database.value("SELECT count(*) FROM results")) // ROWS_AT_ONCE
    for part in range(n_parts):
        these = f"hash(impression) % {n_parts} = {part}" if n_parts > 1 else "true"
        database.run(_LISTS.replace("{these}", these))
        ((no_query, two, no_top, cut),) = database.run("""
            SELECT count(*) FILTER (query IS NULL), count(*) FILTER (query <> other),
                   count(*) FILTER (query = other AND top = 0),
                   count(*) FILTER (query = other AND top > 0 AND NOT whole)
            FROM lists_of_results
        """)
        ((copies, repeated),) = database.run("""
            SELECT coalesce(sum(rows - versions), 0), coalesce(sum(versions - 1), 0) FROM placed WHERE NOT differ
        """)
        reading.note_lost(
            f"impression {lost}: {'no query' if query is None else why if query == other else f'{query} and {other}'}"
            for lost, query, other, why in database.run(f"""
                SELECT lost, query, other, 'no first position' FROM lists_of_results
                WHERE lost IS NOT NULL ORDER BY lost LIMIT {MAX_EXAMPLES}
            """)
        )
        add_found(tally, reading)
        reading.note("rows that are copies", int(copies))
        reading.note("rows that repeat a result", int(repeated))
        reading.note("impressions without a query", no_query)
        reading.note("impressions of two queries", two)
        reading.note("impressions without a first position", no_top)
        reading.note("impressions with a gap", cut)
    database.run("DROP VIEW usable; DROP VIEW checked; DROP VIEW settled; DROP TABLE results")
    for name in _TABLES:
        database.run(f"DROP TABLE {name}")
