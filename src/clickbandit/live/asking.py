"""What is asked most often, made from the arguments of its method: checked, and ready for the engine."""

import json
from collections.abc import Collection, Mapping, Sequence, Sized
from datetime import datetime
from hashlib import blake2b
from typing import Any

from clickbandit.errors import InputError
from clickbandit.live.requests import (
    ClickRequest,
    Clicks,
    RankRequest,
    check_name,
    new_id,
    rank_request,
    with_told,
)
from clickbandit.live.rewards import CLICK, MAX_ACTION, check_amount
from clickbandit.live.told import read_told
from clickbandit.live.values import MAX_INDEXED, Event, Verdict

MAX_EVENTS = 10_000
"""Events in one call."""
_READ = {ClickRequest, Verdict}
"""What events are that were looked at before."""
_DERIVED = "\x1f"
"""Begins the key of an event that came without an id of its own."""


def for_list(
    now: float,
    query: str,
    items: Sequence[str],
    *,
    positions: int | None = None,
    id: str | None = None,
    pinned: Mapping[str, int] | None = None,
    excluded: Collection[str] = (),
    user: str | None = None,
    scores: Sequence[float] | None = None,
    features: Sequence[Sequence[float]] | None = None,
    context: Sequence[float] | None = None,
) -> RankRequest:
    """The arguments of `rank`, and the seconds since 1970."""
    request = rank_request(query, items, positions, id, pinned, excluded, new_id(now) if id is None else id)
    if scores is not None or features is not None or context is not None:
        request = with_told(request, read_told(len(request.items), scores, features, context))
    return request if user is None else request._replace(user=check_name(user, "user"))


def for_events(events: Sequence[Event | Mapping[str, Any]]) -> Clicks:
    """The arguments of `events`."""
    if len(events) > MAX_EVENTS:
        raise too_many(events)
    read = set(map(type, events)) <= _READ
    return Clicks(tuple(events if read else map(click_request, events)))  # type: ignore[arg-type]


def too_many(events: Sized) -> InputError:
    return InputError(f"at most {MAX_EVENTS:,} events can be given at once, found {len(events):,}")


def click_request(event: Event | Mapping[str, Any] | ClickRequest | Verdict) -> ClickRequest | Verdict:
    """An event, read and checked, or the verdict that it is invalid; one that was read before is returned as it is."""
    if isinstance(event, (ClickRequest, Verdict)):
        return event
    if isinstance(event, Event):
        return click(*event)
    event_id = None
    try:
        if not isinstance(event, Mapping):
            raise InputError(f"an event must be an object, found {type(event).__name__}")
        event_id = event.get("event_id")
        unknown = set(event) - set(Event._fields)
        if unknown:
            raise InputError(f"an event has {', '.join(Event._fields)}, found {sorted(map(str, unknown))}")
    except ValueError as error:
        return _invalid(event_id, error)
    return click(*map(event.get, Event._fields))


def click(
    impression: Any, item: Any, event_id: Any, timestamp: Any, action: Any, amount: Any
) -> ClickRequest | Verdict:
    """An event that can be looked at, of the fields of an `Event`, or the verdict that it cannot."""
    try:
        check_name(impression, "id")
        check_name(item, "item")
        action = CLICK if action is None else check_name(action, "action", MAX_ACTION)
        if event_id is None:
            key = _DERIVED + json.dumps([impression, item, *([] if action == CLICK else [action])])
            if len(key) > MAX_INDEXED:
                key = _DERIVED + blake2b(key.encode(), digest_size=16).hexdigest()
        else:
            key = check_name(event_id, "event_id")
            if key.startswith(_DERIVED):
                raise InputError("event_id must not begin with the character U+001F")
        when = None if timestamp is None else _check_time(timestamp)
        much = None if amount is None else check_amount(amount)
        return ClickRequest(impression, item, key, event_id, when, action, much)
    except ValueError as error:
        return _invalid(event_id, error)


def _invalid(event_id: object, error: ValueError) -> Verdict:
    """For an InputError, or a number that is too long to be said."""
    return Verdict("invalid", event_id if isinstance(event_id, str) else None, str(error))


def _check_time(value: object) -> str:
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)  # type: ignore[arg-type]
        if time.tzinfo is None:
            raise ValueError
    except (TypeError, ValueError):
        raise InputError(
            f"timestamp must be a time as in RFC 3339, such as 2024-05-01T12:00:00Z, found {str(value)[:50]!r}"
        ) from None
    return time.isoformat()
