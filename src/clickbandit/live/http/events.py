"""The events of a body, each for itself: what is wrong with one of them is its own verdict."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from clickbandit.errors import InputError
from clickbandit.live.asking import MAX_EVENTS, click, too_many
from clickbandit.live.http import ubi
from clickbandit.live.http.messages import EventsBody
from clickbandit.live.values import Verdict

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Unread(msgspec.Struct, forbid_unknown_fields=True):
    """Events that are to be read one by one."""

    events: list[msgspec.Raw]


_in_order = msgspec.json.Decoder(EventsBody)
_one_by_one = msgspec.json.Decoder(_Unread)
_array = msgspec.json.Decoder(list[msgspec.Raw])

_START = re.compile(rb'\s*(?:\{\s*"events"\s*:\s*)?\[')
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"\s*+(?=[",:\]}])|(["\[{\]},])', re.DOTALL)
"""A text that may stand where it does, or what divides; no byte is tried twice, for a body may be long."""
_END = re.compile(rb"\s*+\}?\s*+")
_CLOSING = {b"[": b"]", b"{": b"}"}


def read_events(body: bytes) -> list[Any]:
    """The events of a body: an object with `events`, or an array of them as UBI's collector sends it."""
    try:
        try:
            return [
                click(event.id, event.item, event.event_id, event.timestamp, event.action, event.amount)
                for event in _in_order.decode(body).events
            ]
        except (msgspec.ValidationError, UnicodeDecodeError):
            if body.lstrip(b" \t\r\n").startswith(b"["):
                return _read_each(_array.decode(body))
            return _read_each(_one_by_one.decode(body).events)
    except msgspec.ValidationError:
        raise
    except _UNREADABLE:
        parts = _split(body)
        if parts is None:
            raise
        return _read_each(parts)


def _split(body: bytes) -> list[bytes] | None:
    """The elements of an array of events, some of which are no JSON; None where they cannot be told apart.

    Of too many, only one more than there may be.
    """
    start = _START.match(body)
    if start is None:
        return None
    parts, begin, to_close = [], start.end(), [b"]"]
    for token in _TOKEN.finditer(body, begin):
        mark = token[1]
        if mark is None:
            continue
        if mark in _CLOSING:
            to_close.append(_CLOSING[mark])
        elif mark == b",":
            if len(to_close) == 1:
                parts.append(body[begin : token.start()])
                begin = token.end()
                if len(parts) > MAX_EVENTS:
                    return parts
        elif mark != to_close.pop():  # nor is a lone quotation mark
            return None
        elif not to_close:
            parts.append(body[begin : token.start()])
            return parts if _END.fullmatch(body, token.end()) else None
    return None


def _read_each(events: Sequence[bytes | msgspec.Raw]) -> list[Any]:
    if len(events) > MAX_EVENTS:
        raise too_many(events)
    return [_read_event(event) for event in events]


def _read_event(raw: bytes | msgspec.Raw) -> Any:
    """One event that is UBI's, or what is wrong with it; any other as it is, for the ranker to judge."""
    try:
        event = msgspec.json.decode(raw)
    except _UNREADABLE as error:
        return Verdict("invalid", None, f"the event cannot be read: {error}")
    if not isinstance(event, dict) or not ubi.is_ubi(event):
        return event
    try:
        return ubi.read_event(event)
    except InputError as error:
        event_id = event.get("event_id")
        return Verdict("invalid", event_id if isinstance(event_id, str) else None, str(error))
