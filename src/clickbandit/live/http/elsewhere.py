"""Lists that another worker makes: the request as it is sent there, and who waits for the list."""

from typing import Any

import msgspec

from clickbandit.live.async_ranker import AsyncRanker
from clickbandit.live.http.wire import Away, Unasked
from clickbandit.live.requests import RankRequest
from clickbandit.live.values import Shown

MAX_KNOWN, MAX_REQUESTS = 2000, 5000
"""Bytes of a request that is remembered, and how many are."""
_written: dict[bytes, bytes] = {}
"""Plain requests without their id, as they are sent, by their digest."""
_read: dict[bytes, RankRequest] = {}
"""And what was read when they came."""
_END = b"\0"
"""Of an id, which cannot have it."""
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(RankRequest).decode


def write_request(request: RankRequest) -> bytes:
    """A request as another worker reads it; most were written before, but for their id."""
    usual = request.is_plain and request.is_new
    written = _written.get(request.offer) if usual else None
    if written is None:
        written = _pack(request.with_id(""))
        if usual and len(written) <= MAX_KNOWN:
            _remember(_written, request.offer, written)
    return request.id.encode() + _END + written


def read_request(content: bytes) -> RankRequest:
    id, _, written = content.partition(_END)
    request = _read.get(written)
    if request is None:
        request = _unpack(written)
        if request.is_plain and request.is_new and len(written) <= MAX_KNOWN:
            _remember(_read, written, request)
    return request.with_id(id.decode())


def _remember(known: dict[bytes, Any], key: bytes, value: Any) -> None:
    if len(known) >= MAX_REQUESTS:
        known.clear()
    known[key] = value


class Elsewhere:
    """Waits for the list of another worker; if that is away, the ranker here makes it, or finds it if it is there.

    If the ranker here cannot do that, nobody sees what the other may still make.
    """

    __slots__ = ("_asked", "_ranker", "_request", "_waiting")

    def __init__(self, ranker: AsyncRanker, request: RankRequest, waiting: Any) -> None:
        self._ranker = ranker
        self._request = request
        self._waiting = waiting
        self._asked = ranker.now()

    def done(self) -> bool:
        return bool(self._waiting.done())

    def set_result(self, made: bytes | Shown) -> None:
        if isinstance(made, bytes):
            self._waiting.set_body(made)
            return
        if made.id != self._request.id:
            self._ranker.disown(self._request, self._asked)
        self._waiting.set_result(made)

    def set_exception(self, error: Exception) -> None:
        if isinstance(error, Unasked):
            self._ranker.begin(self._request, self._waiting)
        elif isinstance(error, Away):
            self._ranker.begin(self._request._replace(is_new=False), self)
        else:
            self._waiting.set_exception(error)
