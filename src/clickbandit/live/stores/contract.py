"""What a store must offer, and the rows that pass between it and the engine.

The engine works in transactions, each for a batch of operations: `begin`; `due`; `lock`, which names the queries and
impressions that the batch is about; whatever it reads of these; one `save` with all that changes; `commit` (or
`rollback` at any point). After `commit` has returned nothing of it may be lost, even if the machine fails. All of
this is called from one thread. What people look at is read through a `Reader`, in another thread, beside it.

A store may be shared by many processes. Then `lock` must hold off all others that lock one of the same queries until
the transaction ends, in an order that makes deadlocks impossible (by name, say); whoever changes an impression, its
events or the log of a query has locked that query.

Any failure is a `StoreError`; after it the engine rolls back and begins anew, so `begin` must reconnect where needed.
`clickbandit.testing.check_store` holds a store to all this.
"""

import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from zlib import crc32

from clickbandit.live.values import Outcome, SortKey, Source, State

OUTCOMES: tuple[Outcome, ...] = ("pending", "settled", "void")
PENDING, SETTLED, VOID = range(3)
SOURCES: tuple[Source, ...] = ("policy", "holdout", "rules", "frozen", "fallback")
POLICY, HOLDOUT, RULES, FROZEN, FALLBACK = range(5)
UNDIVIDED, DIVIDED, FINISHED = range(3)
"""How far a query's policy is: all items in one group; in several, or some are out; nothing can change any more."""
STUCK_AFTER = 200
"""Impressions in a row that ended without anything learned from them."""
SILENT_AFTER = 1000
"""Impressions learned from, and not one click."""


@dataclass(slots=True)
class QueryRow:
    """A query: its settings, where its log stands, and counts. Times are milliseconds since 1970."""

    id: int
    name: str
    policy: str
    positions: int
    horizon: int
    window: int | None
    """Milliseconds, if the query has a window of its own."""
    created: int
    frozen: str | None = None
    """The list that a frozen query shows, as JSON."""
    updated: int = 0
    number: int = 0
    """The number of the last record in its log."""
    snapshot: int = 0
    """The number of the record that the last snapshot was taken after; 0 if there is none."""
    generation: int = 0
    """How often its learner was started."""
    items: int = 0
    impressions: int = 0
    learned: int = 0
    settled: int = 0
    voided: int = 0
    clicks: int = 0
    late: int = 0
    treated: int = 0
    """Settled impressions that were not held out, while others were; then their clicks, and the squares of these."""
    treated_clicks: int = 0
    treated_squares: int = 0
    held_out: int = 0
    """The same of those that were held out."""
    held_out_clicks: int = 0
    held_out_squares: int = 0
    progress: int = UNDIVIDED
    idle: int = 0
    """Impressions that ended without anything learned from them since the last that was learned from."""


QUERY_COLUMNS = tuple(QueryRow.__dataclass_fields__)
"""In the order of the fields; a table of queries has the same."""


@dataclass(slots=True)
class ImpressionRow:
    """A list that was shown."""

    id: str
    query: int
    """The query's id."""
    at: int
    expires: int
    source: int
    compared: bool
    """Whether it takes part in the comparison with impressions that are held out."""
    items: str
    """The names of the items in the order shown, as JSON."""
    body: bytes
    """A digest of the request, so that a repeated one is told from another with the same id."""
    propensities: bytes | None
    """As 64-bit floats; None where they are all 1, b"" where the policy states none."""
    learning: bytes | None
    """What the learner needs to learn from it: see `transaction`. None if it does not."""
    outcome: int = PENDING
    clicks: int = 0
    """By position: a bit that is 1 if its item was clicked in time."""
    user: str | None = None
    """Who saw it, if that was said."""


IMPRESSION_COLUMNS = tuple(ImpressionRow.__dataclass_fields__)


class EventRow(NamedTuple):
    """A click that was accepted or came late."""

    key: str
    """Its event id, or what stands in for one."""
    impression: str
    item: str
    at: int
    """When it arrived."""
    late: bool
    timestamp: str | None
    """When it happened, by the client's clock."""


class NewQuery(NamedTuple):
    """The settings of a query that may not exist yet."""

    name: str
    policy: str
    positions: int
    horizon: int
    window: int | None
    created: int


class LogRow(NamedTuple):
    """Records of a query, the last of which has this number."""

    query: int
    number: int
    records: bytes
    at: int
    checksum: int | None = None
    """See `checksum`; None of what an earlier version wrote."""


class Snapshot(NamedTuple):
    """A learner's bytes after the record of this number."""

    query: int
    number: int
    state: bytes
    at: int
    checksum: int | None = None
    base: bool = False
    """Whether the query's log starts from it. To save such a one deletes all that is before it."""


_PLACE = struct.Struct("<QQ")


def checksum(query: int, number: int, written: bytes) -> int:
    """Of records or a snapshot in their place: any flipped bit gives another, and so does another row's content."""
    return crc32(written, crc32(_PLACE.pack(query, number)))


@dataclass(slots=True)
class Changes:
    """Everything that a batch writes."""

    queries: list[QueryRow] = field(default_factory=list)
    """Queries whose settings or counts changed: all columns but id, name and created."""
    impressions: list[ImpressionRow] = field(default_factory=list)
    """New ones."""
    touched: list[ImpressionRow] = field(default_factory=list)
    """Old ones whose outcome or clicks changed."""
    events: list[EventRow] = field(default_factory=list)
    log: list[LogRow] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    histories: list[tuple[int, bytes]] = field(default_factory=list)
    """Of queries, in the place of those that they had."""
    forgotten: list[str] = field(default_factory=list)
    """Impressions that are to be deleted with their events, after all else."""

    def __bool__(self) -> bool:
        return bool(
            self.queries
            or self.impressions
            or self.touched
            or self.events
            or self.snapshots
            or self.forgotten
        )


class Locked(NamedTuple):
    """What a batch works on."""

    queries: dict[str, QueryRow]
    """By name."""
    impressions: dict[str, ImpressionRow]
    """By id; their queries are among the queries."""


class Store(Protocol):
    """Where everything is kept."""

    def begin(self) -> None:
        """Begin a transaction."""

    def due(self, now: int, limit: int) -> list[str]:
        """The ids of pending impressions that expired, the earliest first; another process may hold some already."""

    def lock(
        self, names: Collection[str], ids: Collection[str], new: Sequence[NewQuery], max_queries: int
    ) -> Locked:
        """Lock the queries of these names and those of these impressions, and read both.

        The `new` queries, which are among the names, are made if they do not exist, as long as there are fewer than
        `max_queries` of them (counted at least about). Rows are read after the lock is held; names and ids that do
        not exist are left out.
        """

    def known_events(self, keys: Sequence[str]) -> set[str]:
        """Those of these events that are stored."""

    def snapshot(self, query: int, before: int | None = None) -> Snapshot | None:
        """The latest snapshot of a query, with a lower number than `before` if that is given."""

    def log(self, query: int, after: int) -> Iterable[LogRow]:
        """The rows of a query's log with higher numbers than this, in order."""

    def history(self, query: int) -> bytes | None:
        """The history of a query, if it has one."""

    def save(self, changes: Changes) -> None:
        """Write everything. A new impression, event or log row whose id (key, number) exists is a `StoreError`."""

    def commit(self) -> None:
        """Make it last."""

    def rollback(self) -> None:
        """Undo what was not committed; never fails."""

    def prune(self, before: int, limit: int) -> int:
        """In a transaction of its own, forget at most about `limit` rows from before this time, and say how many.

        That is: impressions that are settled or void, and events; and of each query all snapshots before the last one
        from before this time, and the log up to that one.
        """

    def of_user(self, user: str, limit: int) -> list[str]:
        """The ids of impressions that a user saw."""

    def delete(self, name: str) -> int | None:
        """In a transaction of its own, delete a query and everything about it; its id, if there was one."""

    def evict(self, before: int, limit: int) -> list[int]:
        """In a transaction of its own, delete at most `limit` queries of no use, and all about them; their ids.

        That is: those that were asked for, though not since `before`, never reset, are not frozen, learned nothing,
        and whose impressions are all settled or void.
        """

    def probe(self) -> None:
        """In a transaction of its own, write something and make it last: a `StoreError` unless the store works."""

    def latest(self) -> int | None:
        """When the last impression was shown that is kept."""

    def policies(self) -> list[str]:
        """The policies of all queries, each once."""

    def reader(self) -> "Reader":
        """Another connection, to be used in another thread."""

    def close(self) -> None:
        """Release everything."""


class Totals(NamedTuple):
    """Sums over all queries."""

    queries: int
    past_horizon: int
    frozen: int
    impressions: int
    learned: int
    settled: int
    voided: int
    clicks: int
    late: int
    treated: int
    treated_clicks: int
    treated_squares: int
    held_out: int
    held_out_clicks: int
    held_out_squares: int


class Listing(NamedTuple):
    """Which of the queries, and in which order; ties by name."""

    search: str = ""
    """Part of a name."""
    state: State | None = None
    sort: SortKey = "query"
    descending: bool = False
    limit: int = 50
    offset: int = 0


class ClickDelays(NamedTuple):
    """How long after their lists the last clicks came."""

    milliseconds: list[int]
    late: int
    """How many of them were late."""


class Reader(Protocol):
    """Reads what is committed, for people to look at."""

    def queries(self, listing: Listing) -> tuple[list[QueryRow], int]:
        """A page of the queries, and how many there are in all."""

    def query(self, name: str) -> tuple[QueryRow, bytes | None] | None:
        """A query and its history."""

    def next_query(self, after: int) -> tuple[int, str] | None:
        """The id and the name of the query with the next higher id."""

    def snapshot(self, query: int, after: int) -> Snapshot | None:
        """The first snapshot of a query with a higher number than this."""

    def log(self, query: int, after: int, limit: int) -> Iterable[LogRow]:
        """The first rows of a query's log with higher numbers than this, in order."""

    def recent(self, query: int, among: int, limit: int) -> list[ImpressionRow]:
        """The last impressions of a query, the latest first, if they are `among` the last ones of all queries."""

    def totals(self) -> Totals:
        """Sums over all queries."""

    def states(self) -> dict[State, int]:
        """How many queries are in each state."""

    def delays(self, among: int) -> ClickDelays:
        """Of the last clicks, `among` of them at most."""

    def oldest(self) -> int | None:
        """When the oldest impression was shown that is kept."""

    def size(self) -> int:
        """How many bytes the store takes."""

    def close(self) -> None:
        """Release the connection."""
