"""Requests for lists, read: most bodies came before, word for word."""

import time
from operator import attrgetter

import msgspec

from clickbandit.live.asking import for_list
from clickbandit.live.http.messages import RankBody
from clickbandit.live.requests import RankRequest, new_id

MAX_KNOWN, MAX_BODIES = 2000, 5000
"""Bytes of a body that is remembered, and how many are."""
_known: dict[bytes, RankRequest] = {}
"""Bodies that say only which items of which query, and a request of each."""
_more = attrgetter(*RankBody.__struct_fields__[3:])
_NO_MORE = (None,) * len(RankBody.__struct_fields__[3:])
_decode = msgspec.json.Decoder(RankBody).decode


def read_list(body: bytes) -> RankBody | RankRequest:
    """What a body asks for: checked, if it is one that others may repeat."""
    known = _known.get(body)
    if known is not None:
        return known.with_id(new_id(time.time()))
    decoded = _decode(body)
    if len(body) > MAX_KNOWN or _more(decoded) != _NO_MORE:
        return decoded
    request = list_request(decoded)
    if len(_known) >= MAX_BODIES:
        _known.clear()
    _known[body] = request
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
