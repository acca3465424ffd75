"""Rows of a store that one process has to itself, as they were last written: read again without the database.

Tuples, so that nothing that is done with a row changes them. What a transaction writes is here once it is committed;
if that fails who knows what is stored, and everything is read anew. So it is where somebody else wrote to the store.
"""

from collections import OrderedDict
from collections.abc import Collection
from operator import attrgetter, itemgetter
from typing import Any

from clickbandit.live.stores.behind import Behind, Row
from clickbandit.live.stores.contract import IMPRESSION_COLUMNS, QUERY_COLUMNS, Changes
from clickbandit.live.stores.database import Database
from clickbandit.live.stores.sql_reader import IMPRESSION, QUERY

MAX_QUERIES = MAX_IMPRESSIONS = 2**25
"""Bytes that each may take, about."""
_OVERHEAD = 800
"""Bytes of a row besides its texts."""
_AT = IMPRESSION_COLUMNS.index("at")
_LEARNING = IMPRESSION_COLUMNS.index("learning")
_FROZEN = QUERY_COLUMNS.index("frozen")
_large = itemgetter(*map(IMPRESSION_COLUMNS.index, ("items", "propensities", "learning")))
_impression_values = attrgetter(*IMPRESSION_COLUMNS)


class Rows:
    """Queries and impressions."""

    def __init__(self, database: Database, behind: Behind) -> None:
        self._database = database
        self._behind = behind
        self._names: dict[int, str] = {}
        self._queries: dict[str, Row] = {}
        self._impressions: OrderedDict[str, Row] = OrderedDict()
        """In the order in which they were made; a dict takes ever longer to find the first of those that are left."""
        self._queries_size = self._impressions_size = 0
        self._expected: Changes | None = None
        """What the transaction at hand writes, and of that the rows of queries."""
        self._expected_queries: list[Row] = []

    def queries(self, names: Collection[str]) -> list[Row]:
        """Those of these names that there are."""
        return self._queries_of(
            "name", names, {name: self._queries[name] for name in names if name in self._queries}
        )

    def queries_by_id(self, ids: Collection[int]) -> list[Row]:
        known = {id: self._queries[self._names[id]] for id in ids if id in self._names}
        return self._queries_of("id", ids, known)

    def _queries_of(self, column: str, keys: Collection[Any], known: dict[Any, Row]) -> list[Row]:
        missing = [key for key in keys if key not in known]
        stored = self._database.find(f"{QUERY} from queries", column, missing)
        found = [self._behind.row(row[0]) or row for row in stored]
        for row in found:
            self._put_query(row)
        return [*known.values(), *found]

    def _put_query(self, row: Row) -> None:
        before = self._queries.get(row[1])
        if before is None or before[_FROZEN] != row[_FROZEN]:
            self._queries_size += _query_size(row) - (0 if before is None else _query_size(before))
        if self._queries_size > MAX_QUERIES:
            self._queries.clear()
            self._names.clear()
            self._queries_size = _query_size(row)
        self._queries[row[1]] = row
        self._names[row[0]] = row[1]

    def impressions(self, ids: Collection[str]) -> list[Row]:
        """Those of these ids that there are."""
        known = {id: self._impressions[id] for id in ids if id in self._impressions}
        missing = [id for id in ids if id not in known]
        return [*known.values(), *self._database.find(f"{IMPRESSION} from impressions", "id", missing)]

    def expect(self, changes: Changes, queries: list[Row]) -> None:
        self._expected, self._expected_queries = changes, queries

    def keep(self) -> None:
        """The transaction is committed."""
        changes, self._expected = self._expected, None
        if changes is None:
            return
        for query in self._expected_queries:
            self._put_query(query)
        for impression in changes.impressions:
            row = self._impressions[impression.id] = _impression_values(impression)
            self._impressions_size += _impression_size(row)
        for impression in changes.touched:
            before = self._impressions.get(impression.id)
            if before is not None:  # others would not be in the order in which they were made
                row = self._impressions[impression.id] = _impression_values(impression)
                if row[_LEARNING] is not before[_LEARNING]:  # of what counts nothing else changes
                    self._impressions_size += _impression_size(row) - _impression_size(before)
        for id in changes.forgotten:
            self._forget(id)
        while self._impressions_size > MAX_IMPRESSIONS:
            self._forget(next(iter(self._impressions)))

    def _forget(self, id: str) -> None:
        row = self._impressions.pop(id, None)
        self._impressions_size -= 0 if row is None else _impression_size(row)

    def forget_before(self, at: int) -> None:
        """Impressions from before a time may be deleted."""
        while self._impressions and next(iter(self._impressions.values()))[_AT] < at:
            self._forget(next(iter(self._impressions)))

    def drop(self) -> None:
        """The transaction is not committed, or that is not known."""
        if self._expected is not None:
            self.clear()

    def clear(self) -> None:
        self._expected = None
        self._names.clear()
        self._queries.clear()
        self._impressions.clear()
        self._queries_size = self._impressions_size = 0


def _query_size(row: Row) -> int:
    return _OVERHEAD + len(row[1]) + len(row[_FROZEN] or "")


def _impression_size(row: Row) -> int:
    items, propensities, learning = _large(row)
    return _OVERHEAD + len(items) + len(propensities or b"") + len(learning or b"")
