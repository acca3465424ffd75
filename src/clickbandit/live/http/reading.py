"""What a request says: its headers, its address and its body, each read with care."""

import re
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from clickbandit.errors import InputError
from clickbandit.live.http.auth import is_loopback
from clickbandit.live.http.refusals import Refused

MAX_BYTES = 2**21
"""In a body."""


class Headers:
    """The headers of a request that matter, each at most once."""

    authorization = host = kind = length = origin = request_id = encoding = expect = upgrade = b""

    @property
    def has_body(self) -> bool:
        return bool(self.encoding) or self.length.strip(b"0") != b""


HEADERS = {
    b"authorization": "authorization",
    b"content-length": "length",
    b"content-type": "kind",
    b"expect": "expect",
    b"host": "host",
    b"origin": "origin",
    b"transfer-encoding": "encoding",
    b"upgrade": "upgrade",
    b"x-request-id": "request_id",
}
"""Their names, and those of the attributes."""
HEADERS |= {name.title(): attribute for name, attribute in HEADERS.items()}  # as most send them


class Request:
    """One request, and what the service finds out about it."""

    admitted: Any = None
    """The keys that there were when one with the same head was let in, and that was of the right form."""
    body = b""
    keep_alive = True
    request_id = b""
    route: Any = None
    names: Sequence[str] = ()
    owner: str | None = None
    given_order = False
    """Whether it is too much, and a list is to be made without the ranker."""
    asked: Any = None
    """What its endpoint gave, if that was asked and is to be awaited."""
    refused: Any = None
    """The answer, if there is one before it is asked."""

    def __init__(self, method: str, path: bytes, query_string: bytes, headers: Headers) -> None:
        self.method = method
        self.path = path
        """As it was sent."""
        self.query_string = query_string
        self.headers = headers
        self.started = time.perf_counter()

    def again(self, body: bytes) -> "Request":
        """Another request with the same head, which was let in."""
        other = Request(self.method, self.path, self.query_string, self.headers)
        other.route, other.names, other.owner = self.route, self.names, self.owner
        other.admitted, other.body = self.admitted, body
        return other


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


def check_length(headers: Headers) -> None:
    """Refuse a body that says itself that it is too large."""
    length = headers.length
    if length and (not length.isdigit() or len(length) > 15 or int(length) > MAX_BYTES):
        raise too_large()


def too_large() -> Refused:
    return Refused(413, f"a body may have at most {MAX_BYTES:,} bytes: send it in parts")


def check_browser(headers: Headers) -> None:
    """Without keys a page that someone here looks at must not be able to ask: neither from its own origin, nor by a
    name of its own that it makes mean this machine."""
    if not _is_here(headers.host):
        raise Refused(
            403, "without API keys only this machine is served, under the name localhost or its address"
        )
    if headers.origin and headers.origin.partition(b"://")[2] != headers.host:
        raise Refused(403, "without API keys no web page of another origin is served")


@lru_cache(1000)
def _is_here(given: bytes) -> bool:
    host = given.decode("latin-1")
    return not host or is_loopback(host.rpartition(":")[0] if re.search(r":\d+$", host) else host)
