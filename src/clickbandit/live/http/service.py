"""The HTTP service: it routes, decodes, asks the ranker, and answers.

Every request takes the same way, so that keys, limits, metrics and logs are in one place; what it can ask for is in
`endpoints`. Without a framework: these decode an address before they route it, and the name of a query may hold an
encoded slash; and they take time (docs/decisions/0010-service.md).
"""

import asyncio
import itertools
import math
import os
import re
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

import msgspec

from clickbandit.errors import InputError
from clickbandit.live.async_ranker import Asked, AsyncRanker
from clickbandit.live.http import log
from clickbandit.live.http.auth import Keys, KeysFile, Rates
from clickbandit.live.http.endpoint import JSON, Endpoint, Quick
from clickbandit.live.http.endpoints import Api
from clickbandit.live.http.files import page_files
from clickbandit.live.http.metrics import Metrics
from clickbandit.live.http.notes import Notes
from clickbandit.live.http.openapi import document
from clickbandit.live.http.reading import (
    Request,
    check_browser,
    check_length,
    read_name,
    read_parameters,
    too_large,
)
from clickbandit.live.http.refusals import Refused, problem, refusal, unreadable
from clickbandit.live.http.stream import Stream, Streams
from clickbandit.live.values import StoreError

MAX_REQUESTS = 1000
"""At the same time, so that memory is bounded when the store cannot keep up; beyond it lists are in the given order."""
_JSON = JSON.encode()
_PROBLEM = b"application/problem+json"
_WRONG_KEYS = 20.0
"""Requests a second with a wrong key, or none, that are told so."""
_JSON_HEADERS = b"content-type: " + _JSON + b"\r\nx-request-id: "
_MORE_HEADERS = b"\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n"
_REQUEST_ID = re.compile(rb"[\w.:/+=-]{1,100}", re.ASCII)

_encode = msgspec.json.Encoder().encode

Reply = Callable[[Request, "Response"], None]


class _Route(NamedTuple):
    """An endpoint, ready to be called."""

    endpoint: Endpoint
    handler: Callable[..., Any]
    quick: bool
    """Whether that may give `Quick`."""
    decode: Callable[[bytes], Any] | None
    """Its body."""
    parameters: Any
    """The type of its parameters."""
    empty: Any
    """Its body if there is none, for an endpoint that can do without."""
    content_type: bytes


class Response(NamedTuple):
    """An answer."""

    status: int
    headers: bytes
    """Lines."""
    body: bytes | Stream


class _QuickRequest:
    """A quick request while the ranker does what it asks for: gets the result as a future does."""

    __slots__ = ("_answer", "_reply", "_request", "_service", "_waits")

    def __init__(
        self, service: "Service", request: Request, answer: Callable[[Any], Any], reply: "Reply"
    ) -> None:
        self._service = service
        self._request = request
        self._answer = answer
        self._reply = reply
        self._waits = True

    def done(self) -> bool:
        return not self._waits

    def set_result(self, result: Any) -> None:
        try:
            body = _encode(self._answer(result))
        except Exception as error:
            self.set_exception(error)
        else:
            self.set_body(body)

    def set_body(self, body: bytes) -> None:
        """The answer as it is sent."""
        self._waits = False
        self._reply(self._request, self._service.answered_quickly(self._request, body))

    def set_exception(self, error: Exception) -> None:
        self._waits = False
        self._reply(self._request, self._service.failed(self._request, error))


class Service:
    """The application."""

    def __init__(
        self,
        ranker: AsyncRanker,
        *,
        keys: Keys | KeysFile | None = None,
        rate: float | None = None,
        only_loopback: bool = True,
        log_requests: bool = True,
        log_queries: bool = False,
        api: Callable[[AsyncRanker, Metrics, Streams], Api] = Api,
    ) -> None:
        self.metrics = Metrics()
        self._keys_file = keys if isinstance(keys, KeysFile) else None
        self._keys = keys.keys if isinstance(keys, KeysFile) else keys or Keys(())
        self.api = api(ranker, self.metrics, Streams(lambda error: problem(refusal(error))))
        self.api.document = _encode(document(self.api.endpoints(), keys=bool(self._keys)))
        self._files = page_files(demo=type(self.api) is not Api)
        self._rates = Rates(rate) if rate else None
        self._wrong_keys = Rates(_WRONG_KEYS)
        self._guard_browsers = only_loopback and not self._keys
        self._notes = Notes(self.metrics, log_requests, log_queries)
        self._running = 0
        self._asked: Asked | None = None
        """By those who have no task."""
        self._boot = os.urandom(6).hex().encode()
        self._numbers = itertools.count(1)
        self._fixed: dict[bytes, dict[str, _Route]] = {}
        self._patterns: list[tuple[list[bytes | None], dict[str, _Route]]] = []
        for endpoint in self.api.endpoints():
            self._add(endpoint)

    # --- routing --------------------------------------------------------------------------------------------

    def _add(self, endpoint: Endpoint) -> None:
        takes = endpoint.takes
        body = takes.get("body")
        decode, empty = endpoint.decode, None
        if body is not None and decode is None:
            decode = msgspec.json.Decoder(body).decode
            if not any(field.required for field in msgspec.structs.fields(body)):
                empty = body()
        route = _Route(
            endpoint,
            partial(endpoint.handler, self.api),
            not iscoroutinefunction(endpoint.handler),
            decode,
            takes.get("parameters"),
            empty,
            endpoint.content_type.encode(),
        )
        segments = [None if part.startswith("{") else part.encode() for part in endpoint.path.split("/")]
        if None not in segments:
            self._fixed.setdefault(endpoint.path.encode(), {})[endpoint.method] = route
            return
        for pattern, methods in self._patterns:
            if pattern == segments:
                methods[endpoint.method] = route
                return
        self._patterns.append((segments, {endpoint.method: route}))

    def _find(self, method: str, path: bytes) -> tuple[_Route, list[str]]:
        """The endpoint of a path as it was sent: a name may hold any character, encoded, a slash too."""
        methods = self._fixed.get(path)
        names: list[str] = []
        if methods is None:
            segments = path.split(b"/")
            for pattern, found in self._patterns:
                if len(pattern) == len(segments) and all(
                    part is None or part == segment for part, segment in zip(pattern, segments, strict=True)
                ):
                    methods = found
                    given = [s for part, s in zip(pattern, segments, strict=True) if part is None]
                    names = [read_name(name) for name in given]
                    break
            else:
                raise Refused(404, "there is nothing here: /openapi.json describes what there is")
        route = methods.get(method)
        if route is None:
            allowed = ", ".join(methods)
            raise Refused(405, f"this takes {allowed}, found {method}", ((b"allow", allowed.encode()),))
        return route, names

    # --- a request ------------------------------------------------------------------------------------------

    def admit(self, request: Request) -> "Response | None":
        """Look at a request before its body is there; the answer if it is refused."""
        given = request.headers.request_id
        if given and _REQUEST_ID.fullmatch(given):
            request.request_id = given
        else:
            request.request_id = b"%b-%x" % (self._boot, next(self._numbers))
        try:
            if request.admitted is not self._keys:
                if request.path in self._files and request.method in ("GET", "HEAD"):
                    return None
                request.route, request.names = self._find(request.method, request.path)
                self._identify(request)
                check_length(request.headers)
            if self._rates is not None or self._running >= MAX_REQUESTS:
                self._limit(request)
        except Exception as error:
            request.refused = self._problem(request, error)
        return request.refused  # type: ignore[no-any-return]

    async def answer(self, request: Request) -> "Response":
        """Answer a request that is whole."""
        if request.refused is not None:
            return request.refused  # type: ignore[no-any-return]
        file = self._files.get(request.path)
        if file is not None and request.route is None:
            return Response(200, _lines(file.headers), file.body)
        self._running += 1
        try:
            asked = request.asked if request.asked is not None else self._ask(request)
            return self.answered(request, await asked)
        except Exception as error:
            return self.failed(request, error)

    def begin(self, request: Request, reply: "Reply") -> bool:
        """Answer a request that is whole without waiting for it here, if it is one of those that are quick."""
        if request.route is None or not request.route.quick or request.refused is not None:
            return False
        try:
            asked = self._ask(request)
            if not isinstance(asked, Quick):
                request.asked = asked
                return False
            if self._asked is None:
                self._asked = self.api.ranker.asked_here()
            wanted, answer, begin_elsewhere = asked
            self._running += 1
            waiting = _QuickRequest(self, request, answer, reply)
            if begin_elsewhere is None:
                self._asked.add(wanted, waiting)
            else:
                begin_elsewhere(wanted, waiting)
        except Exception as error:  # not before this returns, for another may be next
            asyncio.get_running_loop().call_soon(reply, request, self._problem(request, error))
        return True

    def answered(self, request: Request, answer: Any) -> "Response":
        """What an endpoint gave, as it is sent."""
        if isinstance(answer, Stream):
            self.metrics.opened(request.route.endpoint.path)
            headers = _headers(request.route.content_type, request.request_id)
            self._running -= 1
            # else proxies would keep messages until there are many
            headers += b"x-accel-buffering: no\r\n"
            return Response(200, headers, answer.as_long_as(partial(self._may_go_on, request)))
        if not isinstance(answer, bytes):
            return self.answered_quickly(request, _encode(answer))
        self._notes.add(request, 200)
        self._running -= 1
        content_type = getattr(answer, "content_type", request.route.content_type)
        return Response(200, _headers(content_type, request.request_id), answer)

    def answered_quickly(self, request: Request, body: bytes) -> "Response":
        """JSON, as it is sent."""
        self._notes.add(request, 200)
        self._running -= 1
        return Response(200, _JSON_HEADERS + request.request_id + _MORE_HEADERS, body)

    def failed(self, request: Request, error: Exception) -> "Response":
        self._running -= 1
        return self._problem(request, error)

    def refuse(self, refused: Refused) -> "Response":
        """Answer what is no request."""
        self.metrics.answered("none", refused.status, 0.0)
        return Response(refused.status, _headers(_PROBLEM, b"none"), _encode(problem(refused)))

    def too_large(self, request: Request) -> "Response":
        return self._problem(request, too_large())

    def _problem(self, request: Request, error: Exception) -> "Response":
        refused = refusal(error)
        if refused.status == 500:
            trace = "".join(traceback.format_exception(error))
            log.write("error", event="failure", request_id=request.request_id.decode(), traceback=trace)
        self._notes.add(request, refused.status)
        headers = _headers(_PROBLEM, request.request_id) + _lines(refused.headers)
        return Response(refused.status, headers, _encode(problem(refused)))

    def _identify(self, request: Request) -> None:
        """Refuse what may not come in, by its headers alone."""
        route, headers = request.route, request.headers
        if route.endpoint.open:
            return
        if self._guard_browsers:
            check_browser(headers)
        if self._keys:
            request.owner = self._keys.owner(headers.authorization)
            if request.owner is None:
                if self._wrong_keys.wait("", request.started) > 0:
                    raise Refused(429, "too many requests with a wrong key", ((b"retry-after", b"1"),))
                raise Refused(
                    401,
                    "an API key is needed, as the header Authorization: Bearer KEY",
                    ((b"www-authenticate", b"Bearer"),),
                )
            if not self._keys.allows(request.owner, route.endpoint.scope):
                raise Refused(403, f"this needs a key with the scope {route.endpoint.scope}")

    def _may_go_on(self, request: Request) -> bool:
        """Whether it would still be let in, for keys may change meanwhile."""
        try:
            self._identify(request)
        except Refused:
            return False
        return True

    def _limit(self, request: Request) -> None:
        """Refuse what is too much."""
        if request.route.endpoint.open:
            return
        if self._rates is not None:
            wait = self._rates.wait(request.owner or "", request.started)
            if wait > 0:
                raise Refused(
                    429,
                    f"too many requests: try again in {wait:.3f} seconds",
                    ((b"retry-after", str(math.ceil(wait)).encode()),),
                )
        if self._running >= MAX_REQUESTS:
            if request.route.endpoint.handler is not Api.rank:
                raise StoreError(f"{MAX_REQUESTS:,} requests are being answered already")
            request.given_order = True

    def _ask(self, request: Request) -> Any:
        """What an endpoint gives: to be awaited, or `Quick`."""
        route, names = request.route, request.names
        handler: Callable[..., Any] = self.api.given_order if request.given_order else route.handler
        if request.admitted is None:
            if route.parameters is not None:
                return handler(*names, read_parameters(request.query_string, route.parameters))
            if request.query_string and not route.endpoint.open:
                raise InputError("this takes no parameters in its address")
            if route.decode is None:
                return handler(*names)
            if not request.body and route.empty is not None:
                return handler(*names, route.empty)
            kind = request.headers.kind
            if kind != _JSON and kind.partition(b";")[0].strip().lower() != _JSON:
                raise Refused(415, "the body must be JSON, with the header Content-Type: application/json")
            if route.quick:
                request.admitted = self._keys
        try:
            decoded = route.decode(request.body)
        except msgspec.ValidationError as error:
            raise Refused(422, f"the body must be as /openapi.json says: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise unreadable(request.body, error) from None
        return handler(*names, decoded)

    def look(self) -> None:
        """Once a second: use the keys that there are now."""
        try:
            if self._keys_file is not None:
                self._keys = self._keys_file.reload() or self._keys
        except InputError as error:
            log.write("error", event="keys", message=f"the keys are as they were: {error}")

    async def close(self) -> None:
        """Called once, at the end."""
        self._notes.write()
        await self.api.close()

    def stop(self) -> None:
        """Say from now on that this is not ready."""
        self.api.streams.stopping = True


def _headers(content_type: bytes, request_id: bytes) -> bytes:
    """Of every answer."""
    return b"content-type: " + content_type + b"\r\nx-request-id: " + request_id + _MORE_HEADERS


def _lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join(b"%b: %b\r\n" % pair for pair in headers)
