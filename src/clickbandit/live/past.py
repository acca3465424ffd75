"""How a query came to know what it knows, as the live ranker tells it: further values (`clickbandit.live.values`)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from clickbandit.live.values import Outcome, Source


@dataclass(frozen=True, slots=True)
class Frame:
    """How the items of a query were grouped from a moment on."""

    at: datetime
    learned: int
    """Impressions learned from until then."""
    generation: int
    frozen: bool
    groups: list[dict[str, Any]]
    """As in `QueryDetail.learned`."""
    eliminated: list[str]


@dataclass(frozen=True, slots=True)
class Point:
    """How many impressions of a query had settled at a moment, and what they had earned: clicks, unless rewards are
    set."""

    at: datetime
    settled: int
    reward: float


@dataclass(frozen=True, slots=True)
class PastImpression:
    """A list that was shown."""

    id: str
    at: datetime
    items: list[str]
    clicked: list[str]
    source: Source
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class ItemCount:
    """How often an item was shown lately, and how often it was clicked then."""

    item: str
    impressions: int
    clicks: int


@dataclass(frozen=True, slots=True)
class QueryHistory:
    """How a query came to know what it knows."""

    frames: list[Frame]
    """One for each change, the last 200 at most."""
    evidence: dict[str, dict[str, Any]]
    """For each eliminated item what was known of it then: as in `QueryDetail.learned`, with `at` (milliseconds since
    1970), `learned`, and `worse_than`: of how many other items the intervals lay above."""
    points: list[Point]
    """From the query's beginning on, closer together the later."""
    impressions: list[PastImpression]
    """The last ones, the latest first, if they are among the last of all queries."""
    counted: int = 0
    """How many settled impressions `counts` are of: the last 1,000 of the query, if they are among the last of all."""
    counts: list[ItemCount] = field(default_factory=list)
    """Every item that these showed, the one that was shown most often first."""
