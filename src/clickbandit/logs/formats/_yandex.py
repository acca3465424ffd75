"""What Yandex's two logs share: lines that show a list (Q) and lines that click on an item (C).

A click belongs to the latest list above it in its session that shows the item, and to the item's first position
there. Sessions are those of one file.
"""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from clickbandit.click_models.base import MAX_POSITIONS
from clickbandit.errors import InputError
from clickbandit.logs import files
from clickbandit.logs.formats.base import LogFormat, Opening, ReadOptions
from clickbandit.logs.reading import MAX_EXAMPLES, Reading
from clickbandit.logs.tally import Tally

TAB = "chr(9)"
"""A tab in SQL."""
_MAX_LINES = 200  # by which a file is recognised


class YandexFormat(LogFormat):
    """A log of Q and C lines."""

    @abstractmethod
    def is_line(self, fields: Sequence[str]) -> bool:
        """Whether a line looks like one of this format."""

    @abstractmethod
    def parse(self, query_key: str) -> str:
        """The SQL that takes the lines of the table `block` (`n`, `line`) apart.

        Its columns are `n`, `session`, `kind` (Q or C), `target` (the item of a click), `query`, `items` (each
        followed by a tab), `size` (of the list) and `problem`. A line ends in a tab, so its last field is empty.
        Fields that are used more than once are columns of an inner query, which halves the time.
        """

    def recognise(self, opening: Opening) -> bool:
        lines = [line.split("\t") for line in opening.lines[:_MAX_LINES] if line.strip()]
        return 2 * sum(map(self.is_line, lines)) > len(lines)

    def read(self, path: Path, tally: Tally, options: ReadOptions) -> Reading:
        reader = _Reader(tally, path, self.parse(options.query_key), options.strict)
        n_bytes = n_sessions = 0
        for block in files.blocks(path):
            reader.add(block)
            options.progress(block.bytes_read - n_bytes, reader.n_shown - n_sessions)
            n_bytes, n_sessions = block.bytes_read, reader.n_shown
        return reader.finish()


def has_domains(fields: Sequence[str]) -> bool:
    """Whether the results of a Q line are URL,Domain, as in the log for personalized search."""
    return len(fields) > 6 and all("," in field for field in fields[6:])


class _Reader:
    """Reads the lines of one file, a block at a time."""

    def __init__(self, tally: Tally, path: Path, parse: str, strict: bool) -> None:
        tally.expect("lists")
        self.database, self.path, self.parse, self.strict = tally.database, path, parse, strict
        self.reading = Reading(files=1)
        self.n_shown = 0
        """How many lists were read so far."""
        self._n_placed = 0
        self.database.run("""
            CREATE OR REPLACE TEMP TABLE shown (session VARCHAR, n BIGINT, list UHUGEINT, clicks UBIGINT);
            CREATE OR REPLACE TEMP TABLE unplaced (session VARCHAR, n BIGINT, target VARCHAR);
        """)

    def add(self, block: files.Block) -> None:
        """Count the lists and clicks of a block; a click whose list is not in it waits for `finish`."""
        run = self.database.run
        run(f"CREATE OR REPLACE TEMP TABLE parsed AS {self.parse}", block=block.lines)
        self._note_problems(block)
        run(f"""
            CREATE OR REPLACE TEMP TABLE asked AS
            SELECT session, n, query, items, md5_number(query || {TAB} || items) AS list
            FROM parsed WHERE kind = 'Q' AND problem IS NULL AND size BETWEEN 1 AND {MAX_POSITIONS};
            CREATE OR REPLACE TEMP TABLE placed AS
            SELECT n, max(asked) AS asked, arg_max(place, asked) AS place FROM (
                SELECT clicked.n, asked.n AS asked,
                       list_position(string_split(asked.items, {TAB}), target) AS place
                FROM parsed AS clicked JOIN asked USING (session)
                WHERE kind = 'C' AND problem IS NULL AND asked.n < clicked.n AND place > 0)
            GROUP BY n;
            INSERT INTO unplaced SELECT session, n, target
            FROM parsed ANTI JOIN placed USING (n) WHERE kind = 'C' AND problem IS NULL;
            INSERT INTO shown SELECT session, n, list, coalesce(clicks, 0)
            FROM asked LEFT JOIN (SELECT asked AS n, bit_or(1::UBIGINT << (place - 1)) AS clicks
                                  FROM placed GROUP BY asked) USING (n);
            INSERT INTO seen_lists SELECT list, query, string_split(items[:-2], {TAB})
            FROM asked SEMI JOIN (SELECT min(n) AS n FROM asked GROUP BY list) USING (n);
        """)
        self._n_placed += self.database.value("SELECT count(*) FROM placed")
        self.n_shown += self.database.value("SELECT count(*) FROM asked")

    def finish(self) -> Reading:
        """Find the lists of clicks in other blocks, and hand over the file's counts."""
        database, reading = self.database, self.reading
        database.run("""
            CREATE OR REPLACE TEMP TABLE late AS
            SELECT n, max(asked) AS asked, arg_max(place, asked) AS place FROM (
                SELECT unplaced.n, shown.n AS asked, list_position(items, target) AS place
                FROM unplaced JOIN shown USING (session)
                JOIN (SELECT list, any_value(items) AS items FROM seen_lists GROUP BY list) USING (list)
                WHERE shown.n < unplaced.n AND place > 0)
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
        n_late = database.value("SELECT count(*) FROM late")
        reading.sessions, reading.clicks = int(sessions), int(clicks)
        reading.note("clicks on nothing shown", database.value("SELECT count(*) FROM unplaced") - n_late)
        reading.note("repeated clicks", self._n_placed + n_late - reading.clicks)
        database.run("DROP TABLE shown; DROP TABLE unplaced; DROP TABLE late; DROP TABLE found")
        return reading

    def _note_problems(self, block: files.Block) -> None:
        run, reading = self.database.run, self.reading
        if block.undecodable:
            run(
                "UPDATE parsed SET problem = 'bytes that are not UTF-8' WHERE n IN (SELECT unnest(?))",
                [list(block.undecodable)],
            )
        if block.truncated and self.strict:
            raise InputError(f"the compressed data of {self.path} ends early: get the file again")
        problems = run(f"""
            SELECT n, problem, '' FROM parsed WHERE problem IS NOT NULL ORDER BY n LIMIT {MAX_EXAMPLES}
        """)
        causes = dict(run("SELECT problem, count(*) FROM parsed WHERE problem IS NOT NULL GROUP BY problem"))
        ((empty, long),) = run(f"""
            SELECT count(*) FILTER (kind = 'Q' AND problem IS NULL AND size = 0),
                   count(*) FILTER (kind = 'Q' AND problem IS NULL AND size > {MAX_POSITIONS})
            FROM parsed
        """)
        reading.lines += block.lines.num_rows
        reading.note_malformed(
            str(self.path), [(n, problem, text) for n, problem, text in problems], causes, self.strict
        )
        reading.note("files cut short", block.truncated)
        reading.note("files without a last line end", block.unended)
        reading.note("empty lists", empty)
        reading.note("lists longer than 64", long)
