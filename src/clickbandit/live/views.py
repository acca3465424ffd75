"""Rows as people see them."""

import json
import math
from collections import Counter
from datetime import UTC, datetime
from typing import get_args

from clickbandit.errors import InputError
from clickbandit.live.history import History
from clickbandit.live.past import Frame, ItemCount, PastImpression, Point, QueryHistory
from clickbandit.live.stores.reading import Delay, Listing, Reader
from clickbandit.live.stores.rows import (
    DIVIDED,
    FINISHED,
    OUTCOMES,
    SETTLED,
    SILENT_AFTER,
    SOURCES,
    STUCK_AFTER,
    ImpressionRow,
    QueryRow,
)
from clickbandit.live.values import (
    Delays,
    QueryPage,
    QuerySummary,
    SortKey,
    State,
    Unknown,
)

MAX_PAGE = 1000
"""Queries on one page."""
MAX_INCLUDED = 100
"""With the best list of each, which has to be worked out."""
MAX_SCANNED = 20_000
"""A query's last impressions are looked for among this many of all queries' last ones, and delays among this many
events: there is no index for what only people look at."""
_MAX_RECENT, _MAX_COUNTED = 12, 1_000
"""Of a query's last impressions: how many are shown, and how many are counted by item."""


def summary(row: QueryRow) -> QuerySummary:
    return QuerySummary(
        query=row.name,
        policy=row.policy,
        positions=row.positions,
        horizon=row.horizon,
        window=None if row.window is None else row.window / 1000,
        items=row.items,
        frozen=row.frozen is not None,
        state=state(row),
        created_at=time(row.created),
        updated_at=time(max(row.updated, row.created)),
        impressions=row.impressions,
        learned=row.learned,
        settled=row.settled,
        voided=row.voided,
        pending=row.impressions - row.settled - row.voided,
        clicks=row.clicks,
        late=row.late,
        reward=row.reward,
        past_horizon=row.learned > row.horizon,
    )


def page(reader: Reader, listing: Listing) -> QueryPage:
    """Some of the queries."""
    if listing.sort not in get_args(SortKey):
        raise InputError(f"sort must be {', '.join(get_args(SortKey))}, found {listing.sort!r}")
    if listing.state not in (None, *get_args(State)):
        raise InputError(f"state must be {', '.join(get_args(State))}, found {listing.state!r}")
    if not 1 <= listing.limit <= MAX_PAGE or listing.offset < 0:
        raise InputError(
            f"a page has 1 to {MAX_PAGE:,} queries from offset 0 on, found {listing.limit} from {listing.offset}"
        )
    rows, total = reader.queries(listing)
    return QueryPage([summary(row) for row in rows], total)


def state(row: QueryRow) -> State:
    """How far a query is; `stores.sql.STATE` says the same in SQL."""
    if row.frozen is not None:
        return "frozen"
    if row.progress == FINISHED:
        return "settled"
    if row.idle >= STUCK_AFTER or (min(row.learned, row.settled) >= SILENT_AFTER and row.clicks == 0):
        return "stuck"
    return "splitting" if row.progress == DIVIDED else "exploring"


def history(reader: Reader, query: str) -> QueryHistory:
    """A query's history; the last impressions are counted, and some of them shown."""
    found = reader.query(query)
    if found is None:
        raise Unknown(f"there is no query {query!r}")
    row, written = found
    impressions = reader.recent(row.id, MAX_SCANNED, _MAX_COUNTED)
    document = History(written)
    settled = [row for row in impressions if row.outcome == SETTLED]
    return QueryHistory(
        frames=[Frame(**{**frame, "at": time(frame["at"])}) for frame in document.frames],
        evidence=document.evidence,
        points=[Point(time(at), settled, reward) for at, settled, reward in document.points],
        impressions=[_past(row) for row in impressions[:_MAX_RECENT]],
        counted=len(settled),
        counts=_counts(settled),
    )


def _counts(rows: list[ImpressionRow]) -> list[ItemCount]:
    shown: Counter[str] = Counter()
    clicked: Counter[str] = Counter()
    lists = Counter((row.items, row.clicks) for row in rows)  # most are shown again and again
    for (written, clicks), n in lists.items():
        for k, item in enumerate(json.loads(written)):
            shown[item] += n
            clicked[item] += n * (clicks >> k & 1)
    return [ItemCount(item, n, clicked[item]) for item, n in shown.most_common()]


def _past(row: ImpressionRow) -> PastImpression:
    items = json.loads(row.items)
    clicked = [item for k, item in enumerate(items) if row.clicks >> k & 1]
    return PastImpression(row.id, time(row.at), items, clicked, SOURCES[row.source], OUTCOMES[row.outcome])


def delays(events: list[Delay], window: int, conversion: int | None) -> Delays | None:
    """How late clicks are, and a window that would catch 99% of them if this one (in milliseconds) does not.

    What is accepted after the window, until the conversion window ends, is no click; nor, it is assumed, is what is
    late even then.
    """
    if conversion is not None:
        events = [one for one in events if one.milliseconds < (conversion if one.late else window)]
    if not events:
        return None
    times = sorted(one.milliseconds for one in events)
    most = times[min(len(times) - 1, math.ceil(0.99 * len(times)) - 1)]
    return Delays(
        clicks=len(times),
        late=sum(one.late for one in events),
        median=times[len(times) // 2] / 1000,
        most=most / 1000,
        suggested=readable_seconds(most / 1000) if most > window else None,
    )


_READABLE = (1, 2, 5, 10, 15, 20, 30, 45, 60, 90)


def readable_seconds(seconds: float) -> float:
    """A time that is a little longer and easy to say.

    >>> [readable_seconds(seconds) for seconds in (0.2, 47, 130, 2000, 40_000, 100_000)]
    [1, 60, 300, 2700, 43200, 172800]
    """
    for unit, most in ((1, 90), (60, 90), (3600, 24)):
        for number in _READABLE if unit < 3600 else range(1, most + 1):
            if number * unit >= seconds:
                return number * unit
    return math.ceil(seconds / 86_400) * 86_400


def time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
