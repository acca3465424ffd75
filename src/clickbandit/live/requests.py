"""Operations, checked before they reach the engine, so that what is wrong with one does not concern the others."""

import json
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, NoReturn

from clickbandit.errors import InputError
from clickbandit.live.rewards import CLICK
from clickbandit.live.told import Told
from clickbandit.live.values import (
    MAX_ID,
    MAX_INDEXED,
    MAX_ITEMS,
    MAX_NAME,
    MAX_POSITIONS,
    Verdict,
)

MIN_HORIZON = 5
_DRAWN_AT_ONCE = 256
_drawn: list[str] = []
"""Random parts of ids, each for one."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drawn.clear)
_known: dict[tuple[str | int | None, ...], tuple[tuple[str, ...], bytes]] = {}
"""Queries, positions and items of requests that were in order."""
_MAX_KNOWN, _MAX_OFFERS = 2000, 5000
"""Characters in one of them, and how many there are."""
_NOTHING = frozenset[str]()
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class QuerySettings(NamedTuple):
    """What a query is learned with."""

    policy: str
    """Its spelling."""
    positions: int
    horizon: int
    window: int | None
    """Milliseconds."""


class RankRequest(NamedTuple):
    """A list is wanted."""

    query: str
    items: tuple[str, ...]
    positions: int | None
    id: str
    is_new: bool
    """Whether the id was made up for this request, so that no impression can have it."""
    pinned: dict[str, int]
    excluded: frozenset[str]
    offer: bytes
    """A digest of the query and its items, which many requests have in common."""
    body: bytes
    """A digest of all that another one with the same id must say too."""
    user: str | None = None
    told: Told = Told()

    @property
    def is_plain(self) -> bool:
        """Whether it says only which items of which query."""
        return self.body == self.offer and self.user is None

    def with_id(self, id: str) -> "RankRequest":
        """The same, for another list."""
        return tuple.__new__(RankRequest, (*self[:_ID], id, *self[_ID + 1 :]))


_ID = RankRequest._fields.index("id")


class ClickRequest(NamedTuple):
    """An event, read and checked."""

    impression: str
    item: str
    key: str
    event_id: str | None
    timestamp: str | None
    action: str = CLICK
    amount: float | None = None


def new_id(seconds: float) -> str:
    """An id that nothing else has. It begins with the time, so that new ones stand together on disk."""
    try:
        drawn = _drawn.pop()
    except IndexError:
        text = os.urandom(10 * _DRAWN_AT_ONCE).hex()
        _drawn.extend([text[k : k + 20] for k in range(20, len(text), 20)])
        drawn = text[:20]
    return f"{int(seconds * 1000):012x}{drawn}"


def check_name(value: object, what: str, max_length: int = MAX_ID) -> str:
    """A name that every store can keep."""
    if type(value) is str and 0 < len(value) <= max_length and value.isascii() and "\0" not in value:
        return value  # as most are
    if not isinstance(value, str):
        raise InputError(f"{what} must be text, found {type(value).__name__}")
    if not 1 <= len(value) <= max_length:
        raise InputError(f"{what} must have from 1 to {max_length:,} characters, found {len(value):,}")
    if "\0" in value or not (value.isascii() or _is_encodable(value)):
        raise InputError(f"{what} must be Unicode text without zero characters, found {value[:50]!a}")
    return value


def check_query(name: object) -> str:
    return check_name(name, "query", MAX_NAME)


def check_new_query(name: object) -> None:
    """Of one that may have to be made; what has a longer name from before can be looked at and deleted."""
    if not (query := check_query(name)).isascii() and (n := len(query.encode())) > MAX_INDEXED:
        raise InputError(f"query must have at most {MAX_INDEXED:,} bytes in UTF-8, found {n:,}: shorten it")


def _is_encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_positions(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_POSITIONS:
        raise InputError(f"positions must be a whole number from 1 to {MAX_POSITIONS}, found {value!r}")
    return value


def check_horizon(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not MIN_HORIZON <= value <= 10**15:
        raise InputError(f"horizon must be a whole number from {MIN_HORIZON} to 10^15, found {value!r}")
    return value


def parse_duration(value: object, what: str) -> int:
    """Milliseconds, from seconds or from text with a unit.

    >>> parse_duration("30m", "window")
    1800000
    """
    seconds = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = value
    elif isinstance(value, str):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", value.strip())
        if found:
            seconds = float(found[1]) * _UNITS[found[2]]
    if not 0 <= seconds <= 3650 * _UNITS["d"]:
        raise InputError(
            f'{what} must be seconds or text such as "90s", "30m", "12h" or "2d", found {value!r}'
        )
    return round(seconds * 1000)


def rank_request(
    query: str,
    items: Sequence[str],
    positions: int | None,
    id: str | None,
    pinned: Mapping[str, int] | None,
    excluded: Collection[str],
    new_id: str,
) -> RankRequest:
    """A request for a list, if it is in order."""
    if isinstance(items, (str, bytes)) or not isinstance(items, (list, tuple)):
        raise InputError(f"items must be a list of names, found {type(items).__name__}")
    names, offer = _offered(query, items, positions)
    pins = dict(pinned) if pinned else {}
    left_out = frozenset(excluded) if excluded else _NOTHING
    body = offer
    if pins or left_out:
        _check_rules(items, pins, left_out)
        rules = json.dumps([sorted(pins.items()), sorted(left_out)])
        body = _digest(_written(query, items, positions) + f"\0\0{rules}")
    given = new_id if id is None else check_name(id, "id")
    return RankRequest(query, names, positions, given, id is None, pins, left_out, offer, body)


def _offered(query: str, items: Sequence[str], positions: int | None) -> tuple[tuple[str, ...], bytes]:
    """The items of a request and the digest of what it says of them, if in order; most were asked for before."""
    try:
        known = _known.get((query, positions, *items))
        if known is not None and (positions is None or type(positions) is int):  # for True is 1
            return known
    except TypeError:  # of what is no name
        pass
    if len(items) > MAX_ITEMS:
        raise InputError(f"a list may be made of at most {MAX_ITEMS:,} items, found {len(items):,}")
    check_new_query(query)
    if positions is not None:
        check_positions(positions)
    try:
        text = _written(query, items, positions)
        in_order = text.count("\0") == len(items) + 1 and max(map(len, items), default=1) <= MAX_ID
        in_order = in_order and "" not in items and len(set(items)) == len(items)
        digest = _digest(text)
    except (TypeError, UnicodeEncodeError):
        in_order = False
    if not in_order:
        _explain(items)
    offered = tuple(items), digest
    if len(text) <= _MAX_KNOWN:
        if len(_known) >= _MAX_OFFERS:
            _known.clear()
        _known[query, positions, *items] = offered
    return offered


def _written(query: str, items: Sequence[str], positions: int | None) -> str:
    return "\0".join([query, "" if positions is None else str(positions), *items])


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def with_told(request: RankRequest, told: Told) -> RankRequest:
    """The request with what is said of its items, which another one with the same id must say too."""
    if told == Told():
        return request
    said = json.dumps(told.scores if told.features is None else list(told))
    return request._replace(told=told, body=blake2b(request.body + said.encode(), digest_size=16).digest())


def _explain(items: Sequence[object]) -> NoReturn:
    """Say what is wrong with a list of items."""
    for item in items:
        check_name(item, "an item")
    repeated = next(item for i, item in enumerate(items) if item in items[:i])
    raise InputError(f"items must be different, found {repeated!r} twice")


def _check_rules(items: Sequence[str], pinned: dict[str, int], excluded: frozenset[str]) -> None:
    for item, position in pinned.items():
        if item not in items:
            raise InputError(f"a pinned item must be one of the items, found {item!r}")
        if item in excluded:
            raise InputError(f"an item is either pinned or excluded, found {item!r} in both")
        check_positions(position)
    if len(set(pinned.values())) < len(pinned):
        raise InputError(f"pinned items must have positions of their own, found {pinned}")
    for item in excluded:
        check_name(item, "an excluded item")


def arrange(order: Sequence[str], request: RankRequest, positions: int) -> list[str]:
    """The items of a request in this order, as many as there are positions, with its rules applied.

    Items that are pinned beyond the end of a list that is too short stand last.
    """
    allowed = set(request.items) - request.excluded
    free = iter(dict.fromkeys(item for item in order if item in allowed and item not in request.pinned))
    length = min(positions, len(allowed))
    places = list(range(length, 0, -1))
    pinned: dict[int, str] = {}
    for item, position in sorted(request.pinned.items(), key=lambda pin: (pin[1] > length, -pin[1])):
        place = (
            position if position <= length else next((place for place in places if place not in pinned), 0)
        )
        pinned[place] = item
    return [pinned[place] if place in pinned else next(free) for place in range(1, length + 1)]


class Clicks(NamedTuple):
    """Events, some of which may have their verdict already."""

    events: tuple[ClickRequest | Verdict, ...]


class SettleRequest(NamedTuple):
    """An impression is over."""

    id: str


class VoidRequest(NamedTuple):
    """An impression was never shown."""

    id: str


class FreezeRequest(NamedTuple):
    """Show the best list from now on, or learn on."""

    query: str
    frozen: bool


class ResetRequest(NamedTuple):
    """Start afresh."""

    query: str
    settings: QuerySettings
    replay: bool = False
    """Whether to learn from what the log has."""
    preview: bool = False
    """Whether only to say what would come of it."""


class DetailRequest(NamedTuple):
    """What has been learned?"""

    query: str


class StateRequest(NamedTuple):
    """What is in use for a query, to be compared with its log?"""

    query: str
    in_memory: bool = False
    """Whether to say so only if it is in memory."""


class InUse(NamedTuple):
    """The answer to that."""

    query: int
    """Its id."""
    number: int
    """Of the last record in it."""
    state: bytes
    sound: bool
    """Whether it could be loaded; else it is what was left of it."""


class DeleteRequest(NamedTuple):
    """Forget a query and everything about it."""

    query: str


class ForgetRequest(NamedTuple):
    """Forget what a user was shown and clicked."""

    user: str


class PingRequest(NamedTuple):
    """Does the store work?"""


class FlushRequest(NamedTuple):
    """Settle all that is due."""


Request = (
    RankRequest
    | Clicks
    | SettleRequest
    | VoidRequest
    | FreezeRequest
    | ResetRequest
    | DetailRequest
    | StateRequest
    | DeleteRequest
    | ForgetRequest
    | PingRequest
    | FlushRequest
)


FREQUENT: set[type] = {RankRequest, Clicks}
"""Too many to look at what is due each time."""
OF_QUERIES = FREQUENT | {DetailRequest, StateRequest}
"""What needs no other query than its own to be seen by readers."""


def concerns(requests: Iterable[Request]) -> tuple[set[str], set[str], set[str], list[str]]:
    """The queries and impressions that a batch is about, the impressions that were clicked, and the events."""
    names: set[str] = set()
    ids: set[str] = set()
    clicked: set[str] = set()
    keys: list[str] = []
    for request in requests:
        if isinstance(request, RankRequest):
            names.add(request.query)
            if not request.is_new:
                ids.add(request.id)
        elif isinstance(request, Clicks):
            for event in request.events:
                if isinstance(event, ClickRequest):
                    clicked.add(event.impression)
                    keys.append(event.key)
        elif isinstance(request, SettleRequest | VoidRequest):
            ids.add(request.id)
        elif not isinstance(request, PingRequest | FlushRequest | ForgetRequest):
            names.add(request.query)
    return names, ids, clicked, keys
