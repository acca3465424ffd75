"""The events of a body, each for itself: what is wrong with one of them is its own verdict."""

import re
from typing import Any

import msgspec

from clickbandit.errors import InputError
from clickbandit.live.asking import click
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
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]+|[\]}]|,', re.DOTALL)
_END = re.compile(rb"\s*\}?\s*")


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
                return [_read_event(raw) for raw in _array.decode(body)]
            return [_read_event(raw) for raw in _one_by_one.decode(body).events]
    except msgspec.ValidationError:
        raise
    except _UNREADABLE:
        parts = _split(body)
        if parts is None:
            raise
        return [_read_event(part) for part in parts]


def _split(body: bytes) -> list[bytes] | None:
    """The elements of an array of events, some of which are no JSON; None where they cannot be told apart."""
    start = _START.match(body)
    if start is None:
        return None
    parts, depth, begin = [], 1, start.end()
    for token in _TOKEN.finditer(body, begin):
        first = body[token.start()]
        if first in b"[{":
            depth += token.end() - token.start()
        elif first in b"]}":
            depth -= 1
            if depth == 0:
                parts.append(body[begin : token.start()])
                return parts if _END.fullmatch(body, token.end()) else None
        elif first in b"," and depth == 1:
            parts.append(body[begin : token.start()])
            begin = token.end()
    return None


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
