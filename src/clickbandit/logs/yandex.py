"""The two logs that Yandex published: of relevance prediction (WSCD 2012) and personalized search (Kaggle
2013).

A line shows a list (Q) or clicks on an item (C). A click belongs to the latest list of its session above it
that shows the item, at the item's first place; in the personalized log also the page's number (SERPID) must
agree. Sessions are those of one file.
"""

from pathlib import Path

from clickbandit.errors import InputError
from clickbandit.logs.files import Block
from clickbandit.logs.reading import Reading
from clickbandit.logs.tally import MAX_POSITIONS, Database

_TAB = "chr(9)"

# Each line ends in a tab, so `f` has an empty field after the last. Fields that are looked at more than once
# are columns of an inner query, which halves the time.
_RELEVANCE = f"""
    SELECT n, session, kind, target, query, items, size,
           CASE WHEN fields < 4 THEN 'fewer than 4 fields'
                WHEN kind NOT IN ('Q', 'C') THEN 'the third field is neither Q nor C'
                WHEN kind = 'C' AND fields > 4 THEN 'a C line with more than 4 fields'
                WHEN kind = 'Q' AND fields < 5 THEN 'a Q line without a region'
                WHEN session = '' OR (contains(line, {_TAB} || {_TAB}) AND NOT (kind = 'Q' AND size = 0))
                    THEN 'an empty field' END AS problem
    FROM (SELECT n, line, f[1] AS session, f[3] AS kind, f[4] AS target, {{query}} AS query,
                 substr(line, 6 + length(f[1]) + length(f[2]) + length(f[3]) + length(f[4])
                              + length(f[5])) AS items, len(f) - 1 AS fields,
                 CASE WHEN len(f) = 7 AND f[6] = '' THEN 0 ELSE len(f) - 6 END AS size
          FROM (SELECT n, line, string_split(line, {_TAB}) AS f FROM block))
"""

_PERSONALIZED = f"""
    SELECT n, session || {_TAB} || page AS session, replace(kind, 'T', 'Q') AS kind, target, target AS query,
           regexp_replace(results, ',[^\\t]*', '', 'g') AS items, size,
           CASE WHEN kind = 'M' THEN NULL
                WHEN fields < 5 THEN 'fewer than 5 fields'
                WHEN kind NOT IN ('Q', 'T', 'C') THEN 'the third field is none of Q, T and C'
                WHEN kind = 'C' AND fields > 5 THEN 'a C line with more than 5 fields'
                WHEN kind <> 'C' AND fields < 6 THEN 'a Q line without terms'
                WHEN session = '' OR page = '' OR target = '' THEN 'an empty field'
                WHEN kind <> 'C' AND size > 0 AND NOT regexp_full_match(results, '([^,\\t]+,[^,\\t]+\\t)+')
                    THEN 'a result that is not URL,Domain' END AS problem
    FROM (SELECT n, f[1] AS session, f[4] AS page, f[5] AS target, len(f) - 1 AS fields,
                 CASE WHEN f[2] = 'M' AND len(f) = 5 THEN 'M' ELSE f[3] END AS kind,
                 substr(line, 7 + length(f[1]) + length(f[2]) + length(f[3]) + length(f[4]) + length(f[5])
                              + length(f[6])) AS results,
                 CASE WHEN len(f) = 8 AND f[7] = '' THEN 0 ELSE len(f) - 7 END AS size
          FROM (SELECT n, line, string_split(line, {_TAB}) AS f FROM block))
"""

PARSE = {
    ("yandex-relpred", "query"): _RELEVANCE.format(query="f[4]"),
    ("yandex-relpred", "query+region"): _RELEVANCE.format(query="f[4] || '_' || f[5]"),
    ("yandex-personalized", "query"): _PERSONALIZED,
}


class YandexReader:
    """Reads the lines of one file, a block at a time."""

    def __init__(self, database: Database, path: Path, parse: str, strict: bool) -> None:
        self.database, self.path, self.parse, self.strict = database, path, parse, strict
        self.reading = Reading(files=1)
        self._attributed = 0
        self.n_shown = 0
        """How many lists were read so far."""
        database.run("""
            CREATE OR REPLACE TEMP TABLE shown (session VARCHAR, n BIGINT, list UHUGEINT, clicks UBIGINT);
            CREATE OR REPLACE TEMP TABLE homeless (session VARCHAR, n BIGINT, target VARCHAR);
        """)

    def add(self, block: Block) -> None:
        """Count the lists and clicks of a block; a click without a list waits, as the list may stand above."""
        run, reading = self.database.run, self.reading
        run(f"CREATE OR REPLACE TEMP TABLE parsed AS {self.parse}", block=block.lines)
        reading.lines += block.lines.num_rows
        self._note_problems(block)
        run(f"""
            CREATE OR REPLACE TEMP TABLE asked AS
            SELECT session, n, query, items, md5_number(query || {_TAB} || items) AS list
            FROM parsed WHERE kind = 'Q' AND problem IS NULL AND size BETWEEN 1 AND {MAX_POSITIONS};
            CREATE OR REPLACE TEMP TABLE placed AS
            SELECT n, max(asked) AS asked, arg_max(place, asked) AS place FROM (
                SELECT clicked.n, asked.n AS asked,
                       list_position(string_split(asked.items, {_TAB}), target) AS place
                FROM parsed AS clicked JOIN asked USING (session)
                WHERE kind = 'C' AND problem IS NULL AND asked.n < clicked.n AND place > 0)
            GROUP BY n;
            INSERT INTO homeless SELECT session, n, target
            FROM parsed ANTI JOIN placed USING (n) WHERE kind = 'C' AND problem IS NULL;
            INSERT INTO shown SELECT session, n, list, coalesce(clicks, 0)
            FROM asked LEFT JOIN (SELECT asked AS n, bit_or(1::UBIGINT << (place - 1)) AS clicks
                                  FROM placed GROUP BY asked) USING (n);
            INSERT INTO seen_lists SELECT list, query, string_split(items[:-2], {_TAB})
            FROM asked SEMI JOIN (SELECT min(n) AS n FROM asked GROUP BY list) USING (n);
        """)
        self._attributed += self.database.value("SELECT count(*) FROM placed")
        self.n_shown += self.database.value("SELECT count(*) FROM asked")

    def finish(self) -> Reading:
        """Find the lists of clicks that stand in other blocks, and hand over the file's counts."""
        database, reading = self.database, self.reading
        database.run("""
            CREATE OR REPLACE TEMP TABLE late AS
            SELECT n, max(asked) AS asked, arg_max(place, asked) AS place FROM (
                SELECT homeless.n, shown.n AS asked, list_position(items, target) AS place
                FROM homeless JOIN shown USING (session)
                JOIN (SELECT list, any_value(items) AS items FROM seen_lists GROUP BY list) USING (list)
                WHERE shown.n < homeless.n AND place > 0)
            GROUP BY n;
            CREATE OR REPLACE TEMP TABLE found AS
            SELECT list, shown.clicks | coalesce(late.clicks, 0) AS clicks, count(*) AS sessions
            FROM shown LEFT JOIN (SELECT asked AS n, bit_or(1::UBIGINT << (place - 1)) AS clicks
                                  FROM late GROUP BY asked) AS late USING (n)
            GROUP BY ALL;
            INSERT INTO seen_clicks FROM found;
        """)
        ((sessions, clicks),) = database.run(
            "SELECT coalesce(sum(sessions), 0), coalesce(sum(sessions * bit_count(clicks)), 0) FROM found"
        )
        late = database.value("SELECT count(*) FROM late")
        reading.sessions, reading.clicks = int(sessions), int(clicks)
        reading.note("clicks on nothing shown", database.value("SELECT count(*) FROM homeless") - late)
        reading.note("repeated clicks", self._attributed + late - reading.clicks)
        database.run("DROP TABLE shown; DROP TABLE homeless; DROP TABLE late; DROP TABLE found")
        return reading

    def _note_problems(self, block: Block) -> None:
        reading = self.reading
        if block.undecodable:
            self.database.run(
                "UPDATE parsed SET problem = 'bytes that are not UTF-8' WHERE n IN (SELECT unnest(?))",
                [list(block.undecodable)],
            )
        if block.truncated:
            if self.strict:
                raise InputError(f"{self.path} breaks off within its compressed data: get it again")
            reading.note("files cut short", 1)
        reading.note("files without a last line end", block.unended)
        problems = self.database.run("""
            SELECT n, problem, count(*) OVER () FROM parsed WHERE problem IS NOT NULL ORDER BY n LIMIT 10
        """)
        if problems:
            n, problem, n_problems = problems[0]
            if self.strict:
                raise InputError(
                    f"{self.path}:{n}: malformed line: {problem}; correct it, or read without --strict"
                )
            reading.note("malformed lines", n_problems)
            for n, problem, _ in problems:
                reading.note_malformed(str(self.path), n, problem)
        ((empty, long),) = self.database.run(f"""
            SELECT count(*) FILTER (size = 0), count(*) FILTER (size > {MAX_POSITIONS})
            FROM parsed WHERE kind = 'Q' AND problem IS NULL
        """)
        reading.note("empty lists", empty)
        reading.note("lists longer than 64", long)
