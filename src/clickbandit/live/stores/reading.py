"""What people look at: the part of a store that is read in another thread, concurrently with its transactions."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from clickbandit.intervals import Units
from clickbandit.live.stores.rows import ImpressionRow, LogRow, QueryRow, Snapshot
from clickbandit.live.values import SortKey, State


class Totals(NamedTuple):
    """Sums over all queries."""

    queries: int
    past_horizon: int
    frozen: int
    sure: int
    """Queries that are not frozen, whose policy is sure of its list, and whose pending impressions are at most half as
    many as those learned from."""
    impressions: int
    learned: int
    settled: int
    voided: int
    clicks: int
    late: int
    reward: float


class ArmSums(NamedTuple):
    """Sums over the units of an arm: see `clickbandit.intervals.Units`."""

    share: float
    held_out: bool
    units: Units


class Decision(NamedTuple):
    """A settled impression with all that is known of how its list was chosen."""

    number: int
    mark: int
    """Of the transaction that settled it: later ones have higher marks."""
    id: str
    at: int
    query: str
    candidates: str | None
    """As JSON; None of what an earlier version made."""
    items: str
    source: int
    propensities: bytes | None
    clicks: int
    reward: float | None
    rewards: str | None
    """By position, as JSON; None for nothing, or where there is no reward."""
    user: str | None
    policy: str
    positions: int
    horizon: int
    seed: int | None


class Listing(NamedTuple):
    """Which of the queries, and in which order; ties by name."""

    search: str = ""
    """Part of a name."""
    state: State | None = None
    sort: SortKey = "query"
    descending: bool = False
    limit: int = 50
    offset: int = 0


class Delay(NamedTuple):
    """How long after its list an event came."""

    milliseconds: int
    late: bool


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

    def compared(self, length: int, start: int, by_user: bool, query: str | None = None) -> list[ArmSums]:
        """What is compared in a period, of one query or of all: for each share both arms, or one if the other is empty.

        A user is one unit, whatever the number of queries. Impressions without one are units by themselves.
        """

    def decisions(self, since: int, limit: int) -> list[Decision]:
        """Settled impressions in the order of their marks, after `since`: about `limit` of them, and of each mark all.

        Whatever is settled later, by any process, has a higher mark than these.
        """

    def states(self) -> dict[State, int]:
        """How many queries are in each state."""

    def delays(self, among: int) -> list[Delay]:
        """Of the last events, `among` of them at most."""

    def next_due(self) -> int | None:
        """When the pending impression expires, or did, that is to settle first."""

    def oldest(self) -> int | None:
        """When the oldest impression was shown that is kept."""

    def size(self) -> int:
        """How many bytes the store takes."""

    def close(self) -> None:
        """Release the connection."""
