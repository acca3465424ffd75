"""What travels over HTTP in a shape of its own: bodies that the service takes, and some of its answers, as JSON.

All else travels as the values of `clickbandit.live.values`.

Types and unknown fields are checked when a body is decoded; the ranker checks the rest, with its own sentences. What
the schemas say beyond types (lengths, limits) is what the ranker checks.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from clickbandit.live.asking import MAX_EVENTS
from clickbandit.live.requests import MIN_HORIZON
from clickbandit.live.rewards import MAX_ACTION, MAX_AMOUNT
from clickbandit.live.values import (
    MAX_FEATURES,
    MAX_ID,
    MAX_INDEXED,
    MAX_ITEMS,
    MAX_NAME,
    MAX_POSITIONS,
    EventVerdict,
    Include,
    Operations,
    Shown,
    SortKey,
    Source,
    State,
    Verdict,
)

MAX_OFFSET = 2**53
T = TypeVar("T")
_TEXT = r"^[^\u0000]+$"


def _checked(description: str | None = None, **limits: Any) -> Meta:
    """A limit that the schema states and the ranker checks."""
    return Meta(description=description, extra_json_schema=limits)


def _name(description: str, max_length: int = MAX_ID) -> Meta:
    return _checked(description, minLength=1, maxLength=max_length, pattern=_TEXT)


Query = Annotated[
    str, _name(f"The name of a query; of a new one at most {MAX_INDEXED:,} bytes in UTF-8.", MAX_NAME)
]
Item = Annotated[str, _name("The name of an item.")]
Impression = Annotated[str, _name("The id of an impression.")]
User = Annotated[str, _name("The name of a user.")]
Positions = Annotated[int, _checked("How many items a list shows.", minimum=1, maximum=MAX_POSITIONS)]
Horizon = Annotated[
    int,
    _checked(
        "The number of impressions that sets a policy's constants.", minimum=MIN_HORIZON, maximum=10**15
    ),
]


# --- bodies -------------------------------------------------------------------------------------------------


class Offered(Struct, forbid_unknown_fields=True):
    """An item with what is known of it, which may stand in `scores` and `features` instead."""

    id: Item
    score: float | None = None
    features: list[float] | None = None


class RankBody(Struct, forbid_unknown_fields=True):
    """A list is wanted."""

    query: Query
    items: Annotated[
        list[Item | Offered],
        _checked(
            "Names, or objects with an id, a score and features: each for all items or for none.",
            maxItems=MAX_ITEMS,
            uniqueItems=True,
        ),
    ]
    positions: Annotated[
        Positions | None, Meta(description="Only with the first request of a query, or the same again.")
    ] = None
    id: Annotated[
        Impression | None,
        Meta(description="Makes the request repeatable: the same id gives the same list. UBI's query_id."),
    ] = None
    pinned: Annotated[
        dict[Item, Positions] | None,
        Meta(
            description="Items that must stand at a position, counted from 1; each is one of the items, not excluded, "
            "at a position of its own that the query has."
        ),
    ] = None
    excluded: Annotated[list[Item] | None, Meta(description="Items that must not be shown.")] = None
    user: Annotated[
        User | None,
        Meta(description="Who sees the list: for --holdout-by user, and for DELETE /v1/users/{user}."),
    ] = None
    scores: Annotated[
        list[float] | None,
        _checked(
            "What the page's own ranking is by: what a query starts from. As many as there are items.",
            maxItems=MAX_ITEMS,
        ),
    ] = None
    features: Annotated[
        list[list[float]] | None,
        _checked(
            "A row of numbers for each item, which mean the same in all queries: what a query starts from.",
            maxItems=MAX_ITEMS,
        ),
    ] = None
    context: Annotated[
        list[float] | None,
        _checked(
            "Numbers that say when, where or for whom: features that all items share.", maxItems=MAX_FEATURES
        ),
    ] = None

    def __post_init__(self) -> None:
        """Move scores and features out of the items, into fields of their own."""
        if Offered in map(type, self.items):
            offered = [Offered(item) if isinstance(item, str) else item for item in self.items]
            self.items = [item.id for item in offered]
            self.scores = _beside("score", "scores", [item.score for item in offered], self.scores)
            self.features = _beside(
                "features", "features", [item.features for item in offered], self.features
            )

    @property
    def names(self) -> list[str]:
        """Of the items."""
        return cast(list[str], self.items)


def _beside(name: str, names: str, of_items: list[T | None], beside: list[T] | None) -> list[T] | None:
    """What the items have in them, or what is given beside them."""
    known = [value for value in of_items if value is not None]
    if not known:
        return beside
    if len(known) < len(of_items) or beside is not None:
        found = f"{len(known)} of {len(of_items)}" if beside is None else f"them and {names} too"
        raise ValueError(f"{name} must be given for each item, in the items or in {names}, found {found}")
    return known


class EventBody(Struct, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """A click on an item of an impression, or another action that has a reward."""

    id: Impression
    item: Item
    event_id: Annotated[str | None, _name("The same id again changes nothing.")] = None
    timestamp: Annotated[
        str | None, _checked("When it happened, by the client's clock (RFC 3339).", format="date-time")
    ] = None
    action: Annotated[
        str | None,
        _checked(
            "What was done: click, or one of --rewards. Click if not given.",
            minLength=1,
            maxLength=MAX_ACTION,
            pattern=_TEXT,
        ),
    ] = None
    amount: Annotated[
        float | None,
        _checked(
            "How many times its reward an action other than a click is worth, such as what was paid.",
            minimum=0,
            maximum=MAX_AMOUNT,
        ),
    ] = None


class EventsBody(Struct, forbid_unknown_fields=True):
    """Many clicks at once, when all of them are in order."""

    events: Annotated[list[EventBody], Meta(max_length=MAX_EVENTS)]


class ResetBody(Struct, forbid_unknown_fields=True):
    """Settings of a query's own; what is left out is the service's."""

    policy: Annotated[
        str | None, Meta(description="Such as click-ts or toprank, with settings as name:key=value.")
    ] = None
    positions: Positions | None = None
    horizon: Horizon | None = None
    window: Annotated[
        Annotated[str, _checked(pattern=r"^\s*\d+(\.\d+)?\s*[smhd]\s*$")]
        | Annotated[float, _checked(minimum=0, maximum=3650 * 86400)]
        | None,
        Meta(description='When an impression settles: seconds, or text such as "90s", "30m", "12h" or "2d".'),
    ] = None
    replay: Annotated[
        bool, Meta(description="Learn at once from what the query's log still has: see preview.")
    ] = False


class PreviewBody(Struct, forbid_unknown_fields=True):
    """Which policy to look at."""

    policy: Annotated[str, Meta(description="Such as click-ts or toprank, with settings as name:key=value.")]


class ListingParameters(Struct, forbid_unknown_fields=True, frozen=True):
    """Which of the queries, and in which order."""

    search: Annotated[str, Meta(description="Only names that contain this.", pattern=r"^[^\u0000]*$")] = ""
    state: Annotated[State | UnsetType, Meta(description="Only queries in this state.")] = UNSET
    sort: SortKey = "query"
    descending: bool = False
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many at most.")] = 50
    offset: Annotated[int, Meta(ge=0, le=MAX_OFFSET, description="How many to leave out before them.")] = 0


class QueriesParameters(ListingParameters, forbid_unknown_fields=True, frozen=True):
    """Which of the queries, in which order, and what to say of each."""

    include: Annotated[
        Include | UnsetType,
        Meta(
            description="best: the best list known of each, and how sure its policy is, which takes a while; no "
            "more than 100 then, whatever the limit."
        ),
    ] = UNSET


class ExportParameters(Struct, forbid_unknown_fields=True, frozen=True):
    """Which settled impressions, and how."""

    since: Annotated[
        int,
        Meta(ge=0, le=MAX_OFFSET, description="Only those with a higher mark: the last one that you have."),
    ] = 0
    limit: Annotated[
        int, Meta(ge=1, le=100_000, description="About how many at most, fewer if large; marks stay whole.")
    ] = 10_000
    format: Annotated[
        Literal["ndjson", "arrow"], Meta(description="JSON lines, or a stream of the Arrow IPC format.")
    ] = "ndjson"


class StreamParameters(ListingParameters, forbid_unknown_fields=True, frozen=True):
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
            "stands here; null where the policy cannot state it and it is not estimated."
        ),
    ]
    propensity_error: Annotated[
        float | UnsetType, Meta(description="The standard error of the propensity, if that is estimated.")
    ] = UNSET


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


class Latency(Struct):
    """How long the last requests to an endpoint took, in seconds."""

    endpoint: str
    requests: Annotated[int, Meta(description="How many these are.")]
    median: float
    most: Annotated[float, Meta(description="99% of them took no longer.")]


class WorkerHealth(Struct):
    """One of the processes of a service, which answered just now."""

    number: Annotated[int, Meta(description="Counted from 0.")]
    pid: int
    requests: Annotated[int, Meta(description="Answered since it started.")]
    failures: Annotated[int, Meta(description="Batches of operations that the store refused.")]
    waiting: Annotated[int, Meta(description="Operations that wait for their batch.")]
    learners: Annotated[int, Meta(description="Queries that it has in memory.")]
    learner_bytes: Annotated[int, Meta(description="About how many bytes these take.")]


class Health(Struct):
    """Health figures for operators, over all workers since they started."""

    workers: Annotated[
        list[WorkerHealth], Meta(description="Those that answer; there should be as many as there are to be.")
    ]
    expected_workers: Annotated[int, Meta(description="How many there are to be.")]
    latency: list[Latency]
    requests: Annotated[int, Meta(description="Answered.")]
    refused: Annotated[int, Meta(description="Of these with a status from 400 to 499.")]
    failed: Annotated[int, Meta(description="Of these with a status of 500 or more.")]
    fallbacks: Annotated[int, Meta(description="Lists served in the given order because the store failed.")]
    operations: Operations


class Verification(Struct):
    """Whether replaying a query's log gives exactly the state that is in use."""

    verified: bool


class Forgotten(Struct):
    """What was deleted."""

    impressions: Annotated[int, Meta(description="How many impressions, with their events.")]


class Ready(Struct):
    """All is well."""

    status: str = "ok"


class ProblemDetails(Struct):
    """What is wrong (RFC 9457). The only shape that errors have."""

    title: str
    status: int
    detail: Annotated[str, Meta(description="What was expected, what was found, what to do.")]


ProblemDetails.__name__ = "Problem"  # of its schema in the OpenAPI document


# --- from the ranker's values -------------------------------------------------------------------------------


def ranked(shown: Shown) -> RankAnswer:
    """A list, as it travels."""
    id, _, names, chances, policy, source, expires_at, errors = shown
    places = range(1, len(names) + 1)
    if errors is None:
        items = list(map(RankedItem, names, places, chances))
    else:
        items = list(map(RankedItem, names, places, chances, errors))
    return RankAnswer(id, items, policy, source, expires_at)


def judged(verdicts: list[Verdict]) -> EventsAnswer:
    """Verdicts, as they travel."""
    return EventsAnswer(
        [
            EventResult(event_id, verdict, UNSET if reason is None else reason)
            for verdict, event_id, reason in verdicts
        ]
    )
