"""What a request says: its headers, its address and its body, each read with care."""

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from clickbandit.errors import InputError
from clickbandit.live.http.auth import is_loopback
from clickbandit.live.http.refusals import Refused

MAX_BYTES = 2**21
"""In a body."""
_SLOW_BODY = 30.0
"""Seconds that a body may take to arrive."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class Headers:
    """The headers of a request that matter, each at most once."""

    __slots__ = ("authorization", "host", "kind", "length", "origin", "request_id")

    def __init__(self, pairs: list[tuple[bytes, bytes]]) -> None:
        self.authorization = self.host = self.kind = self.length = self.origin = self.request_id = b""
        for name, value in pairs:
            attribute = _ATTRIBUTES.get(name)
            if attribute is not None:
                setattr(self, attribute, value)


_ATTRIBUTES = {
    b"authorization": "authorization",
    b"content-length": "length",
    b"content-type": "kind",
    b"host": "host",
    b"origin": "origin",
    b"x-request-id": "request_id",
}


def read_name(encoded: bytes) -> str:
    try:
        return unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        raise Refused(404, "a name in an address must be UTF-8, percent-encoded") from None


def read_parameters(query_string: bytes, kind: Any) -> Any:
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20
        )
    except ValueError as error:
        raise InputError(f"the parameters in the address cannot be read: {error}") from None
    given = dict(pairs)
    if len(given) < len(pairs):
        raise InputError("each parameter may be given once")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"the parameters must be as /openapi.json says: {error}") from None


async def read_body(headers: Headers, receive: Receive) -> bytes:
    length = headers.length
    if length and (not length.isdigit() or len(length) > 15 or int(length) > MAX_BYTES):
        raise _too_large()
    message = await receive() if length else await _patiently(receive)
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return body
    parts = [body]
    size = len(body)
    while message.get("more_body"):
        message = await _patiently(receive)
        if message["type"] == "http.disconnect":
            raise Refused(400, "the body broke off")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BYTES:
            raise _too_large()
    return b"".join(parts)


async def _patiently(receive: Receive) -> Message:
    try:
        async with asyncio.timeout(_SLOW_BODY):
            return await receive()
    except TimeoutError:
        raise Refused(
            408, f"the body did not arrive within {_SLOW_BODY:g} seconds", ((b"connection", b"close"),)
        ) from None


def _too_large() -> Refused:
    return Refused(413, f"a body may have at most {MAX_BYTES:,} bytes: send it in parts")


def check_browser(headers: Headers) -> None:
    """Without keys a page that someone here looks at must not be able to ask: neither from its own origin, nor by a
    name of its own that it makes mean this machine."""
    host = headers.host.decode("latin-1")
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    if host and not is_loopback(name):
        raise Refused(
            403, "without API keys only this machine is served, under the name localhost or its address"
        )
    if headers.origin and headers.origin.partition(b"://")[2] != headers.host:
        raise Refused(403, "without API keys no web page of another origin is served")
