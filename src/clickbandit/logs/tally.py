"""The tables in which a log is counted: lists that were shown, and how often each was clicked in which way.

DuckDB keeps them within a memory limit and puts on disk what does not fit. A list is identified by a 128-bit
hash of its query and items, so that no reader has to look up a growing table; its clicks are the bits of a
64-bit number, the lowest for position 1. Sessions that showed the same list and clicked alike are one row
from the start.
"""

import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Literal

from clickbandit.errors import InputError
from clickbandit.extras import duckdb

Kind = Literal["lists", "items"]
"""What is counted: whole lists with their clicks, or each query, item and position by itself."""

SESSIONS_BY_QUERY = """
    SELECT query, max(shown)::BIGINT AS sessions FROM (
        SELECT query, sum(impressions) AS shown FROM {table} GROUP BY query, position)
    GROUP BY query ORDER BY query
"""
"""From counts by item: every list has a first position, so the position shown most often counts the lists."""

_OVERHEAD = 500 << 20  # bytes of the limit for Python, its libraries and the current block of lines


def parse_memory(limit: str | int) -> int:
    """A number of bytes from a text such as 2GiB.

    >>> parse_memory("2GiB"), parse_memory("512MB")
    (2147483648, 512000000)
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([KMGT]i?)?B?", str(limit).strip())
    amount, unit = (match[1], match[2] or " ") if match else ("0", " ")
    n_bytes = int(float(amount) * (1024 if unit.endswith("i") else 1000) ** " KMGT".index(unit[0]))
    if n_bytes < 256 << 20:
        raise InputError(f"expected a memory limit of at least 256MiB, such as 2GiB, found {limit!r}")
    return n_bytes


class LogDatabase:
    """A private DuckDB that spills to a folder of its own, which is removed with the database."""

    def __init__(self, memory_limit: str | int = "2GiB") -> None:
        n_bytes = parse_memory(memory_limit)
        spill = tempfile.mkdtemp(prefix="clickbandit-")
        weakref.finalize(self, shutil.rmtree, spill, ignore_errors=True)
        self.memory_limit = memory_limit
        self._thread = ThreadPoolExecutor(1)
        self.connection = duckdb.connect(
            config={
                "memory_limit": f"{max(n_bytes - _OVERHEAD, n_bytes // 3)}B",
                "temp_directory": spill,
                "preserve_insertion_order": False,
            }
        )

    def run(self, sql: str, parameters: Sequence[Any] = (), **frames: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, in which `frames` can be named as tables."""
        for name, frame in frames.items():
            self.connection.register(name, frame)
        try:
            return list(self._wait_for(lambda: self.connection.execute(sql, parameters or None).fetchall()))
        except duckdb.OutOfMemoryException as error:
            raise InputError(
                f"the memory limit of {self.memory_limit} is too small for this log: allow more memory"
            ) from error
        finally:
            for name in frames:
                self.connection.unregister(name)

    def value(self, sql: str) -> Any:
        """The single value of a statement."""
        ((value,),) = self.run(sql)
        return value

    def arrays(self, sql: str) -> dict[str, Any]:
        """The columns of a statement as NumPy arrays."""
        return dict(self._wait_for(lambda: self.connection.execute(sql).fetchnumpy()))

    def _wait_for(self, statement: Callable[[], Any]) -> Any:
        """What comes of a statement, in another thread: DuckDB looks for Ctrl-C seldom, and in some never."""
        running = self._thread.submit(statement)
        try:
            return running.result()
        except KeyboardInterrupt:
            while not running.done():
                self.connection.interrupt()
                wait([running], timeout=0.01)
            raise


class Tally:
    """What log formats read into: a log is either one of whole lists, or one of counts by item."""

    def __init__(self, memory_limit: str | int = "2GiB") -> None:
        self.database = LogDatabase(memory_limit)
        self.kind: Kind | None = None
        """What has been counted so far."""
        self.database.run("""
            CREATE TEMP TABLE seen_lists (list UHUGEINT, query VARCHAR, items VARCHAR[]);
            CREATE TEMP TABLE seen_clicks (list UHUGEINT, clicks UBIGINT, sessions BIGINT);
            CREATE TEMP TABLE given (query VARCHAR, item VARCHAR, position INTEGER, impressions BIGINT,
                                     clicks BIGINT);
        """)

    def expect(self, kind: Kind) -> None:
        """Refuse to mix whole lists and counts by item."""
        if self.kind not in (None, kind):
            raise InputError("expected counts of one kind, found some of whole lists and some by item")
        self.kind = kind

    def add_lists(self, rows: str) -> None:
        """Add the rows of a table or subquery with `query`, `items`, `clicks` (bits) and `sessions`."""
        self.expect("lists")
        self.database.run(f"""
            CREATE OR REPLACE TEMP TABLE added AS
            SELECT md5_number(query || chr(30) || array_to_string(items, chr(31))) AS list, * FROM {rows};
            INSERT INTO seen_lists SELECT list, any_value(query), any_value(items) FROM added GROUP BY list;
            INSERT INTO seen_clicks SELECT list, clicks, sessions FROM added;
            DROP TABLE added
        """)

    def add_items(self, rows: str) -> None:
        """Add the rows of a table or subquery with `query`, `item`, `position`, `impressions` and `clicks`."""
        self.expect("items")
        self.database.run(f"INSERT INTO given SELECT query, item, position, impressions, clicks FROM {rows}")

    def close(self) -> LogDatabase:
        """The database with the tables of `Counts`: lists numbered in order of their queries and items, so
        that nothing depends on the order of the log. (Formats may hash the same list in different ways.)"""
        self.database.run("""
            CREATE TEMP TABLE lists AS
                SELECT (row_number() OVER (ORDER BY query, items) - 1)::INTEGER AS list, query, items, hashes
                FROM (SELECT query, items, list(DISTINCT list) AS hashes FROM seen_lists GROUP BY query, items);
            CREATE TEMP TABLE named AS SELECT list, unnest(hashes) AS hash FROM lists;
            CREATE TEMP TABLE patterns AS
                SELECT named.list, clicks, sum(sessions)::BIGINT AS sessions
                FROM seen_clicks JOIN named ON named.hash = seen_clicks.list
                GROUP BY ALL ORDER BY ALL;
            DROP TABLE seen_lists;
            DROP TABLE seen_clicks;
            DROP TABLE named;
            ALTER TABLE lists DROP hashes;
        """)
        return self.database
