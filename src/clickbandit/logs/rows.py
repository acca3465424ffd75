"""What all shapes of tables share: values in cells, rows with problems, and lists that can be used."""

from collections.abc import Callable, Iterator, Sequence

from clickbandit.click_models.base import MAX_POSITIONS
from clickbandit.errors import InputError
from clickbandit.extras import duckdb
from clickbandit.logs.formats.base import ReadOptions
from clickbandit.logs.reading import MAX_EXAMPLES, Reading
from clickbandit.logs.table import LogTable
from clickbandit.logs.tally import LogDatabase, Tally

_MONTH = "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_TIME = "|".join(
    [
        r"(.*[^0-9])?[0-9]{1,2}:[0-9]{2}([^0-9].*)?",  # with a time of day
        r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4}",
        rf"([a-z]+,? )?[0-9]{{1,2}}[-/. ]+{_MONTH}[-/., ]+[0-9]{{2,4}}|{_MONTH} [0-9]{{1,2}},? [0-9]{{4}}",
        r"[0-9.]+ (day|hour|min|sec|milli|micro)[a-z]*",
    ]
)
"""What is plainly a time, as one writes it or as one prints it, in small letters."""

# A list in one cell: in brackets or not, separated by | ; , or blanks, its entries in quotes or not; a JSON array of
# one text is one entry, whatever is in it. A click: yes or no, a number of clicks, or a time at which it was; nothing
# at all is -1, and what is none of these NULL.
_MACROS = rf"""
    CREATE OR REPLACE TEMP MACRO bare(cell) AS trim(cell, '[]() ');
    CREATE OR REPLACE TEMP MACRO entries(cell) AS
        CASE WHEN bare(cell) = '' THEN []
             ELSE list_transform(
                CASE WHEN regexp_full_match(trim(cell), '\["[^"]*"\]') THEN [bare(cell)]
                     WHEN contains(cell, '|') THEN string_split(bare(cell), '|')
                     WHEN contains(cell, ';') THEN string_split(bare(cell), ';')
                     WHEN contains(cell, ',') THEN string_split(bare(cell), ',')
                     ELSE regexp_split_to_array(bare(cell), '\s+') END,
                lambda entry: trim(entry, ' ''"')) END;
    CREATE OR REPLACE TEMP MACRO marks(cell) AS
        CASE WHEN regexp_full_match(cell, '[01]+') THEN string_split(cell, '') ELSE entries(cell) END;
    CREATE OR REPLACE TEMP MACRO number_of(cell) AS
        coalesce(try_cast(cell AS DOUBLE), CASE WHEN regexp_full_match(cell, '[0-9]+,[0-9]+')
                                                THEN try_cast(replace(cell, ',', '.') AS DOUBLE) END);
    CREATE OR REPLACE TEMP MACRO odd_click(mark) AS
        CASE WHEN mark IS NULL OR mark IN ('', 'null', 'none', 'nan', 'nat', 'na', 'n/a', '<na>', '\n') THEN -1
             WHEN mark IN ('true', 't', 'yes', 'y') THEN 1
             WHEN mark IN ('false', 'f', 'no', 'n') THEN 0
             WHEN number_of(mark) > 0 THEN 1
             WHEN number_of(mark) = 0 THEN 0
             WHEN starts_with(mark, '0000-00-00') THEN -1
             WHEN regexp_full_match(mark, '{_TIME}') THEN 1 END;
    CREATE OR REPLACE TEMP MACRO click_of(mark) AS
        CASE WHEN mark IN ('0', '0.0') THEN 0 WHEN mark IN ('1', '1.0') THEN 1
             ELSE odd_click(lower(trim(mark))) END;
    CREATE OR REPLACE TEMP MACRO whole(cell) AS
        coalesce(CASE WHEN regexp_full_match(cell, '[0-9]{{1,6}}') THEN cell::INTEGER END,
                 CASE WHEN abs(number_of(cell)) < 1e6 AND number_of(cell) = floor(number_of(cell))
                           AND NOT regexp_full_match(cell, '[0-9]+,[0-9]{{3,}}')
                      THEN number_of(cell)::INTEGER END);
    CREATE OR REPLACE TEMP MACRO said(cell) AS CASE WHEN trim(cell::VARCHAR) = '' THEN NULL ELSE cell::VARCHAR END;
"""

Tables = Sequence[LogTable]
"""The tables of a log, which is all of them together."""


def take(
    tables: Tables,
    wanted: Sequence[str],
    insert: Callable[[LogTable, int], str],
    database: LogDatabase,
    options: ReadOptions,
) -> Reading:
    """Run a statement over each part of tables, which it calls {rows}; what files were read."""
    database.run(_MACROS)
    reading = Reading(files=len(tables))
    for number, table in enumerate(tables):
        statement, n_bytes = insert(table, number), 0
        for part in table.read([name for name in wanted if name in table.columns]):
            if part.truncated and options.strict:
                raise InputError(f"the compressed data of {table.where} ends early: get the file again")
            reading.note("files cut short", part.truncated)
            try:
                database.run(statement.replace("{rows}", part.sql), **part.frames)
            except duckdb.Error as error:
                raise InputError(f"{table.where} cannot be read: {str(error).splitlines()[0]}") from error
            options.progress(part.bytes_read - n_bytes, 0)
            n_bytes = part.bytes_read
    return reading


def note_problems(where: Sequence[str], database: LogDatabase, reading: Reading, strict: bool) -> None:
    """Count the rows of `checked` (`file`, `n`, `problem`, `times`, `raw`), those with problems by cause."""
    causes = dict(
        database.run("SELECT problem, sum(times)::BIGINT FROM checked WHERE problem IS NOT NULL GROUP BY ALL")
    )
    bad = database.run(f"""
        SELECT file, n, problem, raw FROM checked WHERE problem IS NOT NULL ORDER BY file, n LIMIT {MAX_EXAMPLES}
    """)
    for file, problems in _by_file(bad):
        reading.note_malformed(where[file], problems, {}, strict)
    reading.note_malformed("", [], causes, strict)


def note_lines(n_files: int, database: LogDatabase, reading: Reading) -> None:
    """Count the lines of `checked`, and files of which none can be used."""
    ((lines, used),) = database.run("""
        SELECT coalesce(sum(times), 0)::BIGINT, count(DISTINCT file) FILTER (problem IS NULL) FROM checked
    """)
    reading.lines += lines
    reading.note("files without a session", n_files - used)


def _by_file(bad: Sequence[tuple[int, int, str, str]]) -> Iterator[tuple[int, list[tuple[int, str, str]]]]:
    for file in dict.fromkeys(row[0] for row in bad):
        yield file, [(n, problem, raw or "") for of, n, problem, raw in bad if of == file]


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
