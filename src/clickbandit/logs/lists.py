"""Tables with a row for each list.

Where an impression has several rows, as pages of a list do, they are put together as rows of single results are.
"""

from clickbandit.click_models.base import MAX_POSITIONS
from clickbandit.errors import InputError
from clickbandit.logs.formats.base import ReadOptions
from clickbandit.logs.reading import Reading
from clickbandit.logs.results import count_results, settle, start_results
from clickbandit.logs.rows import Tables, add_found, note_lines, note_problems, take
from clickbandit.logs.table import LogTable
from clickbandit.logs.tally import Tally

_COLUMNS = ("query", "list", "clicks", "impression", "page")
_LISTS = """
    CREATE OR REPLACE TEMP TABLE lists_given (
        file INTEGER, n BIGINT, times BIGINT, impression VARCHAR, page INTEGER, query VARCHAR, items VARCHAR[],
        bits UBIGINT, problem VARCHAR, raw VARCHAR);
    CREATE OR REPLACE TEMP VIEW checked AS SELECT file, n, problem, times, raw FROM lists_given;
"""

# Rows that are alike are grouped before their lists are taken apart.
_INSERT = f"""
    INSERT INTO lists_given
    SELECT {{file}}, n, times, impression, page, query, items, bits, problem,
           CASE WHEN problem IS NOT NULL
                THEN concat_ws(', ', query, nullif(list::VARCHAR, ''), nullif(clicks::VARCHAR, '')) END
    FROM (SELECT *, CASE WHEN malformed IS NOT NULL THEN malformed
                         WHEN query IS NULL THEN 'no query'
                         WHEN {{has_ids}} AND impression IS NULL THEN 'no impression'
                         WHEN items IS NULL OR marked IS NULL THEN 'no list or no clicks'
                         WHEN len(items) <> len(marked) THEN 'not as many clicks as items'
                         WHEN len(list_filter(items, lambda item: item IS NULL OR item = '')) > 0 THEN 'an empty item'
                         WHEN len(list_filter(marked, lambda mark: coalesce(click_of(mark), -1) = -1)) > 0
                             THEN 'a click that is neither yes nor no' END AS problem,
                 list_sum(list_transform(
                     list_filter(range(least(len(items), {MAX_POSITIONS})), lambda k: click_of(marked[k + 1]) = 1),
                     lambda k: 1::UBIGINT << k::INTEGER)) AS bits
          FROM (SELECT *, {{items}} AS items, {{marked}} AS marked
                FROM (SELECT malformed, {{impression}} AS impression, {{page}} AS page,
                             nullif(query::VARCHAR, '') AS query, list, clicks, count(*) AS times, min(n) AS n
                      FROM {{{{rows}}}} GROUP BY ALL)))
"""
_ONCE = """
    CREATE OR REPLACE TEMP TABLE lists_once AS
    SELECT impression, page, query, items, bits, sum(times) AS times, min(file) AS file, min(n) AS n,
           count(*) OVER (PARTITION BY impression) > 1 OR {all} AS several
    FROM lists_given WHERE problem IS NULL GROUP BY impression, page, query, items, bits;
    CREATE OR REPLACE TEMP VIEW found AS
    SELECT query, items, bits, 1 AS times FROM lists_once WHERE NOT several OR len(items) = 0;
"""
_UNNEST = """
    INSERT INTO results
    SELECT file, n, NULL, impression, query, items[k], coalesce(bits >> (k - 1)::INTEGER, 0) & 1, NULL, NULL, k, NULL,
           NULL, page
    FROM (SELECT *, unnest(range(1, len(items) + 1)) AS k FROM lists_once WHERE several)
"""


def read_lists(tables: Tables, tally: Tally, options: ReadOptions) -> Reading:
    """Count tables with a row for each list, together."""
    database, columns = tally.database, options.columns
    has_ids = all("impression" in table.columns for table in tables)
    has_pages = bool(columns.page_size) and any("page" in table.columns for table in tables)
    if has_pages and not has_ids:
        raise InputError(
            f"{tables[0].where} has pages of lists, but nothing says which belong together: name impression too"
        )
    is_apart = columns.second_pages == "apart"

    def insert(table: LogTable, file: int) -> str:
        return _INSERT.format(
            file=file,
            has_ids=str(has_ids).lower(),
            impression="said(impression)" if has_ids else f"{file} || ':' || n" if is_apart else "NULL",
            page="whole(page::VARCHAR)" if has_pages and "page" in table.columns else "NULL",
            items=_as_list(table, "list"),
            marked=_as_list(table, "clicks"),
        )

    database.run(_LISTS)
    reading = take(tables, _COLUMNS, insert, database, options)
    note_lines(len(tables), database, reading)
    note_problems([table.where for table in tables], database, reading, options.strict)
    if has_ids or is_apart:
        database.run(_ONCE.format(all=str(has_pages or is_apart).lower()))
        reading.note(
            "rows that are copies",
            int(database.value("SELECT coalesce(sum(times - 1), 0) FROM lists_once")),
        )
        add_found(tally, reading)
        database.run("DROP VIEW found; DROP VIEW checked")
        start_results(database)
        database.run(_UNNEST)
        settle(columns, database, reading)
        count_results(tally, reading)
        database.run("DROP TABLE lists_once")
    else:
        database.run("CREATE OR REPLACE TEMP VIEW found AS SELECT * FROM lists_given WHERE problem IS NULL")
        add_found(tally, reading)
        database.run("DROP VIEW found; DROP VIEW checked")
    database.run("DROP TABLE lists_given")
    return reading


def _as_list(table: LogTable, name: str) -> str:
    if table.columns[name].endswith("]"):
        return f"list_transform({name}, lambda entry: entry::VARCHAR)"
    return f"{'marks' if name == 'clicks' else 'entries'}(coalesce({name}::VARCHAR, ''))"
