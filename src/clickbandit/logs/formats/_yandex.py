"""What Yandex's two logs share: lines that show a list (Q) and lines that click on an item (C).

A click belongs to the latest list above it in its session that shows the item, and to the item's first position
there. Sessions are those of one file.
"""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from clickbandit.click_models.base import MAX_POSITIONS
from clickbandit.compiling.kernel import IntArray
from clickbandit.errors import InputError
from clickbandit.extras import pa
from clickbandit.logs import files
from clickbandit.logs.formats.base import LogFormat, Opening, Progress, ReadOptions
from clickbandit.logs.reading import MAX_EXAMPLES, Reading
from clickbandit.logs.scan import (
    N_PLACED,
    N_SHOWN,
    N_UNPLACED,
    SESSION,
    Bytes,
    LineLayout,
    last_session,
    make_scan,
    scan_lines,
)
from clickbandit.logs.seen import PatternCounts, Seen
from clickbandit.logs.tally import LogDatabase, Tally

TAB = "chr(9)"
"""A tab in SQL."""
LIST = f"md5_number(query || {TAB} || items)"
"""A list's hash."""
IS_LIST = f"(kind = 'Q' AND size BETWEEN 1 AND {MAX_POSITIONS})"
MIN_SCANNED = 1 << 20
"""Smaller files are read sooner than what scans them is compiled."""
MAX_SCANNED = 4 * files.BLOCK
"""In bytes: longer sessions are not taken for real ones."""
_MAX_LINES = 200  # by which a file is recognised


class YandexFormat(LogFormat):
    """A log of Q and C lines."""

    layout: ClassVar[LineLayout]
    """Where the fields of lines are that are as they should be."""

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
        tally.expect("lists")
        given = (tally.database, path, self.parse(options.query_key), options.strict)
        if path.stat().st_size >= MIN_SCANNED:
            try:
                return _read(Scanner(*given, self.layout), path, options.progress)
            except UnusualError:
                pass
        return _read(LineReader(*given), path, options.progress)


def _read(reader: "LineReader", path: Path, progress: Progress) -> Reading:
    """Read a file block by block; what was reported of it is taken back if that cannot be done."""
    n_bytes = n_sessions = 0
    try:
        for block, prepared in files.ahead((block, reader.prepare(block)) for block in files.blocks(path)):
            reader.add(block, prepared)
            progress(block.bytes_read - n_bytes, reader.n_shown - n_sessions)
            n_bytes, n_sessions = block.bytes_read, reader.n_shown
        return reader.finish()
    except UnusualError:
        progress(-n_bytes, -n_sessions)
        raise


def has_domains(fields: Sequence[str]) -> bool:
    """Whether the results of a Q line are URL,Domain, as in the log for personalized search."""
    return len(fields) > 6 and all("," in field for field in fields[6:])


class LineReader:
    """Reads the lines of one file, a block at a time, whatever they are."""

    def __init__(self, database: LogDatabase, path: Path, parse: str, strict: bool) -> None:
        self.database, self.path, self.parse, self.strict = database, path, parse, strict
        self.reading = Reading(files=1)
        self.n_shown = 0
        """How many lists were read so far."""
        self.n_placed = 0
        """How many clicks, of those on a list."""
        self.database.run("""
            CREATE OR REPLACE TEMP TABLE shown (session VARCHAR, n BIGINT, list UHUGEINT, clicks UBIGINT);
            CREATE OR REPLACE TEMP TABLE unplaced (session VARCHAR, n BIGINT, target VARCHAR);
        """)

    def prepare(self, block: files.Block) -> Any:
        """What can be done with a block in another thread, while the one before it is added."""

    def add(self, block: files.Block, prepared: Any) -> None:
        """Count the lists and clicks of a block; a click whose list is not in it waits for `finish`."""
        self.note_block(block)
        self.take_apart(block.lines, block.undecodable)
        self.database.run(f"""
            CREATE OR REPLACE TEMP TABLE asked AS
            SELECT session, n, query, items, {LIST} AS list
            FROM parsed WHERE problem IS NULL AND {IS_LIST};
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
        self.n_placed += self.database.value("SELECT count(*) FROM placed")
        self.n_shown += self.database.value("SELECT count(*) FROM asked")

    def finish(self) -> Reading:
        """Find the lists of clicks in other blocks, and hand over the file's counts."""
        self.database.run("""
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
        """)
        n_late = self.database.value("SELECT count(*) FROM late")
        n_unplaced = self.database.value("SELECT count(*) FROM unplaced") - n_late
        self.database.run("DROP TABLE shown; DROP TABLE unplaced; DROP TABLE late")
        return self.hand_over(self.n_placed + n_late, n_unplaced)

    def hand_over(self, n_placed: int, n_unplaced: int) -> Reading:
        """Add the lists and clicks of the table `found` to the log's, and say how many they are."""
        ((sessions, clicks),) = self.database.run(
            "SELECT coalesce(sum(sessions), 0), coalesce(sum(sessions * bit_count(clicks)), 0) FROM found"
        )
        self.database.run("INSERT INTO seen_clicks FROM found; DROP TABLE found")
        self.reading.sessions, self.reading.clicks = int(sessions), int(clicks)
        self.reading.note("clicks on nothing shown", n_unplaced)
        self.reading.note("repeated clicks", n_placed - self.reading.clicks)
        return self.reading

    # --- what is odd ---

    def note_block(self, block: files.Block) -> None:
        if block.truncated and self.strict:
            raise InputError(f"the compressed data of {self.path} ends early: get the file again")
        self.reading.lines += block.lines.num_rows
        self.reading.note("files cut short", block.truncated)
        self.reading.note("files without a last line end", block.unended)

    def take_apart(self, lines: pa.Table, undecodable: Sequence[int]) -> None:
        """Make the table `parsed` of lines, and note what is wrong with them."""
        run, reading = self.database.run, self.reading
        run(f"CREATE OR REPLACE TEMP TABLE parsed AS {self.parse}", block=lines)
        if undecodable:
            run(
                "UPDATE parsed SET problem = 'bytes that are not UTF-8' WHERE n IN (SELECT unnest(?))",
                [list(undecodable)],
            )
        problems = run(f"""
            SELECT n, problem, '' FROM parsed WHERE problem IS NOT NULL ORDER BY n LIMIT {MAX_EXAMPLES}
        """)
        causes = dict(run("SELECT problem, count(*) FROM parsed WHERE problem IS NOT NULL GROUP BY problem"))
        ((empty, long),) = run(f"""
            SELECT count(*) FILTER (kind = 'Q' AND problem IS NULL AND size = 0),
                   count(*) FILTER (kind = 'Q' AND problem IS NULL AND size > {MAX_POSITIONS})
            FROM parsed
        """)
        reading.note_malformed(
            str(self.path), [(n, problem, text) for n, problem, text in problems], causes, self.strict
        )
        reading.note("empty lists", empty)
        reading.note("lists longer than 64", long)


# --- in one pass --------------------------------------------------------------------------------------------


class UnusualError(Exception):
    """The lines of a file are not as they should be: a `LineReader` can read them, and a `Scanner` cannot."""


class Lines(NamedTuple):
    """Lines of a file, which end in tabs, as bytes."""

    first: int
    """The number of the first one."""
    text: Bytes
    starts: IntArray
    """Where each starts, and the last one ends."""
    undecodable: tuple[int, ...]

    @staticmethod
    def of(block: files.Block) -> "Lines":
        lines = block.lines["line"].chunk(0)
        _, offsets, text = lines.buffers()
        starts = np.frombuffer(offsets, np.int64)[: len(lines) + 1]
        first = block.lines["n"][0].as_py() if len(lines) else 0
        return Lines(first, np.frombuffer(text, np.uint8)[: starts[-1]], starts, block.undecodable)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def followed_by(self, other: "Lines") -> "Lines":
        starts = np.concatenate([self.starts[:-1], other.starts + self.starts[-1]])
        text = np.concatenate([self.text, other.text])
        return Lines(self.first, text, starts, self.undecodable + other.undecodable)

    def divided(self, at: int) -> "tuple[Lines, Lines]":
        """The lines above one, and from it on."""
        place, first = self.starts[at], self.first + at
        above = tuple(n for n in self.undecodable if n < first)
        rest = self.undecodable[len(above) :]
        return (
            Lines(self.first, self.text[:place], self.starts[: at + 1], above),
            Lines(first, self.text[place:], self.starts[at:] - place, rest),
        )

    def table(self, which: IntArray) -> pa.Table:
        """Some of them, as SQL reads them."""
        lines = pa.LargeStringArray.from_buffers(
            len(self), pa.py_buffer(self.starts), pa.py_buffer(self.text)
        )
        return pa.table({"n": pa.array(self.first + which), "line": lines.take(pa.array(which))})


NO_LINES = Lines(0, np.zeros(0, np.uint8), np.zeros(1, np.int64), ())


class Scanned(NamedTuple):
    """Lines of whole sessions, and what was found in them."""

    lines: Lines
    odd: npt.NDArray[np.bool_]
    """By line: whether it is left to SQL."""
    totals: IntArray
    """Those of the scan."""
    new: IntArray
    """Lines that show lists that are new, which are numbered one by one."""
    first: int
    """The number of the first of these."""
    forgotten: PatternCounts | None
    """What was counted before, if it is to be kept elsewhere."""


class Scanner(LineReader):
    """Reads lines that are as they should be in one pass, whole sessions at a time, and leaves odd lines to SQL.

    Only lists that no block before has shown are taken apart by SQL, by which they get the names and hashes that a
    `LineReader` gives them.
    """

    def __init__(
        self, database: LogDatabase, path: Path, parse: str, strict: bool, layout: LineLayout
    ) -> None:
        super().__init__(database, path, parse, strict)
        self.layout = layout
        self._kept = NO_LINES
        """Lines of the last session, which may go on."""
        self._session = -1
        self._n_unplaced = 0
        self._seen = Seen()
        database.run("""
            CREATE OR REPLACE TEMP TABLE scanned (number BIGINT, clicks UBIGINT, sessions BIGINT);
            CREATE OR REPLACE TEMP TABLE scanned_lists
                (number BIGINT, list UHUGEINT, query VARCHAR, items VARCHAR[]);
        """)

    def prepare(self, block: files.Block) -> Scanned | None:
        lines = self._kept.followed_by(Lines.of(block)) if len(self._kept) else Lines.of(block)
        if len(lines) == 0:
            return None
        if len(lines.text) > MAX_SCANNED:
            raise UnusualError
        whole, self._kept = lines.divided(last_session(lines.text, lines.starts))
        return self._scan(whole)

    def add(self, block: files.Block, prepared: Scanned | None) -> None:
        self.note_block(block)
        if prepared:
            self._count(prepared)

    def finish(self) -> Reading:
        if last := self._scan(self._kept):
            self._count(last)
        self._store(self._seen.patterns())
        self.database.run("""
            CREATE OR REPLACE TEMP TABLE found AS
                SELECT list, clicks, sessions FROM scanned JOIN scanned_lists USING (number);
            INSERT INTO seen_lists SELECT list, query, items FROM scanned_lists;
            DROP TABLE shown; DROP TABLE unplaced; DROP TABLE scanned; DROP TABLE scanned_lists
        """)
        return self.hand_over(self.n_placed, self._n_unplaced)

    def _scan(self, lines: Lines) -> Scanned | None:
        if len(lines) == 0:
            return None
        odd = np.zeros(len(lines), np.bool_)
        odd[[n - lines.first for n in lines.undecodable]] = True
        scan = make_scan(len(lines), self._session)
        if not scan_lines(lines.text, lines.starts, odd, self.layout, scan):
            raise UnusualError
        self._session = int(scan.totals[SESSION])
        forgotten = self._seen.make_room(int(scan.totals[N_SHOWN]))
        new, first = self._seen.count(scan)
        return Scanned(lines, odd, scan.totals, scan.line[new], first, forgotten)

    def _count(self, scanned: Scanned) -> None:
        lines, odd, totals = scanned[:3]
        if odd.any():
            self.take_apart(lines.table(np.flatnonzero(odd)), lines.undecodable)
            usable = f"SELECT count(*) FROM parsed WHERE problem IS NULL AND (kind = 'C' OR {IS_LIST})"
            if self.database.value(usable):
                raise UnusualError
        self.n_shown += int(totals[N_SHOWN])
        self.n_placed += int(totals[N_PLACED])
        self._n_unplaced += int(totals[N_UNPLACED])
        if scanned.forgotten:
            self._store(scanned.forgotten)
        if len(scanned.new):
            self._take_lists_apart(lines, scanned.new, scanned.first)

    def _store(self, patterns: PatternCounts) -> None:
        """Keep how often each list was clicked in which way."""
        self.database.run("INSERT INTO scanned FROM patterns", patterns=pa.table(patterns._asdict()))

    def _take_lists_apart(self, lines: Lines, new: IntArray, first: int) -> None:
        numbers = {"n": lines.first + new, "number": np.arange(first, first + len(new))}
        self.database.run(
            f"""
            CREATE OR REPLACE TEMP TABLE asked AS SELECT n, query, items, {LIST} AS list FROM ({self.parse});
            INSERT INTO scanned_lists SELECT number, list, query, string_split(items[:-2], {TAB})
            FROM numbers JOIN asked USING (n);
            """,
            block=lines.table(new),
            numbers=pa.table(numbers),
        )
