"""What the live ranker takes and gives, stated once: the same values embedded, asynchronous and over HTTP.

Times are `datetime` in UTC here and RFC 3339 in JSON; positions are counted from 1; items and queries are the names
that the caller gave them. What every request makes (`Shown`, `Event`, `Verdict`) is a NamedTuple, so that making one
costs next to nothing, and has its own shape in JSON (`http.messages`). The others travel as they are: the text under
a field is its description in `/openapi.json`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from clickbandit.errors import InputError

MAX_ITEMS = 1000
MAX_FEATURES = 100
"""Items in one request."""
MAX_POSITIONS = 50
MAX_NAME = 1000
"""Characters in the name of a query."""
MAX_ID = 200
"""Characters in the name of an item, an impression or an event."""
MAX_INDEXED = 2500
"""Bytes in UTF-8 of a query's name and of an event's key: PostgreSQL's indexes hold at most 2,692."""

Source = Literal["policy", "holdout", "rules", "frozen", "fallback"]
"""How a list was made: by the policy, and then it is learned from; in the given order, for the share of impressions
that is held out; as the best list known under business rules (items pinned, excluded or missing), or because the
query is frozen; or in the given order because the store failed, and then the impression is not known afterwards."""

EventVerdict = Literal["accepted", "duplicate", "late", "unknown", "invalid"]
"""What became of an event: learned from when its impression settles; known already, and nothing changed; stored and
counted but too late to learn from; its impression is not known; or it cannot be used, for the reason given."""

Outcome = Literal["pending", "settled", "void"]
State = Literal["exploring", "splitting", "settled", "frozen", "stuck"]
"""How far a query is: all items are still compared with each other; they are divided into groups, or some are out;
its list is final; it shows one list and learns nothing; or nothing can be learned (`stores.rows.STUCK_AFTER`)."""
SortKey = Literal["query", "impressions", "clicks", "updated"]
Include = Literal["best"]
"""What may be said of each query besides its settings and counts."""


class Conflict(InputError):
    """The request contradicts what was done before: another body under the same id, or void after settled."""


class Unknown(InputError):
    """There is no such query or impression, or it was pruned."""


class LimitReached(InputError):
    """There are as many queries as the ranker may have, and this would be another."""


class StoreError(Exception):
    """The store failed. Nothing of the operation was done; `rank` never raises this but serves the given order."""

    def __init__(self, message: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.retry = retry
        """Whether to try again at once: the failure came of what others did at the same time."""


class Unreachable(InputError):
    """The store is not there, and may be there later."""


class Closed(StoreError):
    """The ranker was closed."""


class Shown(NamedTuple):
    """A list to show, and the impression's id, under which its clicks are reported."""

    id: str
    query: str
    items: tuple[str, ...]
    """From the first position to the last; fewer than `positions` if there are fewer items."""
    propensities: tuple[float | None, ...]
    """By position: the probability, given what was known just before and how the list was made (`source`), that this
    item stands there; None where the policy cannot state it and it is not estimated (`propensity_draws`)."""
    policy: str
    """The query's policy in the spelling of the command line."""
    source: Source
    expires_at: datetime
    """When the impression settles at the latest: clicks that arrive later are not learned from."""
    errors: tuple[float, ...] | None = None
    """By position: the standard error of a propensity that is estimated; None where they are exact or not known."""


class Event(NamedTuple):
    """A click on an item of an impression, or another action that has a reward."""

    id: str
    """The impression's id."""
    item: str
    event_id: str | None = None
    """The same id again changes nothing. Without one, the impression, the item and the action are the id."""
    timestamp: datetime | str | None = None
    """When the client says that it happened (RFC 3339): kept, and used for nothing else. Lateness is measured
    by the ranker's clock when the event arrives."""
    action: str = "click"
    """What was done: a click, or one of the setting `rewards`, such as purchase."""
    amount: float | None = None
    """How many times its reward an action other than a click is worth, such as what was paid; once if not given."""


class Verdict(NamedTuple):
    """What became of an event."""

    verdict: EventVerdict
    event_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """How an impression ended."""

    id: str
    outcome: Outcome
    clicked: tuple[str, ...]
    """The items that were clicked in time, in the order shown."""


@dataclass(frozen=True, slots=True)
class QuerySummary:
    """One query: its settings and its counts."""

    query: str
    policy: str
    positions: int
    horizon: int
    window: float | None
    """Seconds, if it has a window of its own."""
    items: int
    frozen: bool
    state: State
    """exploring: all items are still compared with each other. splitting: they are divided into groups, or some are
    out. settled: the list is final. frozen: one list is shown and nothing is learned. stuck: nothing was learned from
    the last 200 impressions, or from 1,000 without a click."""
    created_at: datetime
    updated_at: datetime
    """When an impression was last shown."""
    impressions: int
    """Lists shown, whatever became of them."""
    learned: int
    """Impressions that the policy learned from since it last started afresh."""
    settled: int
    voided: int
    pending: int
    """Impressions that are neither settled nor void yet."""
    clicks: int
    """Clicks of settled impressions, at most one for an item in an impression."""
    late: int
    """Clicks that came after settlement."""
    reward: float
    """What settled impressions earned: their clicks, unless the setting `rewards` says more."""
    past_horizon: bool
    """Whether more impressions were learned from than the horizon, which sets constants only: learning continues."""
    best: list[str] | None = None
    """If asked for (`include`), the list that it would show if it stopped exploring now, or shows if it is frozen; None
    if it was not asked for, or what was learned cannot be loaded."""
    certainty: float | None = None
    """How probably all of that list is right, at least; None if it was not asked for, the policy does not say, or
    pending impressions are more than half as many as those learned from."""


@dataclass(frozen=True, slots=True)
class QueryPage:
    """Some of the queries, and how many there are that match."""

    queries: list[QuerySummary]
    total: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, and where it lies with 95% confidence, however often one looks (`intervals.watched_difference`)."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Arm:
    """What one side of the holdout comparison earned: clicks, unless the setting `rewards` says more."""

    impressions: int
    """Settled ones."""
    reward: float
    per_impression: Estimate
    """Reward per impression."""
    units: int = 0
    """Users, if these are compared; else the impressions."""


@dataclass(frozen=True, slots=True)
class Holdout:
    """The given order against the rest, over impressions that were shown while a share was held out."""

    treated: Arm
    """Every impression that was not held out, whatever its list came from."""
    held_out: Arm
    difference: Estimate
    """Reward per impression, treated minus held out."""
    unit: Literal["impression", "user"] = "impression"
    """What is taken for independent: see the setting `holdout_by`."""


@dataclass(frozen=True, slots=True)
class Freezing:
    """Whether a query may be frozen: whether its list is final, or its policy 95% sure of all of it, and not known to
    be worse than the given order; where a policy does not say how sure it is, whether it is known to be better. And not
    before pending impressions are at most half as many as those learned from."""

    ready: bool
    why: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What another policy would show, had it been taught with what a query's log still has."""

    policy: str
    best: list[str]
    learned: int
    """Lists that it could learn from."""
    of: int
    """Lists in the log."""


@dataclass(frozen=True, slots=True)
class QueryDetail:
    """What has been learned about a query."""

    summary: QuerySummary
    items: list[str]
    """The items that the policy knows."""
    best: list[str]
    """The list that it would show if it stopped exploring now; for a frozen query the list that it shows."""
    learned: dict[str, Any]
    """What the policy says of its state (its `describe`), with the names of the items; every part may be missing.
    items: by item, how often it was observed and clicked, its estimate, the interval from low to high, whether it is
    eliminated, its carry (how users go on who click it), and how probably it belongs in the list (in_list) and, of the
    best list, just where it stands (in_place). groups: batches of items, their positions first to last,
    their stage, and at_least: how many more impressions at least until the group can change. next_decision: the same
    for the whole query. settled: whether nothing can change any more. users: the examination of each position with an
    interval, how much of it is left after a click (after_click), and the law that this is nearest to, with its
    certainty."""
    generation: int
    """How often learning started afresh."""
    records: int
    """The number of the last record in the query's log."""
    holdout: Holdout | None = None
    """None until both sides have 20 clicks, which vary."""
    holdout_week: Holdout | None = None
    """Of the calendar week: a comparison of its own, which may be watched as well."""
    holdout_today: Holdout | None = None
    """Of the day, in UTC."""
    freezing: Freezing | None = None
    rewards: str | None = None
    """The setting: what events are worth. If there are some, what a policy counts as clicks are those that chance made
    of rewards."""


@dataclass(frozen=True, slots=True)
class Delays:
    """How long after their lists the last clicks arrived, in seconds."""

    clicks: int
    late: int
    median: float
    most: float
    """99% of them came within this time."""
    suggested: float | None
    """A window that would have caught 99%, if the one in use did not."""


@dataclass(frozen=True, slots=True)
class Operations:
    """The store's size, what was forgotten, and how late clicks come: for operators."""

    window: float
    """Seconds after which an impression settles, unless its query has a window of its own."""
    retention: float
    """Seconds that settled impressions and events are kept."""
    oldest_at: datetime | None
    """When the oldest impression was shown that is kept."""
    store_bytes: int
    pruned: int
    """Rows forgotten since this ranker was started."""
    failures: int
    """Batches of operations that the store refused."""
    events: dict[EventVerdict, int]
    """Events, by verdict."""
    delays: Delays | None
    """None while there are no clicks."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of everything: in the first block those of the store, in the second those since this process started."""

    queries: int
    past_horizon: int
    """Queries that learned from more impressions than their horizon."""
    frozen: int
    sure: int
    """Queries that are not frozen, and whose list is final or their policy 95% sure of it: they may be frozen."""
    impressions: int
    learned: int
    settled: int
    voided: int
    clicks: int
    late: int
    reward: float
    """What settled impressions earned: their clicks, unless rewards are set."""
    states: dict[State, int]
    """How many queries are in each state."""
    holdout: Holdout | None
    """None until both sides have 20 clicks, which vary."""
    holdout_week: Holdout | None
    """Of the calendar week: a comparison of its own, which may be watched as well."""
    holdout_today: Holdout | None
    """Of the day, in UTC."""
    store_bytes: int
    rewards: str | None
    """The setting: what events are worth."""

    shared: dict[str, Any]
    """What new queries start from: how many `queries` taught it, the `curve` of attraction by place in the given order,
    and the `examination` by position, each with a 95% interval."""

    ranked: dict[Source, int]
    """Lists served, by how they were made; "fallback" counts those that the store's failure left as they were given."""
    events: dict[EventVerdict, int]
    """Events, by verdict."""
    failures: int
    """Batches of operations that the store refused."""
    batches: int
    """Transactions committed."""
    operations: int
    """Operations in these."""
    loaded: int
    """Learners read from the store."""
    checked: int
    """Queries whose log was replayed in the background, to see that it gives what is in use."""
    damaged: int
    """Snapshots and logs that were found not to be what was written; the log says which."""
    learners: int
    """Learners in memory."""
    learner_bytes: int
    """About how many bytes these take."""
    waiting: int
    """Operations that wait for their batch."""
    clock_skew: float
    """Seconds by which the machine's clock is ahead of the ranker's, which does not jump."""
