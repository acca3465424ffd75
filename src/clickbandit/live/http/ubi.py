"""Events as OpenSearch's User Behavior Insights has them (https://github.com/o19s/ubi, schemas 1.0 to 1.3).

UBI's `query_id` names one execution of a query and so an impression, its `object_id` an item. An event that has
`action_name` or `query_id` is one of UBI's; it may have any other fields. `position.ordinal` is not needed, since the
impression knows where its items stood.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from clickbandit.errors import InputError
from clickbandit.live.rewards import CLICK
from clickbandit.live.values import Event

CLICKS = ("click", "click_through")
"""The actions that are clicks. Others (purchases, ..) are learned from if they have a reward under their name."""


class UbiObject(Struct):
    """What was clicked, or bought."""

    object_id: str | int


class UbiEventAttributes(Struct):
    """Where the click went."""

    object: UbiObject


class UbiEvent(Struct):
    """An event of UBI, as far as it is read here; its other fields may be there."""

    action_name: str
    query_id: str
    event_attributes: UbiEventAttributes
    timestamp: str | int | None = None
    event_id: str | None = None


def is_ubi(event: Mapping[str, Any]) -> bool:
    return "action_name" in event or "query_id" in event


def read_event(event: Mapping[str, Any]) -> Event:
    """The click that a UBI event reports, with its names changed to ours; the ranker checks the values."""
    action = event.get("action_name")
    if action is None:
        raise InputError("a UBI event must say what was done as action_name, such as click")
    if event.get("query_id") is None:
        raise InputError("a UBI event must name the impression that was clicked in as query_id")
    thing = _part(_part(event, "event_attributes"), "object")
    item = thing.get("object_id")
    if item is None:
        raise InputError(
            "a UBI event must name the item that was clicked as event_attributes.object.object_id"
        )
    return Event(
        id=event["query_id"],
        item=str(item) if isinstance(item, int) and not isinstance(item, bool) else item,
        event_id=event.get("event_id"),
        timestamp=_time(event.get("timestamp")),
        action=CLICK if action in CLICKS else action,
    )


def _part(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = event.get(name)
    return part if isinstance(part, Mapping) else {}


def _time(value: Any) -> Any:
    """UBI also has times without a zone, here taken for UTC, and OpenSearch takes milliseconds since 1970."""
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000, UTC)
        time = datetime.fromisoformat(value)
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return value
