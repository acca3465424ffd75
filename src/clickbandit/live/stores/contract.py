"""What a store must offer the engine; what passes between them is in `rows`.

The engine works in transactions, each for a batch of operations: `begin`; `due`; `lock`, which names the queries and
impressions that the batch is about; whatever it reads of these; one `save` with all that changes; `commit` (or
`rollback` at any point). After `commit` has returned nothing of it may be lost, even if the machine fails. All of
this is called from one thread. What people look at is read through a `Reader`, concurrently, in another thread.

A store may be shared by many processes. Then `lock` must hold off all others that lock one of the same queries or
impressions until the transaction ends, in an order that makes deadlocks impossible (by name, say); a process that
changes an impression, its events or the log of a query has locked that query, or of an impression that `takes_clicks`
itself.

Any failure is a `StoreError`; after it the engine rolls back and begins again, so `begin` must reconnect where needed.
`clickbandit.testing.check_store` holds a store to all this.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import ClassVar, NamedTuple, Protocol

from clickbandit.live.stores.reading import Decision, Reader
from clickbandit.live.stores.rows import (
    PENDING,
    SETTLED,
    ComparisonRow,
    EventRow,
    ImpressionRow,
    LogRow,
    NewQuery,
    OfferRow,
    QueryRow,
    Snapshot,
)


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
    """Of queries, each of which is there once at most, in the place of those that they had."""
    offers: list[OfferRow] = field(default_factory=list)
    """To be there, each once at most: those that are already are left as they are, but that they are in use."""
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
    shown: list[int] = field(default_factory=list)
    """Queries of which they see all in any case."""

    @property
    def settled(self) -> bool:
        """Whether some impressions are settled."""
        return any(impression.outcome == SETTLED for impression in self.touched)

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
    """Which queries are one's own, where several share a store: the `slot` of their names says so."""

    number: int = 0
    of: int = 1

    def owner(self, query: str) -> int:
        """Whose query it is.

        >>> [Part(of=3).owner(query) for query in ("red shoes", "blue shoes", "hats")]
        [1, 0, 1]
        """
        return slot(query) % self.of


SLOTS = 256
"""An impression's slot is its offer's remainder by this: who shares out what is due need not ask for its query."""


@lru_cache(5000)
def slot(query: str) -> int:
    """One of the `SLOTS` that queries are shared out by."""
    return sha256(query.encode()).digest()[0]


LATE = 5000
"""Milliseconds after which one settles what is another's: who it belongs to seems to be gone."""


class Locked(NamedTuple):
    """What a batch works on."""

    queries: dict[str, QueryRow]
    """By name."""
    impressions: dict[str, ImpressionRow]
    """By id; their queries are among the queries, except of some that were only clicked: see `Store.lock`."""
    events: Collection[str] = frozenset()
    """Keys of events that are stored."""


def takes_clicks(impression: ImpressionRow, now: int) -> bool:
    """Whether clicks of it change nothing else: it has time left, and its clicks are not counted."""
    return impression.outcome == PENDING and impression.reward is None and now < impression.expires


class Store(Protocol):
    """Where everything is kept."""

    settles_between: ClassVar[bool]
    """Whether a transaction costs so little that what is due is settled in one of its own, between those of others."""

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
        self,
        names: Collection[str],
        ids: Collection[str],
        new: Sequence[NewQuery],
        max_queries: int,
        clicked: Collection[str] = (),
        now: int = 0,
        events: Collection[str] = (),
    ) -> Locked:
        """Lock these impressions, the queries that they are of, and those of these names, and read all. A caller that
        changes such a row also saves it, or rolls back. Of an impression that was `clicked`, and no more, the query
        may be left out if it `takes_clicks` at this time.

        The `new` queries, which are among the names, are made if they do not exist, as long as there are fewer than
        `max_queries` of them (counted at least about). Rows are read after the lock is held, and then which of these
        keys of events are stored; names, ids and keys that do not exist are left out.
        """

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

    def prune(self, before: int, limit: int, keep: Callable[[list[Decision]], None] | None = None) -> int:
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

    def reader(self) -> Reader:
        """Another connection, to be used in another thread."""

    def close(self) -> None:
        """Release everything."""
