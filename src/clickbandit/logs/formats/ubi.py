"""OpenSearch's User Behavior Insights: queries and events, as they are exported (https://github.com/o19s/ubi).

A `query_id` is one execution of a query, and so a list. What it showed are the `query_response_hit_ids` of its query,
or else the events `impression` with their `position.ordinal`; what was clicked, the events `click` and `click_through`,
by `object_id`. Queries and events may be in one file or in several, which are read together.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from clickbandit.logs.columns import Columns
from clickbandit.logs.formats.base import LogFormat, Opening, ReadOptions
from clickbandit.logs.reading import Reading
from clickbandit.logs.results import count_results, settle, start_results
from clickbandit.logs.rows import note_lines, note_problems, take
from clickbandit.logs.table import LogTable, TablePart, json_field, json_parts, parquet_table
from clickbandit.logs.tally import LogDatabase, Tally

_FIELDS = ("action_name", "query_id", "user_query", "query_response_hit_ids", "event_attributes")
_BULK = ("index", "create")
"""What stands between the lines of a bulk export."""
_START = """
    CREATE OR REPLACE TEMP TABLE ubi (
        file INTEGER, n BIGINT, problem VARCHAR, raw VARCHAR, action VARCHAR, query_id VARCHAR, user_query VARCHAR,
        hits VARCHAR[], item VARCHAR, ordinal VARCHAR);
    CREATE OR REPLACE TEMP VIEW checked AS SELECT file, n, problem, 1 AS times, raw FROM ubi;
"""
_INSERT = """
    INSERT INTO ubi
    SELECT {file}, n, problem, CASE WHEN problem IS NOT NULL THEN raw END, action, id, user_query, hits, item, ordinal
    FROM (SELECT *, CASE WHEN malformed IS NOT NULL THEN malformed WHEN id IS NULL THEN 'no query_id' END AS problem
          FROM (SELECT n, malformed, raw, json_extract_string(action_name, '$') AS action,
                       json_extract_string(query_id, '$') AS id, json_extract_string(user_query, '$') AS user_query,
                       json_extract_string(query_response_hit_ids, '$[*]') AS hits,
                       json_extract_string(event_attributes, '$.object.object_id') AS item,
                       json_extract_string(event_attributes, '$.position.ordinal') AS ordinal
                FROM {{rows}}))
"""
_FIND = """
    CREATE OR REPLACE TEMP TABLE ubi_shown AS
    WITH hit AS (SELECT query_id, arg_max(hits, len(hits)) AS hits, min(file) AS file, min(n) AS n FROM ubi
                 WHERE problem IS NULL AND action IS NULL AND len(hits) > 0 GROUP BY query_id),
         zero AS (SELECT count(*) FILTER (ordinal = '0') * 2
                         >= greatest(count(*) FILTER (ordinal = '1'), 1) AS from_zero
                  FROM ubi WHERE action = 'impression')
    SELECT file, n, query_id, unnest(hits) AS item, generate_subscripts(hits, 1)::VARCHAR AS position FROM hit
    UNION ALL
    SELECT file, n, query_id, item,
           CASE WHEN from_zero THEN coalesce((try_cast(ordinal AS BIGINT) + 1)::VARCHAR, ordinal) ELSE ordinal END
    FROM ubi, zero WHERE problem IS NULL AND action = 'impression' AND query_id NOT IN (SELECT query_id FROM hit);
    CREATE OR REPLACE TEMP TABLE ubi_clicks AS
    SELECT DISTINCT query_id, item FROM ubi
    WHERE problem IS NULL AND action IN ('click', 'click_through') AND item IS NOT NULL;
    INSERT INTO results
    SELECT file, n, NULL, said(query_id), said(text), said(item),
           (clicks.item IS NOT NULL
            AND row_number() OVER (PARTITION BY query_id, item ORDER BY try_cast(position AS BIGINT)) = 1)::TINYINT,
           NULL, said(position), whole(position), NULL, NULL, NULL
    FROM ubi_shown LEFT JOIN ubi_clicks AS clicks USING (query_id, item)
    LEFT JOIN (SELECT query_id, max(user_query) AS text FROM ubi GROUP BY query_id) AS texts USING (query_id);
"""


class UBIFormat(LogFormat):
    """Queries and events of UBI as JSON lines, with or without the lines of a bulk export, or as Parquet."""

    together = True

    def recognise(self, opening: Opening) -> bool:
        names = set(opening.columns)
        if opening.is_json and len(names) == 1 and names <= set(_BULK):
            return '"ubi_' in opening.lines[0]
        return "query_id" in names and bool(names & {"action_name", "user_query"})

    def read(self, path: Path, tally: Tally, options: ReadOptions) -> Reading:
        return self.read_together([path], tally, options)

    def read_together(self, paths: Sequence[Path], tally: Tally, options: ReadOptions) -> Reading:
        database, where = tally.database, list(map(str, paths))
        database.run(_START)
        tables = [_table(path, database) for path in paths]
        reading = take(tables, _COLUMNS, lambda _, file: _INSERT.format(file=file), database, options)
        note_lines(len(paths), database, reading)
        note_problems(where, database, reading, options.strict)
        start_results(database)
        database.run(_FIND)
        lost, others = (
            database.value(f"SELECT count(*) FROM {rows}")
            for rows in (
                "ubi_clicks ANTI JOIN ubi_shown USING (query_id, item)",
                "ubi WHERE action NOT IN ('impression', 'click', 'click_through')",
            )
        )
        settle(Columns(), database, reading)
        note_problems(where, database, reading, options.strict)
        count_results(tally, reading)
        reading.note("clicks on nothing shown", lost)
        reading.note("events of other kinds", others)
        database.run("DROP TABLE ubi; DROP TABLE ubi_shown; DROP TABLE ubi_clicks")
        return reading


_COLUMNS = ("raw", *_FIELDS)


def _table(path: Path, database: LogDatabase) -> LogTable:
    """Queries and events of a file: all columns as JSON, and the line itself as `raw`."""
    if Opening(path).schema is not None:
        return _parquet(path, database)

    def parts(names: Sequence[str]) -> Iterator[TablePart]:
        cells = ", ".join(
            f"{'line' if name == 'raw' else json_field(name)} AS c{i}" for i, name in enumerate(names)
        )
        between = " AND ".join(f"{json_field(name)} IS NULL" for name in _BULK)
        for part in json_parts(path, (*_FIELDS, *_BULK)):
            yield part._replace(
                sql=f"(SELECT n, malformed, {cells} FROM {part.sql} WHERE malformed IS NOT NULL OR ({between}))"
            )

    return LogTable(str(path), dict.fromkeys(_COLUMNS, "JSON"), parts)


def _parquet(path: Path, database: LogDatabase) -> LogTable:
    known = parquet_table(path, database)
    there = [name for name in _FIELDS if name in known.columns]

    def cell(name: str) -> str:
        if name not in there:
            return "NULL"
        given = f"c{there.index(name)}"
        is_object = name == "event_attributes" and known.columns[name] == "VARCHAR"  # an object as a text
        return f"{given}::JSON" if is_object else f"to_json({given})"

    def parts(names: Sequence[str]) -> Iterator[TablePart]:
        cells = ", ".join(f"{cell(name)} AS c{i}" for i, name in enumerate(names))
        for part in known.parts(there):
            yield part._replace(sql=f"(SELECT n, malformed, {cells} FROM {part.sql})")

    return LogTable(str(path), dict.fromkeys(_COLUMNS, "JSON"), parts)
