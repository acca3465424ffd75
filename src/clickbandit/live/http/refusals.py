"""Requests that are refused, and how errors are answered: a problem as RFC 9457 has it."""

import json
from http import HTTPStatus

from clickbandit.errors import InputError
from clickbandit.live.http.messages import ProblemDetails
from clickbandit.live.values import Conflict, LimitReached, StoreError, Unknown


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, detail: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.status = status
        self.detail = detail
        self.headers = headers


def unreadable(body: bytes, error: Exception) -> Refused:
    """The refusal of a body that is not JSON. NaN and Infinity, which some programs write, are refused as numbers where
    the rest is JSON."""
    found: list[str] = []
    try:
        json.loads(body, parse_constant=found.append)
    except (ValueError, RecursionError):
        found.clear()
    if found:
        return Refused(422, f"the body's numbers must be finite, found {found[0]}")
    return Refused(400, f"the body must be JSON: {error}")


def problem(refused: Refused) -> ProblemDetails:
    return ProblemDetails(HTTPStatus(refused.status).phrase, refused.status, refused.detail)


def refusal(error: Exception) -> Refused:
    """How an error is answered."""
    match error:
        case Refused():
            return error
        case Conflict():
            return Refused(409, str(error))
        case Unknown():
            return Refused(404, str(error))
        case LimitReached():
            return Refused(403, str(error))
        case InputError():
            return Refused(422, str(error))
        case StoreError():
            return Refused(503, str(error), ((b"retry-after", b"1"),))
    return Refused(500, "the service failed: its log says why")
