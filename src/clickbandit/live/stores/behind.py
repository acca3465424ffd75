"""Rows of many queries that SQLite would write to a page each, for every transaction: the counts of queries, and logs.

Most transactions write them as one row of bytes, a batch, and they wait in memory to be put into their tables, where a
query's rows of some seconds are one. After a crash they are read from the batches again. What the tables have of one
query is as of one transaction, since its row and its log are put together.
"""

import time
from collections.abc import Iterable
from operator import attrgetter
from zlib import crc32

from clickbandit.live.stores import batches
from clickbandit.live.stores.contract import Changes
from clickbandit.live.stores.database import Database, columns, insert
from clickbandit.live.stores.rows import QUERY_COLUMNS, LogRow, QueryRow, checksum
from clickbandit.live.stores.sql_reader import QUERY

MAX_BATCHES = 5000
MAX_SECONDS = 5.0
MAX_WAITING = 5000
"""How many transactions and seconds rows of a query may wait, and of how many queries."""
_AT_ONCE = 50
"""How many queries that waited too long are put in one transaction, so that none takes long."""
_DELETED_TOGETHER = 16
"""Batches: each time some are deleted, pages are put in order around them, but to delete many at once takes long."""
_ADD = insert("batches", ("number", "written", "checksum"))
_ADD_LOG = insert("log", LogRow._fields)
_CHANGING = [name for name in QUERY_COLUMNS if name not in ("id", "name", "created")]
_SET_QUERY = (
    f"update queries set batch = ?, {', '.join(f'{columns([name])} = ?' for name in _CHANGING)} where id = ?"
)
_values = attrgetter(*_CHANGING, "id")


class _WaitingRows:
    """What is to be put of one query."""

    __slots__ = ("at", "number", "records", "row", "since", "started")

    def __init__(self, since: int, started: float, row: QueryRow | None) -> None:
        self.since = since
        self.started = started
        """The first batch that has some of it, and when that was."""
        self.row = row
        self.records = bytearray()
        """Of its log, and the number and the time of the last one."""
        self.number = self.at = 0


class Behind:
    """What waits, and the transaction at hand: `add`, and then `keep` when it is committed, or `drop`.

    Rows wait as they are: where a transaction changed some and is not committed, all must be reloaded.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[int, _WaitingRows] = {}
        """Those that have waited longest first."""
        self._number = 0
        """Of the last batch."""
        self._any_batch = False
        self._first = 0
        """No batch with a lower number is there, or it is deleted with the next."""
        self._rows: list[QueryRow] = []
        self._log: list[LogRow] = []
        """What the transaction at hand adds."""
        self._put: list[int] = []
        """Queries of which it puts all that waits."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, changes: Changes) -> None:
        """Write the rows of queries and logs, and all that waits if they are to be seen."""
        self._rows, self._log = changes.queries, changes.log
        if changes.visible:
            self.put_all()
        else:
            # a log is replayed from a snapshot on, so none of its rows may go across one
            self._write_batch()
            snapshots = (snapshot.query for snapshot in changes.snapshots)
            self._put_queries([*self._overdue(), *snapshots, *changes.shown])

    def put_all(self) -> None:
        """Put everything into the tables."""
        touched = [*[row.id for row in self._rows], *[entry.query for entry in self._log]]
        self._put_queries([*self._waiting, *touched])
        if self._any_batch:
            self._database.run("delete from batches")
            self._any_batch = False
        self._first = self._number + 1

    def keep(self) -> None:
        """The transaction is committed."""
        waiting, done = self._waiting, set(self._put)
        for query in done:
            waiting.pop(query, None)
        now = time.monotonic()
        for row in self._rows:
            found = waiting.get(row.id)
            if found is not None:
                found.row = row
            elif row.id not in done:
                waiting[row.id] = _WaitingRows(self._number, now, row)
        for query, number, records, at, _ in self._log:
            found = waiting.get(query)
            if found is None:
                if query in done:
                    continue
                found = waiting[query] = _WaitingRows(self._number, now, None)
            found.records += records
            found.number, found.at = number, at
        self.drop()

    def drop(self) -> None:
        """It is not, or that is not known."""
        self._rows, self._log, self._put = [], [], []

    def row(self, id: int) -> QueryRow | None:
        """A query, if it waits."""
        waiting = self._waiting.get(id)
        return None if waiting is None else waiting.row

    def log(self, query: int, after: int) -> list[LogRow]:
        """What waits of a query's log, as one row."""
        waiting = self._waiting.get(query)
        if waiting is None or waiting.number <= after:
            return []
        return [_row(query, waiting.number, bytes(waiting.records), waiting.at)]

    def load(self) -> int:
        """Read what waits from the batches; how many of these were not what was written."""
        self._waiting.clear()
        put = dict(self._database.rows("select id, batch from queries where batch is not null"))
        found = self._database.rows("select number, written, checksum from batches order by number")
        self._number = max([self._number, *put.values(), *(number for number, _, _ in found)])
        self._any_batch = bool(found)
        last, damaged = self._number, 0
        rows: dict[int, QueryRow] = {}
        for number, written, sum_ in found:
            if crc32(written) != sum_:
                damaged += 1
                continue
            counted, log = batches.decode(written)
            self._number = number
            self._log = [entry for entry in log if put.get(entry.query, -1) < number]
            counted = {id: counts for id, counts in counted.items() if put.get(id, -1) < number}
            missing = counted.keys() - rows.keys()
            rows |= {row[0]: QueryRow(*row) for row in self._database.find(QUERY, "queries", "id", missing)}
            self._rows = [batches.with_counts(rows[id], counts) for id, counts in counted.items()]
            self.keep()
        self._number = last
        return damaged

    def _write_batch(self) -> None:
        if self._rows or self._log:
            self._number += 1
            self._any_batch = True
            written = batches.encode(self._rows, self._log)
            self._database.run(_ADD, (self._number, written, crc32(written)))

    def _overdue(self) -> list[int]:
        """Queries whose rows have waited long enough; the batches that only they needed are deleted, some together."""
        before, started = self._number - MAX_BATCHES, time.monotonic() - MAX_SECONDS
        excess = len(self._waiting) - MAX_WAITING
        found: list[int] = []
        first = self._number
        for query, waiting in self._waiting.items():
            overdue = waiting.since < before or waiting.started < started or len(found) < excess
            if not overdue or len(found) >= max(_AT_ONCE, excess):
                first = waiting.since
                break
            found.append(query)
        if first - self._first >= _DELETED_TOGETHER:
            self._first += _DELETED_TOGETHER
            self._database.run("delete from batches where number < ?", (self._first,))
        return found

    def _put_queries(self, queries: Iterable[int]) -> None:
        wanted = dict.fromkeys(queries)
        if not wanted:
            return
        self._put = list(wanted)
        rows = {row.id: row for row in self._rows if row.id in wanted}
        log: dict[int, list[LogRow]] = {}
        for entry in self._log:
            if entry.query in wanted:
                log.setdefault(entry.query, []).append(entry)
        for query in wanted:
            waiting = self._waiting.get(query)
            if waiting is not None and waiting.row is not None:
                rows.setdefault(query, waiting.row)
            if waiting is not None and waiting.records:
                added = log.get(query) or [LogRow(query, waiting.number, b"", waiting.at)]
                records = b"".join([waiting.records, *[entry.records for entry in added]])
                log[query] = [_row(query, added[-1].number, records, added[-1].at)]
        number = (self._number,)
        self._database.run_many(_SET_QUERY, [number + _values(row) for row in rows.values()])
        self._database.run_many(_ADD_LOG, [entry for entries in log.values() for entry in entries])


def _row(query: int, number: int, records: bytes, at: int) -> LogRow:
    return LogRow(query, number, records, at, checksum(query, number, records))
