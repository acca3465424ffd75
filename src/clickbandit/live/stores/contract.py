"""What a store must offer, and the rows that pass between it and the engine.

The engine works in transactions, each for a batch of operations: `begin`; `due`; `lock`, which names the queries and
impressions that the batch is about; whatever it reads of these; one `save` with all that changes; `commit` (or
`rollback` at any point). After `commit` has returned nothing of it may be lost, even if the machine fails. All of
this is called from one thread. What people look at is read through a `Reader`, concurrently, in another thread.

A store may be shared by many processes. Then `lock` must hold off all others that lock one of the same queries until
the transaction ends, in an order that makes deadlocks impossible (by name, say); a process that changes an
impression, its events or the log of a query has locked that query.

Any failure is a `StoreError`; after it the engine rolls back and begins again, so `begin` must reconnect where needed.
`clickbandit.testing.check_store` holds a store to all this.
"""

import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol
from zlib import crc32

from clickbandit.live.values import Outcome, Source

if TYPE_CHECKING:
    from clickbandit.live.stores.reading import Decision, Reader

OUTCOMES: tuple[Outcome, ...] = ("pending", "settled", "void")
PENDING, SETTLED, VOID = range(3)
SOURCES: tuple[Source, ...] = ("policy", "holdout", "rules", "frozen", "fallback")
POLICY, HOLDOUT, RULES, FROZEN, FALLBACK = range(5)
UNDIVIDED, DIVIDED, FINISHED, SURE = range(4)
"""How far a query's policy is: all items in one group; in several, or some are out; nothing can change any more; or it
has no groups, and is all but sure of its list."""
STUCK_AFTER = 200
"""Impressions in a row that ended without anything learned from them."""
SILENT_AFTER = 1000
"""Impressions learned from and settled, and not one click: clicks are counted when impressions settle."""


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
    progress: int = UNDIVIDED
    idle: int = 0
    """Impressions that ended without anything learned from them since the last that was learned from."""
    reward: float = 0.0
    """What its settled impressions earned."""


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
    share: float | None = None
    """Of impressions that were held out when it was shown; None if it takes no part in the comparison with these."""
    unit: str | None = None
    """Who is compared: None if each impression is for itself, else a user, or "" for one who is not known."""
    offer: int | None = None
    """What it was chosen from."""
    reward: float | None = None
    """What it earned so far, from when its clicks are over; None before, and where no rewards are set."""
    rewards: str | None = None
    """By position as JSON: what other events than clicks earned; once it is settled, what all did. None for nothing."""
    names: "Sequence[str] | None" = field(default=None, compare=False, repr=False)
    numbers: object = field(default=None, compare=False, repr=False)
    """Its items, and what its learner's `numbers` were, while these are in memory: no store keeps them."""


IMPRESSION_COLUMNS = tuple(
    name for name in ImpressionRow.__dataclass_fields__ if name not in ("names", "numbers")
)


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
    reward: float | None = None
    """What it is worth, if rewards are set."""


class OfferRow(NamedTuple):
    """What lists are chosen from, and with what: the same for many impressions."""

    id: int
    query: int
    items: str
    """The candidates in the given order, as JSON."""
    policy: str
    positions: int
    horizon: int
    seed: int
    at: int


class ComparisonRow(NamedTuple):
    """Settled impressions of a query in one arm of the comparison, in one calendar period."""

    query: int
    length: int
    """Of the period in milliseconds: a day or a week (UTC, from Monday); 0 for all time."""
    start: int
    share: float
    held_out: bool
    by_user: bool
    """Whether users are compared; else each impression is for itself."""
    unit: str
    """The user, or "" for all impressions that are for themselves."""
    impressions: int
    clicks: float
    """Or what was earned, if rewards are set."""
    squares: float
    """Of that of each impression."""


DAY = 86_400_000
WEEK = 7 * DAY
COMPARISON_KEY = ComparisonRow._fields[:7]


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
    """Whether the query's log starts from it. Saving it deletes everything before it."""


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
    """Old ones whose outcome, clicks, expires, learning, reward or rewards changed."""
    events: list[EventRow] = field(default_factory=list)
    log: list[LogRow] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    histories: list[tuple[int, bytes]] = field(default_factory=list)
    """Of queries, in the place of those that they had."""
    offers: list[OfferRow] = field(default_factory=list)
    """To be there: those that are already are left as they are, but that they are in use."""
    comparisons: list[ComparisonRow] = field(default_factory=list)
    """To be added to those with the same key, each of which is there once at most."""
    forgotten: list[str] = field(default_factory=list)
    """Impressions that are to be deleted with their events, after all else."""
    forgotten_users: list[str] = field(default_factory=list)
    """Users whose comparisons are to be deleted."""
    lessons: list[tuple[int, bytes]] = field(default_factory=list)
    """What queries teach others, in the place of what they did."""
    visible: bool = True
    """Whether readers see the queries and the log as soon as this is committed, with all that was committed before;
    else the store may have them see it later, but `snapshot`, `lock` and `log` never, and of queries only what is
    counted has changed (`updated` and what follows it)."""

    def __bool__(self) -> bool:
        return bool(
            self.queries
            or self.impressions
            or self.touched
            or self.events
            or self.snapshots
            or self.forgotten
            or self.forgotten_users
        )


class Part(NamedTuple):
    """Which queries are one's own, where several share a store: a hash of their names says so."""

    number: int = 0
    of: int = 1

    def owner(self, query: str) -> int:
        """Whose query it is.

        >>> [Part(of=3).owner(query) for query in ("red shoes", "blue shoes", "hats")]
        [1, 0, 1]
        """
        return sha256(query.encode()).digest()[0] % self.of


LATE = 5000
"""Milliseconds after which one settles what is another's: who it belongs to seems to be gone."""


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

    def take_due(self, now: int, limit: int, part: Part, locked: Locked) -> list[str]:
        """After `lock`: those of them that are in this part, or late, and that nobody else holds.

        They and their queries are locked without waiting for anyone, and added to `locked`. A store for one process
        alone may take all.
        """

    def lock(
        self, names: Collection[str], ids: Collection[str], new: Sequence[NewQuery], max_queries: int
    ) -> Locked:
        """Lock the queries of these names and those of these impressions, and read both. A caller that changes such
        a row also saves it, or rolls back.

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

    def lessons(self, limit: int) -> list[tuple[int, bytes]]:
        """The ids and lessons of the queries that changed last, of those that have one."""

    def save(self, changes: Changes) -> None:
        """Write everything. A new impression, event or log row whose id (key, number) exists is a `StoreError`."""

    def commit(self) -> None:
        """Make it last."""

    def rollback(self) -> None:
        """Undo what was not committed; never fails."""

    def prune(self, before: int, limit: int, keep: "Callable[[list[Decision]], None] | None" = None) -> int:
        """In a transaction of its own, forget at most about `limit` rows from before this time, and say how many.

        All impressions among them that are settled are given to `keep` before, in the order in which they were made.

        That is: impressions that are settled or void, and events; of each query all snapshots before the last one
        from before this time, and the log up to that one; and comparisons of days and weeks that began a week before.
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
