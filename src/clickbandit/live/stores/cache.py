"""Rows of a store that one process has to itself, as they were last written: read again without the database.

A transaction changes them as they are here. Unless it is committed, nobody knows how they and the store differ, and
everything is read again; likewise if another process wrote to the store.
"""

from collections import deque
from collections.abc import Collection
from typing import Any

from clickbandit.live.stores.behind import Behind
from clickbandit.live.stores.contract import Changes
from clickbandit.live.stores.database import Database
from clickbandit.live.stores.rows import ImpressionRow, QueryRow
from clickbandit.live.stores.sql_reader import IMPRESSION, QUERY

MAX_QUERIES = MAX_IMPRESSIONS = 2**25
"""Bytes that each may take, about."""
_OF_QUERY, _OF_IMPRESSION = 1200, 750
"""Bytes of a row besides its texts and what is kept as bytes."""


class Rows:
    """Queries and impressions."""

    def __init__(self, database: Database, behind: Behind) -> None:
        self._database = database
        self._behind = behind
        self._queries: dict[str, QueryRow] = {}
        self._by_id: dict[int, QueryRow] = {}
        self._sizes: dict[int, int] = {}
        self._impressions: dict[str, ImpressionRow] = {}
        self._order: deque[tuple[str, int]] = deque()
        """Their ids and sizes in the order in which they were made; some may be gone."""
        self._queries_size = self._impressions_size = 0
        self.lent = False
        """Whether the transaction at hand was given some, and what it writes."""
        self._expected: Changes | None = None

    def queries(self, names: Collection[str]) -> list[QueryRow]:
        """Those of these names that there are."""
        return self._find_queries("name", names, self._queries)

    def queries_by_id(self, ids: Collection[int]) -> list[QueryRow]:
        return self._find_queries("id", ids, self._by_id)

    def _find_queries(self, column: str, keys: Collection[Any], known: dict[Any, QueryRow]) -> list[QueryRow]:
        self.lent = True
        found = [known[key] for key in keys if key in known]
        if len(found) < len(keys):
            missing = [key for key in keys if key not in known]
            for row in self._database.find(QUERY, "queries", column, missing):
                found.append(self._behind.row(row[0]) or QueryRow(*row))
                self._put_query(found[-1])
        return found

    def _put_query(self, row: QueryRow) -> None:
        size = _OF_QUERY + len(row.name) + len(row.frozen or "")
        if self._queries_size > MAX_QUERIES:
            for known in (self._queries, self._by_id, self._sizes):
                known.clear()
            self._queries_size = 0
        self._queries_size += size - self._sizes.get(row.id, 0)
        self._queries[row.name] = self._by_id[row.id] = row
        self._sizes[row.id] = size

    def impressions(self, ids: Collection[str]) -> list[ImpressionRow]:
        """Those of these ids that there are."""
        self.lent = True
        known = self._impressions
        found = [known[id] for id in ids if id in known]
        if len(found) < len(ids):
            missing = [id for id in ids if id not in known]
            stored = self._database.find(IMPRESSION, "impressions", "id", missing)
            found += [
                ImpressionRow(*row) for row in stored
            ]  # not kept, since they are not the last that were made
        return found

    def expect(self, changes: Changes) -> None:
        self._expected = changes

    def keep(self) -> None:
        """The transaction is committed."""
        changes, self._expected, self.lent = self._expected, None, False
        if changes is None:
            return
        queries = self._queries
        for query in changes.queries:
            if changes.visible or queries.get(query.name) is not query:
                self._put_query(query)
        for impression in changes.impressions:
            id, chances, learning = impression.id, impression.propensities, impression.learning
            size = _OF_IMPRESSION + len(impression.items) + len(chances or b"") + len(learning or b"")
            self._impressions[id] = impression
            self._order.append((id, size))
            self._impressions_size += size
        for id in changes.forgotten:
            self._impressions.pop(id, None)
        while self._impressions_size > MAX_IMPRESSIONS:
            self._forget_first()

    def _forget_first(self) -> None:
        id, size = self._order.popleft()
        self._impressions.pop(id, None)
        self._impressions_size -= size

    def forget_before(self, at: int) -> None:
        """Impressions from before a time may be deleted."""
        while self._order:
            first = self._impressions.get(self._order[0][0])
            if first is not None and first.at >= at:
                return
            self._forget_first()

    def drop(self) -> None:
        """The transaction is not committed, or that is not known."""
        if self.lent or self._expected is not None:
            self.clear()

    def clear(self) -> None:
        self._expected, self.lent = None, False
        for known in (self._queries, self._by_id, self._sizes, self._impressions, self._order):
            known.clear()
        self._queries_size = self._impressions_size = 0
