"""Rows of a store that one process has to itself, as they were last written: read again without the database.

Tuples, so that nothing that is done with a row changes them. What a transaction writes is here once it is committed;
if that fails who knows what is stored, and everything is read anew.
"""

from collections.abc import Collection
from operator import attrgetter
from typing import Any

from clickbandit.live.stores.contract import IMPRESSION_COLUMNS, QUERY_COLUMNS, Changes
from clickbandit.live.stores.database import Database
from clickbandit.live.stores.sql_reader import IMPRESSION, QUERY

MAX_QUERIES = 20_000
MAX_IMPRESSIONS = 50_000
"""The latest: about a kilobyte each."""
Row = tuple[Any, ...]
_AT = IMPRESSION_COLUMNS.index("at")
_query_values = attrgetter(*QUERY_COLUMNS)
_impression_values = attrgetter(*IMPRESSION_COLUMNS)


class Rows:
    """Queries and impressions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._names: dict[int, str] = {}
        self._queries: dict[str, Row] = {}
        self._impressions: dict[str, Row] = {}
        self._expected: Changes | None = None
        """What the transaction at hand writes."""

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
        found = self._database.find(f"{QUERY} from queries", column, missing)
        for row in found:
            self._put_query(row)
        return [*known.values(), *found]

    def _put_query(self, row: Row) -> None:
        if len(self._queries) >= MAX_QUERIES and row[1] not in self._queries:
            self._queries.clear()
            self._names.clear()
        self._queries[row[1]] = row
        self._names[row[0]] = row[1]

    def impressions(self, ids: Collection[str]) -> list[Row]:
        """Those of these ids that there are."""
        known = {id: self._impressions[id] for id in ids if id in self._impressions}
        missing = [id for id in ids if id not in known]
        return [*known.values(), *self._database.find(f"{IMPRESSION} from impressions", "id", missing)]

    def expect(self, changes: Changes) -> None:
        self._expected = changes

    def keep(self) -> None:
        """The transaction is committed."""
        changes, self._expected = self._expected, None
        if changes is None:
            return
        for query in changes.queries:
            self._put_query(_query_values(query))
        for impression in changes.impressions:
            self._impressions[impression.id] = _impression_values(impression)
        for impression in changes.touched:
            if (
                impression.id in self._impressions
            ):  # else they would not be in the order in which they were made
                self._impressions[impression.id] = _impression_values(impression)
        for id in changes.forgotten:
            self._impressions.pop(id, None)
        while len(self._impressions) > MAX_IMPRESSIONS:
            del self._impressions[next(iter(self._impressions))]

    def forget_before(self, at: int) -> None:
        """Impressions from before a time may be deleted."""
        while self._impressions and next(iter(self._impressions.values()))[_AT] < at:
            del self._impressions[next(iter(self._impressions))]

    def drop(self) -> None:
        """The transaction is not committed, or that is not known."""
        if self._expected is not None:
            self.clear()

    def clear(self) -> None:
        self._expected = None
        self._names.clear()
        self._queries.clear()
        self._impressions.clear()
