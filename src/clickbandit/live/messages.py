"""What travels over HTTP: the bodies that the service takes and the answers that it gives, as JSON.

Types and unknown fields are checked when a body is decoded; the ranker checks the rest, with its own sentences. What
the schemas say beyond types (lengths, limits) is what the ranker checks.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from clickbandit import intervals
from clickbandit.live import types
from clickbandit.live.requests import LEAST_HORIZON
from clickbandit.live.store import SILENT_AFTER, STUCK_AFTER
from clickbandit.live.types import (
    MOST_ID,
    MOST_ITEMS,
    MOST_NAME,
    MOST_POSITIONS,
    EventVerdict,
    Outcome,
    SortKey,
    Source,
    State,
)

MOST_OFFSET = 2**53
_TEXT = r"^[^\u0000]+$"


def _checked(description: str | None = None, **limits: Any) -> Meta:
    """A limit that the schema states and the ranker checks."""
    return Meta(description=description, extra_json_schema=limits)


Query = Annotated[str, _checked("The name of a query.", minLength=1, maxLength=MOST_NAME, pattern=_TEXT)]
Item = Annotated[str, _checked("The name of an item.", minLength=1, maxLength=MOST_ID, pattern=_TEXT)]
Impression = Annotated[
    str, _checked("The id of an impression.", minLength=1, maxLength=MOST_ID, pattern=_TEXT)
]
Positions = Annotated[int, _checked("How many items a list shows.", minimum=1, maximum=MOST_POSITIONS)]
Horizon = Annotated[
    int,
    _checked(
        "The number of impressions that sets a policy's constants.", minimum=LEAST_HORIZON, maximum=10**15
    ),
]


# --- bodies -------------------------------------------------------------------------------------------------


class RankBody(Struct, forbid_unknown_fields=True):
    """A list is wanted."""

    query: Query
    items: Annotated[list[Item], _checked(maxItems=MOST_ITEMS, uniqueItems=True)]
    positions: Annotated[
        Positions | None, Meta(description="Only with the first request of a query, or the same again.")
    ] = None
    id: Annotated[
        Impression | None,
        Meta(description="Makes the request repeatable: the same id gives the same list. UBI's query_id."),
    ] = None
    pinned: Annotated[
        dict[Item, Positions] | None, Meta(description="Items that must stand at a position, counted from 1.")
    ] = None
    excluded: Annotated[list[Item] | None, Meta(description="Items that must not be shown.")] = None


class Event(Struct, forbid_unknown_fields=True, gc=False):
    """A click on an item of an impression."""

    id: Impression
    item: Item
    event_id: Annotated[
        str | None,
        _checked("The same id again changes nothing.", minLength=1, maxLength=MOST_ID, pattern=_TEXT),
    ] = None
    timestamp: Annotated[
        str | None, _checked("When it happened, by the client's clock (RFC 3339).", format="date-time")
    ] = None


class EventsBody(Struct, forbid_unknown_fields=True):
    """Many clicks at once, when all of them are in order."""

    events: list[Event]


class ResetBody(Struct, forbid_unknown_fields=True):
    """Settings of a query's own; what is left out is the service's."""

    policy: Annotated[
        str | None, Meta(description="Such as batchrank or toprank, with settings as name:key=value.")
    ] = None
    positions: Positions | None = None
    horizon: Horizon | None = None
    window: Annotated[
        Annotated[str, _checked(pattern=r"^\s*\d+(\.\d+)?\s*[smhd]\s*$")] | float | None,
        Meta(description='When an impression settles: seconds, or text such as "90s", "30m", "12h" or "2d".'),
    ] = None


class QueriesParameters(Struct, forbid_unknown_fields=True, frozen=True):
    """Which of the queries, and in which order."""

    search: Annotated[str, Meta(description="Only names that contain this.", pattern=r"^[^\u0000]*$")] = ""
    state: Annotated[State | UnsetType, Meta(description="Only queries in this state.")] = UNSET
    sort: SortKey = "query"
    descending: bool = False
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many at most.")] = 50
    offset: Annotated[int, Meta(ge=0, le=MOST_OFFSET, description="How many to leave out before them.")] = 0


class StreamParameters(QueriesParameters, forbid_unknown_fields=True, frozen=True):
    """What the page is looking at."""

    view: Annotated[
        Literal["overview", "query", "health", "demo"],
        Meta(
            description="overview: Stats and a QueryPage. query: a QueryDetail and a QueryHistory. health: Health."
        ),
    ] = "overview"
    query: Annotated[str, Meta(description="The query that is looked at.", pattern=r"^[^\u0000]*$")] = ""


# --- answers ------------------------------------------------------------------------------------------------


class RankedItem(Struct, gc=False):
    """An item of a list."""

    id: str
    position: Annotated[int, Meta(description="Counted from 1, as UBI's ordinal.")]
    propensity: Annotated[
        float | None,
        Meta(
            description="The probability, given what was known just before and the list's source, that this item "
            "stands here; null where the policy cannot state it exactly."
        ),
    ]


class RankAnswer(Struct, gc=False):
    """A list to show."""

    id: Annotated[str, Meta(description="The impression's id, under which its clicks are reported.")]
    items: list[RankedItem]
    policy: str
    source: Annotated[
        Source,
        Meta(
            description="How the list was made: by the policy; in the given order because it is held out; as the "
            "best list known under rules (items pinned, excluded or missing) or because the query is frozen; or in "
            "the given order because the store failed, and then the impression is not known afterwards."
        ),
    ]
    expires_at: Annotated[datetime, Meta(description="Clicks that arrive later are not learned from.")]


class EventResult(Struct, gc=False, omit_defaults=True):
    """What became of an event."""

    event_id: Annotated[str | None, Meta(description="Null if it came without one.")]
    verdict: EventVerdict
    reason: str | UnsetType = UNSET


class EventsAnswer(Struct):
    """A verdict for each event, in their order."""

    results: list[EventResult]


class Settlement(Struct):
    """How an impression ended."""

    id: str
    outcome: Outcome
    clicked: Annotated[tuple[str, ...], Meta(description="The items clicked in time, in the order shown.")]


class QuerySummary(Struct):
    """One query: its settings and its counts."""

    query: str
    policy: str
    positions: int
    horizon: int
    window: Annotated[float | None, Meta(description="Seconds, if it has a window of its own.")]
    items: int
    frozen: bool
    state: Annotated[
        State,
        Meta(
            description="exploring: all items are still compared with each other. splitting: they are divided into "
            "groups, or some are out. settled: the list is final. frozen: one list is shown and nothing is learned. "
            f"stuck: nothing was learned from the last {STUCK_AFTER} impressions, or from {SILENT_AFTER:,} without a "
            "click."
        ),
    ]
    created_at: datetime
    updated_at: Annotated[datetime, Meta(description="When an impression was last shown.")]
    impressions: Annotated[int, Meta(description="Lists shown, whatever became of them.")]
    learned: Annotated[int, Meta(description="Impressions learned from since the query last started afresh.")]
    settled: int
    voided: int
    pending: int
    clicks: Annotated[int, Meta(description="Of settled impressions, at most one for an item in each.")]
    late: Annotated[int, Meta(description="Clicks that came after settlement.")]
    past_horizon: Annotated[
        bool, Meta(description="More was learned from than the horizon; learning goes on.")
    ]


class QueryPage(Struct):
    """Some of the queries, and how many there are that match."""

    queries: list[QuerySummary]
    total: int


class Interval(Struct):
    """A mean and its 95% interval."""

    mean: float
    low: float
    high: float


class Arm(Struct):
    """Clicks of one side of the holdout comparison."""

    impressions: Annotated[int, Meta(description="Settled ones.")]
    clicks: int
    per_impression: Interval


class Holdout(Struct):
    """The given order against the rest, over impressions that were shown while a share was held out."""

    treated: Arm
    held_out: Arm
    difference: Annotated[Interval, Meta(description="Clicks per impression, treated minus held out.")]


class QueryDetail(Struct):
    """What has been learned about a query."""

    summary: QuerySummary
    items: Annotated[list[str], Meta(description="The items that the policy knows.")]
    best: Annotated[
        list[str], Meta(description="What it would show if it stopped exploring now, or shows frozen.")
    ]
    learned: Annotated[
        dict[str, Any],
        Meta(
            description="What the policy says of its state; every part may be missing. items: by item, how often it "
            "was observed and clicked, its estimate, the interval from low to high, whether it is eliminated. "
            "groups: batches of items, their positions first to last, their stage, and at_least: how many more "
            "impressions at least until the group can change. next_decision: the same for the whole query. settled: "
            "whether nothing can change any more."
        ),
    ]
    generation: Annotated[int, Meta(description="How often learning started afresh.")]
    records: Annotated[int, Meta(description="The number of the last record in the query's log.")]
    holdout: Annotated[Holdout | None, Meta(description="Null until there is something to compare.")]


class Frame(Struct):
    """How the items of a query were grouped from a moment on."""

    at: datetime
    learned: Annotated[int, Meta(description="Impressions learned from until then.")]
    generation: int
    frozen: bool
    groups: Annotated[list[dict[str, Any]], Meta(description="As in QueryDetail.learned.")]
    eliminated: list[str]


class Point(Struct):
    """How many impressions of a query had settled at a moment, and with how many clicks."""

    at: datetime
    settled: int
    clicks: int


class PastImpression(Struct):
    """A list that was shown."""

    id: str
    at: datetime
    items: list[str]
    clicked: list[str]
    source: Source
    outcome: Outcome


class QueryHistory(Struct):
    """How a query came to know what it knows."""

    frames: Annotated[list[Frame], Meta(description="One for each change, the last 200 at most.")]
    evidence: Annotated[
        dict[str, dict[str, Any]],
        Meta(
            description="For each eliminated item what was known of it then: as in QueryDetail.learned, with at "
            "(milliseconds since 1970), learned, and worse_than: of how many other items the intervals lay above."
        ),
    ]
    points: Annotated[list[Point], Meta(description="From the query's beginning on.")]
    impressions: Annotated[
        list[PastImpression], Meta(description="The last ones, if they are among the last of all queries.")
    ]


class Delays(Struct):
    """How long after their lists the last clicks arrived, in seconds."""

    clicks: int
    late: int
    median: float
    most: Annotated[float, Meta(description="99% of them came within this time.")]
    suggested: Annotated[
        float | None, Meta(description="A window that would have caught 99%, if the one in use did not.")
    ]


class Operations(Struct):
    """The store's size, what was forgotten, and how late clicks come."""

    window: Annotated[float, Meta(description="Seconds after which an impression settles.")]
    retention: Annotated[float, Meta(description="Seconds that settled impressions and events are kept.")]
    oldest_at: Annotated[
        datetime | None, Meta(description="When the oldest impression was shown that is kept.")
    ]
    store_bytes: int
    pruned: Annotated[int, Meta(description="Rows forgotten since this process started.")]
    failures: Annotated[int, Meta(description="Batches of operations that the store refused.")]
    events: Annotated[dict[EventVerdict, int], Meta(description="Events, by verdict.")]
    delays: Annotated[Delays | None, Meta(description="Null while there are no clicks.")]


class Latency(Struct):
    """How long the last requests to an endpoint took, in seconds."""

    endpoint: str
    requests: Annotated[int, Meta(description="How many these are.")]
    median: float
    most: Annotated[float, Meta(description="99% of them took no longer.")]


class Health(Struct):
    """What whoever runs the service looks at; all but the store is of the process that answers."""

    latency: list[Latency]
    requests: Annotated[int, Meta(description="Answered since this process started.")]
    refused: Annotated[int, Meta(description="Of these with a status from 400 to 499.")]
    failed: Annotated[int, Meta(description="Of these with a status of 500 or more.")]
    fallbacks: Annotated[
        int, Meta(description="Lists served in the given order because the store failed, since it started.")
    ]
    operations: Operations


class Verification(Struct):
    """Whether replaying a query's log gives exactly the state that is in use."""

    verified: bool


class Stats(Struct):
    """Counts of everything: those of the store, and those since this process started."""

    queries: int
    past_horizon: int
    frozen: int
    impressions: int
    learned: int
    settled: int
    voided: int
    clicks: int
    late: int
    states: Annotated[dict[State, int], Meta(description="How many queries are in each state.")]
    holdout: Holdout | None
    store_bytes: int
    ranked: Annotated[dict[Source, int], Meta(description="Lists served, by how they were made.")]
    events: Annotated[dict[EventVerdict, int], Meta(description="Events, by verdict.")]
    failures: Annotated[int, Meta(description="Batches of operations that the store refused.")]
    batches: Annotated[int, Meta(description="Transactions committed.")]
    operations: Annotated[int, Meta(description="Operations in these.")]
    loaded: Annotated[int, Meta(description="Learners read from the store.")]
    learners: Annotated[int, Meta(description="Learners in memory.")]
    waiting: Annotated[int, Meta(description="Operations that wait for their batch.")]


class Ready(Struct):
    """All is well."""

    status: str = "ok"


class Problem(Struct):
    """What is wrong (RFC 9457). The only shape that errors have."""

    title: str
    status: int
    detail: Annotated[str, Meta(description="What was expected, what was found, what to do.")]


# --- to and from the ranker's values ------------------------------------------------------------------------

_MESSAGES: dict[type, type[Struct]] = {
    types.Settlement: Settlement,
    types.QuerySummary: QuerySummary,
    types.QueryPage: QueryPage,
    intervals.Interval: Interval,
    types.Arm: Arm,
    types.Holdout: Holdout,
    types.QueryDetail: QueryDetail,
    types.Frame: Frame,
    types.Point: Point,
    types.PastImpression: PastImpression,
    types.QueryHistory: QueryHistory,
    types.Delays: Delays,
    types.Operations: Operations,
    types.Stats: Stats,
}
_VALUES: dict[type, Any] = {message: value for value, message in _MESSAGES.items()}


def to_message(value: Any) -> Any:
    """What the ranker gave, as it travels. Both have the same fields."""
    kind = _MESSAGES.get(type(value))
    if kind is not None:
        return kind(**{name: to_message(getattr(value, name)) for name in kind.__struct_fields__})
    return [to_message(entry) for entry in value] if type(value) is list else value


def from_message(message: Any) -> Any:
    """What travelled, as the ranker gives it."""
    kind = _VALUES.get(type(message))
    if kind is not None:
        return kind(**{name: from_message(getattr(message, name)) for name in kind._fields})
    return [from_message(entry) for entry in message] if type(message) is list else message


def ranked(shown: types.Shown) -> RankAnswer:
    """A list, as it travels."""
    items = [
        RankedItem(item, k, chance)
        for k, (item, chance) in enumerate(zip(shown.items, shown.propensities, strict=True), 1)
    ]
    return RankAnswer(shown.id, items, shown.policy, shown.source, shown.expires_at)


def judged(verdicts: list[types.Verdict]) -> EventsAnswer:
    """Verdicts, as they travel."""
    return EventsAnswer(
        [
            EventResult(event_id, verdict, UNSET if reason is None else reason)
            for verdict, event_id, reason in verdicts
        ]
    )
