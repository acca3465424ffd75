"""What is asked most often, made from the arguments of its method: checked, and ready for the engine."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from clickbandit.errors import InputError
from clickbandit.live.requests import (
    Clicks,
    RankRequest,
    check_name,
    click_request,
    new_id,
    rank_request,
    with_told,
)
from clickbandit.live.told import read_told
from clickbandit.live.values import Event

MAX_EVENTS = 10_000
"""Events in one call."""


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
    request = with_told(request, read_told(len(request.items), scores, features, context))
    return request if user is None else request._replace(user=check_name(user, "user"))


def for_events(events: Sequence[Event | Mapping[str, Any]]) -> Clicks:
    """The arguments of `events`."""
    if len(events) > MAX_EVENTS:
        raise InputError(f"at most {MAX_EVENTS:,} events can be given at once, found {len(events):,}")
    return Clicks(tuple(map(click_request, events)))
