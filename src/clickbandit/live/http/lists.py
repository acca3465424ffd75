"""Requests for lists, read: most bodies came before, word for word."""

import time
from operator import attrgetter
from typing import Any

import msgspec

from clickbandit.live.asking import for_list
from clickbandit.live.http.messages import RankBody
from clickbandit.live.requests import RankRequest, new_id

MAX_KNOWN, MAX_BODIES = 2000, 5000
"""Bytes of a body that is remembered, and how many are."""
_ID = RankRequest._fields.index("id")
_known: dict[bytes, tuple[tuple[Any, ...], tuple[Any, ...]]] = {}
"""Bodies that say only which items of which query, and the request of each before and after its id."""
_more = attrgetter(*RankBody.__struct_fields__[3:])
_NO_MORE = (None,) * len(RankBody.__struct_fields__[3:])
_decode = msgspec.json.Decoder(RankBody).decode


def read_list(body: bytes) -> RankBody | RankRequest:
    """What a body asks for: checked, if it is one that others may repeat."""
    known = _known.get(body)
    if known is not None:
        return tuple.__new__(RankRequest, (*known[0], new_id(time.time()), *known[1]))
    decoded = _decode(body)
    if len(body) > MAX_KNOWN or _more(decoded) != _NO_MORE:
        return decoded
    request = list_request(decoded)
    if len(_known) >= MAX_BODIES:
        _known.clear()
    _known[body] = request[:_ID], request[_ID + 1 :]
    return request


def list_request(body: RankBody | RankRequest) -> RankRequest:
    """The same, checked."""
    if isinstance(body, RankRequest):
        return body
    return for_list(
        time.time(),
        body.query,
        body.names,
        positions=body.positions,
        id=body.id,
        pinned=body.pinned,
        excluded=body.excluded or (),
        user=body.user,
        scores=body.scores,
        features=body.features,
        context=body.context,
    )
