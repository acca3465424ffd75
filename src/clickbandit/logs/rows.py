"""What all shapes of tables share: values in cells, rows with problems, and lists that can be used."""

from collections.abc import Sequence

from clickbandit.click_models.base import MAX_POSITIONS
from clickbandit.errors import InputError
from clickbandit.extras import duckdb
from clickbandit.logs.reading import MAX_EXAMPLES, Reading
from clickbandit.logs.table import LogTable
from clickbandit.logs.tally import Database, Tally

# A list in one cell: in brackets or not, separated by | ; , or blanks, its entries in quotes or not. A click: yes or
# no, a number of clicks, or a time at which it was; nothing at all is -1, and what is none of these NULL.
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
    CREATE OR REPLACE TEMP MACRO odd_click(mark) AS
        CASE WHEN mark IS NULL OR lower(trim(mark)) IN ('', 'null', 'none', 'nan', 'na', 'n/a') THEN -1
             WHEN lower(trim(mark)) IN ('true', 't', 'yes', 'y') THEN 1
             WHEN lower(trim(mark)) IN ('false', 'f', 'no', 'n') THEN 0
             WHEN try_cast(mark AS DOUBLE) > 0 THEN 1
             WHEN try_cast(mark AS DOUBLE) = 0 THEN 0
             WHEN try_cast(mark AS DOUBLE) IS NULL AND try_cast(mark AS TIMESTAMP) IS NOT NULL THEN 1 END;
    CREATE OR REPLACE TEMP MACRO click_of(mark) AS
        CASE WHEN mark = '0' THEN 0 WHEN mark = '1' THEN 1 ELSE odd_click(mark) END;
    CREATE OR REPLACE TEMP MACRO whole(cell) AS
        coalesce(CASE WHEN regexp_full_match(cell, '[0-9]{1,6}') THEN cell::INTEGER END,
                 CASE WHEN abs(try_cast(cell AS DOUBLE)) < 1e6
                           AND try_cast(cell AS DOUBLE) = floor(try_cast(cell AS DOUBLE))
                      THEN try_cast(cell AS DOUBLE)::INTEGER END);
    CREATE OR REPLACE TEMP MACRO said(cell) AS CASE WHEN trim(cell::VARCHAR) = '' THEN NULL ELSE cell::VARCHAR END;
"""


def find_rows(table: LogTable, find: str, database: Database) -> None:
    """Run statements over the view `rows` of a table, in which `n` is the number of a row."""
    database.run(_MACROS)
    database.run("SET preserve_insertion_order = true")  # so that rows can be numbered
    rows = f"CREATE OR REPLACE TEMP VIEW rows AS SELECT row_number() OVER () AS n, * FROM {table.sql};"
    try:
        run(database, table, rows + find)
    finally:
        database.run("SET preserve_insertion_order = false")


def run(database: Database, table: LogTable, sql: str) -> None:
    """Run a statement that reads a table."""
    try:
        database.run(sql)
    except duckdb.Error as error:
        raise InputError(f"{table.where} cannot be read: {str(error).splitlines()[0]}") from error


def note_problems(table: LogTable, tally: Tally, reading: Reading, strict: bool) -> None:
    """Count the rows of `checked` (`n`, `problem`, `times`, `raw`), those with problems by cause."""
    database = tally.database
    rejected = table.take_rejected(database)
    causes = dict(
        database.run("SELECT problem, sum(times)::BIGINT FROM checked WHERE problem IS NOT NULL GROUP BY ALL")
    )
    bad = database.run(f"""
        SELECT n, problem, raw FROM checked WHERE problem IS NOT NULL ORDER BY n LIMIT {MAX_EXAMPLES}
    """)
    lines = [line for line, _ in rejected]
    problems = sorted(
        [(line, why, "") for line, why in rejected]
        + [(_line(n + table.first_line - 1, lines), why, raw or "") for n, why, raw in bad]
    )
    for _, why in rejected:
        causes[why] = causes.get(why, 0) + 1
    reading.lines += int(database.value("SELECT coalesce(sum(times), 0) FROM checked")) + len(rejected)
    reading.note_malformed(table.where, problems, causes, strict)


def _line(line: int, rejected: Sequence[int]) -> int:
    """A row's line in its file, past the lines that are no rows."""
    for other in rejected:
        line += other <= line
    return line


def add_found(tally: Tally, reading: Reading) -> None:
    """Count the lists of `found` (`query`, `items`, `bits`, `times`), but for those that are too short or too long."""
    usable = f"len(items) BETWEEN 1 AND {MAX_POSITIONS}"
    ((empty, long, sessions, clicks),) = tally.database.run(f"""
        SELECT coalesce(sum(times) FILTER (len(items) = 0), 0),
               coalesce(sum(times) FILTER (len(items) > {MAX_POSITIONS}), 0),
               coalesce(sum(times) FILTER ({usable}), 0),
               coalesce(sum(times * bit_count(coalesce(bits, 0)::UBIGINT)) FILTER ({usable}), 0)
        FROM found
    """)
    tally.add_lists(f"""
        (SELECT query, items, coalesce(bits, 0)::UBIGINT AS clicks, times AS sessions FROM found WHERE {usable})
    """)
    reading.sessions += int(sessions)
    reading.clicks += int(clicks)
    reading.note("empty lists", int(empty))
    reading.note("lists longer than 64", int(long))
