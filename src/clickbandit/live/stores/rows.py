"""The rows that pass between a store and the engine."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

from clickbandit.live.values import Outcome, Source

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
    names: Sequence[str] | None = field(default=None, compare=False, repr=False)
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
    """A digest of the rest and its query's slot: see `contract.slot`."""
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
