"""The counts of a log: how often each list was shown and clicked in which way. All fits and evaluations
start here."""

import tempfile
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from clickbandit.click_models.fitting import Cells, Endings, sums
from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.errors import InputError
from clickbandit.extras import pa
from clickbandit.logs.cells import cells_of
from clickbandit.logs.reading import Reading
from clickbandit.logs.saved import read_saved, write_saved
from clickbandit.logs.tally import SESSIONS_BY_QUERY, Kind, LogDatabase, Tally
from clickbandit.wording import counted

# The highest bit that is set. Halves keep log2 exact: it rounds 2^49 - 1 up.
_TOP_BIT = """
    CREATE OR REPLACE TEMP MACRO top_bit(x) AS
        CASE WHEN x >> 32 = 0 THEN floor(log2(x)) ELSE 32 + floor(log2(x >> 32)) END::INTEGER
"""


class ClickPatterns(NamedTuple):
    """Sessions grouped by what was shown and clicked."""

    start: IntArray
    """Where each list starts in `pair`; one more entry marks the end."""
    pair: IntArray
    """What each position of each list showed: an index into `Counts.pairs`."""
    list: IntArray
    """For each pattern of clicks: its list."""
    clicks: Any
    """The pattern: bit k is set when position k (from 0) was clicked."""
    sessions: FloatArray


class Counts:
    """A log, counted: make it with `count_log` or `Counts.load`.

    It lives in a database that spills to disk, so it may be larger than memory. Lists, queries and items are
    in alphabetical order, whatever the order of the log.
    """

    kind: ClassVar[Kind] = "lists"

    def __init__(self, database: LogDatabase, reading: Reading) -> None:
        self._database = database
        self.reading = reading
        """What was read, and what was left out."""
        database.run(_TOP_BIT)
        database.run("""
            CREATE TEMP TABLE pairs AS
                SELECT (row_number() OVER (ORDER BY query, item) - 1)::INTEGER AS pair, query, item
                FROM (SELECT DISTINCT query, unnest(items) AS item FROM lists) ORDER BY pair;
            CREATE TEMP TABLE places AS
                SELECT list, (place - 1)::INTEGER AS position, pair
                FROM (SELECT list, query, unnest(items) AS item, generate_subscripts(items, 1) AS place
                      FROM lists)
                JOIN pairs USING (query, item);
        """)

    # --- what there is ---

    @cached_property
    def n_sessions(self) -> int:
        """How many lists were shown."""
        return int(self._database.value("SELECT coalesce(sum(sessions), 0) FROM patterns"))

    @cached_property
    def n_queries(self) -> int:
        return int(self._database.value("SELECT count(DISTINCT query) FROM pairs"))

    @cached_property
    def n_pairs(self) -> int:
        """How many different (query, item) were shown."""
        return int(self._database.value("SELECT count(*) FROM pairs"))

    @cached_property
    def n_sessions_with_repeats(self) -> int:
        """How many lists showed an item twice."""
        return int(
            self._database.value("""
                SELECT coalesce(sum(sessions), 0) FROM patterns
                SEMI JOIN (SELECT list FROM lists WHERE len(items) <> list_unique(items)) USING (list)
            """)
        )

    @cached_property
    def n_positions(self) -> int:
        """The length of the longest list."""
        return int(self._database.value("SELECT coalesce(max(position) + 1, 0) FROM places"))

    @cached_property
    def pairs(self) -> pa.Table:
        """Every `query` and `item` that was shown, in alphabetical order."""
        return self._table("SELECT query, item FROM pairs ORDER BY pair")

    @cached_property
    def query_sessions(self) -> tuple[list[str], IntArray]:
        """All queries in alphabetical order, and how many lists were shown for each."""
        columns = self._table(self._query_sessions)
        return columns["query"].to_pylist(), columns["sessions"].to_numpy()

    _query_sessions = """
        SELECT query, sum(sessions)::BIGINT AS sessions FROM patterns JOIN lists USING (list)
        GROUP BY query ORDER BY query
    """

    @property
    def table(self) -> pa.Table:
        """Everything: `query`, `list`, `clicks` (bits, the lowest for position 1) and `sessions`."""
        return self._table("""
            SELECT query, items AS list, clicks, sessions
            FROM patterns JOIN lists USING (list) ORDER BY patterns.list, clicks
        """)

    def __repr__(self) -> str:
        queries, items = counted(self.n_queries, "query", "queries"), counted(self.n_pairs, "item")
        return f"<Counts of {counted(self.n_sessions, 'session')}, {queries}, {items}>"

    # --- what models are fitted to ---

    @cached_property
    def cells(self) -> Cells:
        """Counts by item, position and last click above."""
        return cells_of(*self.patterns)

    @cached_property
    def by_position(self) -> Cells:
        """Counts by item and position."""
        return self.cells.by_position()

    @cached_property
    def endings(self) -> Endings:
        """Counts of each list's last clicks."""
        columns = self._database.arrays("""
            SELECT list, CASE WHEN clicks = 0 THEN -1 ELSE top_bit(clicks) END AS last,
                   sum(sessions)::DOUBLE AS sessions
            FROM patterns GROUP BY ALL
        """)
        start, pair = self._places
        some = columns["last"] >= 0
        last, none = np.zeros(len(pair)), np.zeros(len(start) - 1)
        last[start[columns["list"][some]] + columns["last"][some]] = columns["sessions"][some]
        none[columns["list"][~some]] = columns["sessions"][~some]
        # last clicks here or below, in this list or a later one
        below = np.append(np.cumsum(last[::-1])[::-1], 0)
        reached = below[:-1] - np.repeat(below[start[1:]], np.diff(start))
        certain, ended = (sums(pair, times, self.n_pairs) for times in (reached, last))
        clicked = sums(self.cells.pair, self.cells.clicked, self.n_pairs)
        return Endings(start, pair, last, none, clicked, ended, certain)

    @cached_property
    def patterns(self) -> ClickPatterns:
        """Every list with every way in which it was clicked."""
        columns = self._database.arrays("SELECT list, clicks, sessions FROM patterns ORDER BY list, clicks")
        return ClickPatterns(
            *self._places, columns["list"], columns["clicks"], columns["sessions"].astype(float)
        )

    @cached_property
    def impressions(self) -> IntArray:
        """How often each pair was shown."""
        return sums(self.by_position.pair, self.by_position.shown, self.n_pairs).astype(np.int64)

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray]:
        pair = self._database.arrays("SELECT pair FROM places ORDER BY list, position")["pair"]
        size = self._database.arrays("SELECT len(items) AS size FROM lists ORDER BY list")["size"]
        return np.concatenate([[0], np.cumsum(size)]).astype(np.int64), pair

    # --- files ---

    def save(self, path: str | PathLike[str]) -> None:
        """Write the counts as Parquet, all or nothing."""
        write_saved(path, self._database, self.kind, self.reading)

    @staticmethod
    def load(*paths: str | PathLike[str], memory_limit: str | int = "2GiB") -> "Counts":
        """Read saved counts; those of several files are added up."""
        if not paths:
            raise InputError("expected at least one file of saved counts, found none")
        tally = Tally(memory_limit)
        reading = sum((read_saved(Path(path), tally) for path in paths), Reading())
        return counts_in(tally, reading)

    def with_sessions(self, patterns: pa.Table) -> "Counts":
        """Other sessions of the same lists: `list` (its number), `clicks` (bits) and `sessions`, none of them 0."""
        tally = Tally(self._database.memory_limit)
        lists = self._table("SELECT list AS number, query, items FROM lists")
        tally.database.connection.register("lists_shown", lists)
        tally.database.connection.register("given_patterns", patterns)
        tally.add_lists("""
            (SELECT query, items, clicks, sessions
             FROM given_patterns JOIN lists_shown ON given_patterns.list = lists_shown.number)
        """)
        return counts_in(tally, Reading(sessions=int(np.sum(patterns["sessions"].to_numpy()))))

    def split(self, share: float, seed: int = 0) -> "tuple[Counts, Counts]":
        """The sessions dealt out at random: about this share of them, and the others."""
        patterns = self.patterns
        first = np.random.default_rng(seed).binomial(patterns.sessions.astype(np.int64), share)
        return tuple(  # type: ignore[return-value]  # of two
            self.with_sessions(
                pa.table(
                    {
                        "list": patterns.list[some],
                        "clicks": patterns.clicks[some],
                        "sessions": sessions[some],
                    }
                )
            )
            for sessions in (first, patterns.sessions.astype(np.int64) - first)
            for some in [sessions > 0]
        )

    def merge(self, other: "Counts") -> "Counts":
        """The counts of both logs, equal to those of counting them together."""
        with tempfile.TemporaryDirectory(prefix="clickbandit-") as folder:
            first, second = Path(folder) / "first.parquet", Path(folder) / "second.parquet"
            self.save(first)
            other.save(second)
            return Counts.load(first, second, memory_limit=self._database.memory_limit)

    def __add__(self, other: "Counts") -> "Counts":
        return self.merge(other)

    def _table(self, sql: str) -> pa.Table:
        return self._database.connection.sql(sql).to_arrow_table()


class ItemCounts(Counts):
    """Counts that do not say which items were shown and clicked together."""

    kind = "items"

    def __init__(self, database: LogDatabase, reading: Reading) -> None:
        self._database = database
        self.reading = reading
        database.run("""
            CREATE TEMP TABLE pairs AS
            SELECT (row_number() OVER (ORDER BY query, item) - 1)::INTEGER AS pair, query, item
            FROM (SELECT DISTINCT query, item FROM given) ORDER BY pair
        """)

    @cached_property
    def n_sessions(self) -> int:
        return int(self._database.value(f"SELECT coalesce(sum(sessions), 0) FROM ({self._query_sessions})"))

    @cached_property
    def n_positions(self) -> int:
        return int(self._database.value("SELECT coalesce(max(position), 0) FROM given"))

    _query_sessions = SESSIONS_BY_QUERY.format(table="given")

    @property
    def table(self) -> pa.Table:
        """`query`, `item`, `position`, `impressions` and `clicks`."""
        return self._table("""
            SELECT query, item, position, sum(impressions)::BIGINT AS impressions,
                   sum(clicks)::BIGINT AS clicks
            FROM given GROUP BY ALL ORDER BY ALL
        """)

    @cached_property
    def by_position(self) -> Cells:
        columns = self._database.arrays("""
            SELECT pair, position - 1 AS position, sum(impressions)::DOUBLE AS shown,
                   sum(clicks)::DOUBLE AS clicked
            FROM given JOIN pairs USING (query, item) GROUP BY ALL ORDER BY pair, position
        """)
        unknown = np.full(len(columns["pair"]), np.nan)
        place = columns["position"]
        return Cells(columns["pair"], place, place, columns["shown"], columns["clicked"], unknown, unknown)

    @property
    def cells(self) -> Cells:
        raise self._too_little()

    @property
    def endings(self) -> Endings:
        raise self._too_little()

    @property
    def patterns(self) -> ClickPatterns:
        raise self._too_little()

    def _too_little(self) -> InputError:
        return InputError(
            "counts by item and position are enough to fit PBM, GCTR, RCTR and DCTR (--models PBM): "
            "other models, and evaluating, need a log of whole lists"
        )


def counts_in(tally: Tally, reading: Reading) -> Counts:
    """The counts of all that was read into a tally."""
    database = tally.close()
    if tally.kind == "items":
        return ItemCounts(database, reading)
    counts = Counts(database, reading)
    if counts.n_sessions_with_repeats:  # set, not added: saved counts have it already
        reading.odd["lists with an item twice"] = counts.n_sessions_with_repeats
    return counts
