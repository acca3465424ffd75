"""Counts by query, item and position alone: enough for the position-based model and the click rates."""

from collections import Counter
from functools import cached_property

import duckdb
import numpy as np
import pyarrow as pa

from clickbandit.click_models.fitting import Cells, Endings
from clickbandit.errors import InputError
from clickbandit.logs import formats
from clickbandit.logs.counts import Counts, Patterns
from clickbandit.logs.plain import take_rejected
from clickbandit.logs.reading import Reading
from clickbandit.logs.tally import MAX_POSITIONS, Database

_GIVEN = "given (query VARCHAR, item VARCHAR, position INTEGER, impressions BIGINT, clicks BIGINT)"


def count_items(
    database: Database, source: str, columns: dict[str, str], where: str, strict: bool
) -> Reading:
    """Add up the rows of the table `source` (SQL)."""
    if not set(formats.COUNTED) <= set(columns):
        expected, found = ", ".join(formats.COUNTED), ", ".join(columns)
        raise InputError(f"{where} must have the columns {expected}; found {found or 'none'}")
    try:
        database.run(f"""
            CREATE TEMP TABLE IF NOT EXISTS {_GIVEN};
            CREATE OR REPLACE TEMP TABLE found AS
            SELECT query::VARCHAR AS query, item::VARCHAR AS item, try_cast(position AS INTEGER) AS position,
                   try_cast(impressions AS BIGINT) AS impressions, try_cast(clicks AS BIGINT) AS clicks,
                   CASE WHEN query IS NULL OR item IS NULL THEN 'no query or no item'
                        WHEN position IS NULL OR position < 1 THEN 'a position that is not 1, 2, ..'
                        WHEN position > {MAX_POSITIONS} THEN 'a position beyond {MAX_POSITIONS}'
                        WHEN impressions IS NULL OR impressions < 0 OR clicks IS NULL OR clicks < 0
                            THEN 'impressions or clicks that are no counts'
                        WHEN clicks > impressions THEN 'more clicks than impressions' END AS problem
            FROM (SELECT query, item, try_cast(position AS INTEGER) AS position,
                         try_cast(impressions AS BIGINT) AS impressions, try_cast(clicks AS BIGINT) AS clicks
                  FROM {source});
            INSERT INTO given SELECT * EXCLUDE problem FROM found WHERE problem IS NULL AND impressions > 0;
        """)
    except duckdb.Error as error:
        raise InputError(f"{where} cannot be read: {str(error).splitlines()[0]}") from error
    problems = Counter(problem for _, problem in take_rejected(database, source))
    problems.update(
        dict(database.run("SELECT problem, count(*) FROM found WHERE problem IS NOT NULL GROUP BY ALL"))
    )
    if problems and strict:
        raise InputError(f"{where} has a row with {min(problems)}: correct it, or read without --strict")
    reading = Reading(files=1)
    reading.note("malformed lines", problems.total())
    reading.malformed = [
        f"{where}: {times:,} rows with {problem}" for problem, times in sorted(problems.items())
    ]
    ((reading.lines, clicks),) = database.run(
        "SELECT count(*), coalesce(sum(clicks) FILTER (problem IS NULL), 0) FROM found"
    )
    reading.clicks = int(clicks)
    reading.sessions = int(database.value(_SESSIONS.format(table="found WHERE problem IS NULL")))
    return reading


# Every list has a first position, so the position shown most often counts a query's lists.
_SESSIONS = """
    SELECT coalesce(sum(lists), 0) FROM (SELECT max(shown) AS lists FROM (
        SELECT query, sum(impressions) AS shown FROM {table} GROUP BY query, position) GROUP BY query)
"""


class ItemCounts(Counts):
    """Counts that do not say which items were shown and clicked together."""

    kind = "items"

    def __init__(self, database: Database, reading: Reading) -> None:
        self._database = database
        self.reading = reading
        database.run("""
            CREATE TEMP TABLE pairs AS
            SELECT (row_number() OVER (ORDER BY query, item) - 1)::INTEGER AS pair, query, item
            FROM (SELECT DISTINCT query, item FROM given) ORDER BY pair
        """)

    @cached_property
    def n_sessions(self) -> int:
        return int(self._database.value(_SESSIONS.format(table="given")))

    @cached_property
    def n_positions(self) -> int:
        return int(self._database.value("SELECT coalesce(max(position), 0) FROM given"))

    _query_sessions = """
        SELECT query, max(shown)::BIGINT AS sessions FROM (
            SELECT query, sum(impressions) AS shown FROM given GROUP BY query, position)
        GROUP BY query ORDER BY query
    """

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
    def patterns(self) -> Patterns:
        raise self._too_little()

    def _too_little(self) -> InputError:
        return InputError(
            "counts by item and position are enough to fit PBM, GCTR, RCTR and DCTR (--models PBM): "
            "other models, and evaluating, need a log of whole lists"
        )

    def _saved(self) -> str:
        return f"SELECT {', '.join(formats.COUNTED)} FROM given"

    @classmethod
    def _loaded(cls, database: Database, sources: list[str], reading: Reading) -> "ItemCounts":
        database.run(f"CREATE TEMP TABLE {_GIVEN}")
        for source in sources:
            database.run(f"INSERT INTO given SELECT {', '.join(formats.COUNTED)} FROM {source}")
        return cls(database, reading)
