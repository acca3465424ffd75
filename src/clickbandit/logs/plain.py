"""Plain logs, as CSV or Parquet files or as data frames: a row for each list, or a row for each item shown.

Rows that are alike are grouped before their lists are taken apart.
"""

from pathlib import Path
from typing import Any

import duckdb

from clickbandit.errors import InputError
from clickbandit.logs import files, formats
from clickbandit.logs.reading import Reading
from clickbandit.logs.tally import MAX_POSITIONS, Database

# A list in one cell: between brackets or not, its entries apart by | ; , or blanks, in quotes or not.
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

_LISTS = f"""
    CREATE OR REPLACE TEMP TABLE grouped AS
    SELECT query::VARCHAR AS query, list, clicks, count(*) AS times, min(n) AS n FROM rows GROUP BY ALL;
    CREATE OR REPLACE TEMP TABLE found AS
    SELECT *, CASE WHEN query IS NULL OR query = '' THEN 'no query'
                   WHEN items IS NULL OR marked IS NULL THEN 'no list or no clicks'
                   WHEN len(items) <> len(marked) THEN 'not as many clicks as items'
                   WHEN len(list_filter(items, lambda item: item IS NULL OR item = '')) > 0
                       THEN 'an empty item'
                   WHEN len(list_filter(marked, lambda mark: mark IS NULL
                            OR lower(mark) NOT IN ('0', '1', 'true', 'false'))) > 0
                       THEN 'a click that is neither 0 nor 1' END AS problem,
           CASE WHEN len(items) <= {MAX_POSITIONS} THEN list_sum(list_transform(
               list_filter(range(len(items)), lambda k: is_click(marked[k + 1])),
               lambda k: 1::UBIGINT << k::INTEGER)) END AS bits
    FROM (SELECT * EXCLUDE (list, clicks), {{items}} AS items, {{marked}} AS marked FROM grouped);
"""

_ITEMS = f"""
    CREATE OR REPLACE TEMP TABLE checked AS
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
    SELECT query, items, bits, count(*) AS times, min(n) AS n, NULL AS problem, broken FROM (
        SELECT any_value(query) AS query, list(item ORDER BY place) AS items, min(n) AS n,
               bit_or(CASE WHEN is_click(mark) AND place <= {MAX_POSITIONS}
                           THEN 1::UBIGINT << (place - 1) ELSE 0 END) AS bits,
               count(problem) > 0 OR min(query) <> max(query) OR min(place) <> 1 OR max(place) <> count(*)
                   OR count(DISTINCT place) <> count(*) AS broken
        FROM checked WHERE impression IS NOT NULL GROUP BY impression)
    GROUP BY ALL;
"""


_REJECTED = {
    "MISSING COLUMNS": "not as many fields as the header",
    "UNQUOTED VALUE": "quotes that do not close",
    "INVALID ENCODING": "bytes that are not UTF-8",
    "LINE SIZE OVER MAXIMUM": "a line that is too long",
}
"""Why DuckDB rejects a line, in our words."""


def count_plain(
    database: Database, source: str, columns: dict[str, str], where: str, strict: bool
) -> Reading:
    """Count the table `source` (SQL), whose columns have these types."""
    run = database.run
    names = formats.shape(list(columns), where)
    reading = Reading(files=1)
    rejected: list[tuple[int, str]] = []
    run(_MACROS)
    run("SET preserve_insertion_order = true")  # so that rows can be numbered
    try:
        run(f"CREATE OR REPLACE TEMP VIEW rows AS SELECT row_number() OVER () AS n, * FROM {source}")
        if names == formats.LISTS:
            items, marked = (_as_list(columns, name) for name in ("list", "clicks"))
            run(_LISTS.format(items=items, marked=marked))
        else:
            run(_ITEMS)
        rejected = take_rejected(database, source)
    except duckdb.Error as error:
        raise InputError(f"{where} cannot be read: {str(error).splitlines()[0]}") from error
    finally:
        run("SET preserve_insertion_order = false")
    table, times = ("found", "times") if names == formats.LISTS else ("checked", "1")
    ((n_bad,),) = run(f"SELECT coalesce(sum({times}), 0) FROM {table} WHERE problem IS NOT NULL")
    worst = run(f"SELECT n, problem FROM {table} WHERE problem IS NOT NULL ORDER BY n LIMIT 10")
    first = 2 if source.startswith("read_csv") else 1  # a CSV file's header is its line 1
    problems = sorted(
        rejected + [(_line(n + first - 1, [line for line, _ in rejected]), problem) for n, problem in worst]
    )
    if problems and strict:
        line, problem = problems[0]
        raise InputError(f"{where}:{line}: malformed line: {problem}; correct it, or read without --strict")
    reading.note("malformed lines", int(n_bad) + len(rejected))
    for line, problem in problems[:10]:
        reading.note_malformed(where, line, problem)
    _hand_over(database, reading, names)
    return reading


def take_rejected(database: Database, source: str) -> list[tuple[int, str]]:
    """The lines of a CSV file that were no rows, and why."""
    if not source.startswith("read_csv"):
        return []
    found = database.run(
        "SELECT line, min(error_type::VARCHAR) FROM reject_errors GROUP BY line ORDER BY line"
    )
    database.run("TRUNCATE reject_errors; TRUNCATE reject_scans")
    return [(line, _REJECTED.get(kind, _REJECTED["MISSING COLUMNS"])) for line, kind in found]


def _hand_over(database: Database, reading: Reading, names: tuple[str, ...]) -> None:
    broken = "broken" if names == formats.ITEMS else "false"
    ((rows, broken_rows, empty, long, sessions, clicks),) = database.run(f"""
        CREATE OR REPLACE TEMP TABLE usable AS
        SELECT md5_number(query || chr(30) || array_to_string(items, chr(31))) AS list, query, items,
               coalesce(bits, 0)::UBIGINT AS bits, times
        FROM found WHERE problem IS NULL AND NOT {broken} AND len(items) BETWEEN 1 AND {MAX_POSITIONS};
        INSERT INTO seen_lists SELECT list, any_value(query), any_value(items) FROM usable GROUP BY list;
        INSERT INTO seen_clicks SELECT list, bits, times FROM usable;
        SELECT (SELECT count(*) FROM rows), coalesce(sum(times) FILTER ({broken}), 0),
               coalesce(sum(times) FILTER (len(items) = 0), 0),
               coalesce(sum(times) FILTER (len(items) > {MAX_POSITIONS} AND NOT {broken}), 0),
               (SELECT coalesce(sum(times), 0) FROM usable),
               (SELECT coalesce(sum(times * bit_count(bits)), 0) FROM usable)
        FROM found WHERE problem IS NULL
    """)
    reading.lines, reading.sessions, reading.clicks = int(rows), int(sessions), int(clicks)
    reading.note("broken impressions", int(broken_rows))
    reading.note("empty lists", int(empty))
    reading.note("lists longer than 64", int(long))


def source_of(path: Path, format: str) -> str:
    """The SQL that reads a CSV or Parquet file as a table."""
    quoted = str(path).replace("'", "''")
    if format == "parquet" or files.head(path).startswith(b"PAR1"):
        return f"read_parquet('{quoted}')"
    first = files.head(path).decode(errors="replace").partition("\n")[0]
    names = ", ".join("'{}': 'VARCHAR'".format(name.replace("'", "''")) for name in formats.header(first))
    return (
        f"read_csv('{quoted}', header = true, auto_detect = false, columns = {{{names}}}, "
        f"delim = '{formats.delimiter(first)}', quote = '\"', escape = '\"', "
        f"compression = '{files.compression(path)}', ignore_errors = true, store_rejects = true)"
    )


def columns_of(database: Database, source: str, where: str, **frames: Any) -> dict[str, str]:
    """The names and types of a table's columns."""
    try:
        rows = database.run(f"DESCRIBE SELECT * FROM {source}", **frames)
    except duckdb.Error as error:
        raise InputError(
            f"{where} cannot be read: expected CSV with a header or Parquet, but {str(error).splitlines()[0]}"
        ) from error
    return {row[0].lower(): row[1] for row in rows}


def _as_list(columns: dict[str, str], name: str) -> str:
    if columns[name].endswith("]"):
        return f"list_transform({name}, lambda entry: entry::VARCHAR)"
    return f"{'marks' if name == 'clicks' else 'entries'}(coalesce({name}::VARCHAR, ''))"


def _line(line: int, rejected: list[int]) -> int:
    """A row's line in its file, past the lines that were not rows."""
    for other in rejected:
        line += other <= line
    return line
