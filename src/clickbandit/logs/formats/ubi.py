"""OpenSearch's User Behavior Insights: queries and events, as they are exported (https://github.com/o19s/ubi).

A `query_id` is one execution of a query, and so a list. What it showed are the `query_response_hit_ids` of its query,
or else the events `impression` with their `position.ordinal`; what was clicked, the events `click` and `click_through`,
by `object_id`. Queries and events may be in one file or in several, which are read together.
"""

from collections.abc import Sequence
from pathlib import Path

from clickbandit.logs import files
from clickbandit.logs.columns import Columns
from clickbandit.logs.formats.base import LogFormat, Opening, ReadOptions
from clickbandit.logs.reading import Reading
from clickbandit.logs.results import read_results
from clickbandit.logs.table import describe, parquet_table, quoted
from clickbandit.logs.tally import Database, Tally

_FIELDS = ("action_name", "query_id", "user_query", "query_response_hit_ids", "event_attributes")
_BULK = ("index", "create")
"""What stands between the lines of a bulk export."""
_TAKE = """
    INSERT INTO ubi SELECT
        json_extract_string(action_name, '$'), json_extract_string(query_id, '$'), json_extract_string(user_query, '$'),
        json_extract_string(query_response_hit_ids, '$[*]'),
        json_extract_string(event_attributes, '$.object.object_id'),
        json_extract_string(event_attributes, '$.position.ordinal')
    FROM {source} WHERE {rows}
"""
_FIND = """
    CREATE OR REPLACE TEMP TABLE ubi_shown AS
    WITH hit AS (SELECT query_id, arg_max(hits, len(hits)) AS hits FROM ubi
                 WHERE action IS NULL AND len(hits) > 0 GROUP BY query_id),
         zero AS (SELECT count(*) FILTER (ordinal = '0') * 2
                         >= greatest(count(*) FILTER (ordinal = '1'), 1) AS from_zero
                  FROM ubi WHERE action = 'impression')
    SELECT query_id, unnest(hits) AS item, generate_subscripts(hits, 1)::VARCHAR AS position FROM hit
    UNION ALL
    SELECT query_id, item, CASE WHEN from_zero THEN coalesce((try_cast(ordinal AS BIGINT) + 1)::VARCHAR, ordinal)
                                ELSE ordinal END
    FROM ubi, zero WHERE action = 'impression' AND query_id NOT IN (SELECT query_id FROM hit);
    CREATE OR REPLACE TEMP TABLE ubi_clicks AS
    SELECT DISTINCT query_id, item FROM ubi WHERE action IN ('click', 'click_through') AND item IS NOT NULL;
    CREATE OR REPLACE TEMP TABLE ubi_results AS
    SELECT shown.query_id AS impression, text AS query, shown.item, shown.position,
           (clicks.item IS NOT NULL
            AND row_number() OVER (PARTITION BY shown.query_id, shown.item ORDER BY try_cast(position AS BIGINT)) = 1
           )::INTEGER AS click
    FROM ubi_shown AS shown LEFT JOIN ubi_clicks AS clicks USING (query_id, item)
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
        database = tally.database
        database.run("""
            CREATE OR REPLACE TEMP TABLE ubi (
                action VARCHAR, query_id VARCHAR, user_query VARCHAR, hits VARCHAR[], item VARCHAR, ordinal VARCHAR)
        """)
        reading = Reading()
        for path in paths:
            reading.lines += _take(path, database)
        database.run(_FIND)
        where = ", ".join(map(str, paths))
        found = read_results(describe("ubi_results", where, database), Columns(), tally, options.strict)
        lost, others, nameless = (
            database.value(f"SELECT count(*) FROM {rows}")
            for rows in (
                "ubi_clicks ANTI JOIN ubi_shown USING (query_id, item)",
                "ubi WHERE action NOT IN ('impression', 'click', 'click_through')",
                "ubi WHERE query_id IS NULL",
            )
        )
        found.lines = reading.lines
        found.files = len(paths)
        found.note("clicks on nothing shown", lost)
        found.note("events of other kinds", others)
        if nameless:
            found.note_malformed(where, [], {"no query_id": nameless}, options.strict)
        database.run("DROP TABLE ubi; DROP TABLE ubi_shown; DROP TABLE ubi_clicks; DROP TABLE ubi_results")
        return found


def _take(path: Path, database: Database) -> int:
    """Add the queries and events of a file to `ubi`; how many these are."""
    before = database.value("SELECT count(*) FROM ubi")
    if Opening(path).schema is not None:
        known = parquet_table(path, database)
        fields = [
            f"to_json({name}) AS {name}" if name in known.columns else f"NULL AS {name}" for name in _FIELDS
        ]
        attributes = "event_attributes"
        if known.columns.get(attributes) == "VARCHAR":  # an object as a text
            fields[-1] = f"{attributes}::JSON AS {attributes}"
        source, rows = f"(SELECT {', '.join(fields)} FROM {known.sql})", "true"
    else:
        columns = ", ".join(f"'{name}': 'JSON'" for name in (*_FIELDS, *_BULK))
        source = (
            f"read_json({quoted(str(path))}, format = 'newline_delimited', ignore_errors = true, "
            f"compression = '{files.compression(path)}', maximum_object_size = {files.MAX_LINE}, "
            f"columns = {{{columns}}})"
        )
        rows = " AND ".join(f'"{name}" IS NULL' for name in _BULK)
    database.run(_TAKE.format(source=source, rows=rows))
    return int(database.value("SELECT count(*) FROM ubi") - before)
