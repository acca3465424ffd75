"""The HTTP service: an ASGI application that routes, decodes, asks the ranker, and answers.

Every request takes the same way, so that keys, limits, metrics and logs are in one place; what it can ask for is in
`endpoints`. Written against ASGI itself: frameworks decode an address before they route it, and the name of a query may
hold an encoded slash; and they take time (docs/decisions/0010-service.md).
"""

import asyncio
import itertools
import math
import os
import re
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from clickbandit.errors import InputError
from clickbandit.live import log
from clickbandit.live.auth import Keys, Rates, is_loopback
from clickbandit.live.endpoints import JSON, Api, Endpoint
from clickbandit.live.files import page_files
from clickbandit.live.messages import Problem
from clickbandit.live.metrics import Metrics
from clickbandit.live.openapi import document
from clickbandit.live.ranker import AsyncRanker
from clickbandit.live.stream import Stream, Streams
from clickbandit.live.types import Conflict, LimitReached, StoreError, Unknown

MOST_BYTES = 2**21
"""In a body."""
MOST_REQUESTS = 1000
"""At the same time, so that memory is bounded when the store cannot keep up."""
_SLOW_BODY = 30.0
"""Seconds that a body may take to arrive."""
_JSON = JSON.encode()
_PROBLEM = b"application/problem+json"
_NOTHING: tuple[tuple[bytes, bytes], ...] = ()

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_encode = msgspec.json.Encoder().encode


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, detail: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.status = status
        self.detail = detail
        self.headers = headers


class _Headers:
    """The headers of a request that matter, each at most once."""

    __slots__ = ("authorization", "host", "kind", "length", "origin", "request_id")

    def __init__(self, pairs: list[tuple[bytes, bytes]]) -> None:
        self.authorization = self.host = self.kind = self.length = self.origin = self.request_id = b""
        for name, value in pairs:
            attribute = _HEADERS.get(name)
            if attribute is not None:
                setattr(self, attribute, value)


_HEADERS = {
    b"authorization": "authorization",
    b"content-length": "length",
    b"content-type": "kind",
    b"host": "host",
    b"origin": "origin",
    b"x-request-id": "request_id",
}
_REQUEST_ID = re.compile(rb"[\w.:/+=-]{1,100}", re.ASCII)


class _Route(NamedTuple):
    """An endpoint, ready to be called."""

    endpoint: Endpoint
    decode: Callable[[bytes], Any] | None
    """Its body."""
    parameters: Any
    """The type of its parameters."""
    empty: Any
    """Its body if there is none, for an endpoint that can do without."""
    content_type: bytes


class Service:
    """The application. It closes the ranker when it is told to shut down."""

    def __init__(
        self,
        ranker: AsyncRanker,
        *,
        keys: Keys | None = None,
        rate: float | None = None,
        only_loopback: bool = True,
        log_requests: bool = True,
        log_queries: bool = False,
        api: Callable[[AsyncRanker, Metrics, Streams], Api] = Api,
    ) -> None:
        self.metrics = Metrics()
        self._keys = keys or Keys(())
        self.api = api(ranker, self.metrics, Streams(lambda error: _problem(_refusal(error))))
        self.api.document = _encode(document(self.api.endpoints(), keys=bool(self._keys)))
        self._files = page_files(demo=type(self.api) is not Api)
        self._rates = Rates(rate) if rate else None
        self._guard_browsers = only_loopback and not self._keys
        self._log_requests = log_requests
        self._log_queries = log_queries
        self._running = 0
        self._boot = os.urandom(6).hex()
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
        route = _Route(endpoint, decode, takes.get("parameters"), empty, endpoint.content_type.encode())
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
                    names = [_text(name) for name in given]
                    break
            else:
                raise Refused(404, "there is nothing here: /openapi.json describes what there is")
        route = methods.get(method)
        if route is None:
            allowed = ", ".join(methods)
            raise Refused(405, f"this takes {allowed}, found {method}", ((b"allow", allowed.encode()),))
        return route, names

    # --- a request ------------------------------------------------------------------------------------------

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            file = self._files.get(scope["raw_path"])
            if file is not None and scope["method"] in ("GET", "HEAD"):
                await send({"type": "http.response.start", "status": 200, "headers": file.headers})
                await send({"type": "http.response.body", "body": file.body})
            else:
                await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    async def _http(self, scope: Message, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        headers = _Headers(scope["headers"])
        request_id = headers.request_id
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = f"{self._boot}-{next(self._numbers):x}".encode()
        route: _Route | None = None
        names: list[str] = []
        owner: str | None = None
        status, extra = 200, _NOTHING
        self._running += 1
        try:
            route, names = self._find(scope["method"], scope["raw_path"])
            owner = self._admit(route, headers, started)
            answer = await self._ask(route, names, scope, headers, receive)
            if isinstance(answer, Stream):
                return await self._send_stream(answer, route, request_id, receive, send)
            body = answer if isinstance(answer, bytes) else _encode(answer)
            content_type = route.content_type
        except Exception as error:
            refused = _refusal(error)
            status, extra, content_type = refused.status, refused.headers, _PROBLEM
            body = _encode(_problem(refused))
            if status == 500:
                trace = "".join(traceback.format_exception(error))
                log.write("error", event="failure", request_id=request_id.decode(), traceback=trace)
        finally:
            self._running -= 1
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [
                    (b"content-type", content_type),
                    (b"content-length", str(len(body)).encode()),
                    (b"x-request-id", request_id),
                    (b"cache-control", b"no-store"),
                    (b"x-content-type-options", b"nosniff"),
                    *extra,
                ],
            }
        )
        await send({"type": "http.response.body", "body": body})
        seconds = time.perf_counter() - started
        name = route.endpoint.path if route else "none"
        self.metrics.answered(name, status, seconds)
        if self._log_requests:
            fields = {"key": owner} if owner else {}
            if self._log_queries and names:
                fields["name"] = names[0]
            log.write(
                "info" if status < 500 else "error",
                event="request",
                request_id=request_id.decode(),
                method=scope["method"],
                path=name,
                status=status,
                seconds=round(seconds, 6),
                **fields,
            )

    async def _send_stream(
        self, stream: Stream, route: _Route, request_id: bytes, receive: Receive, send: Send
    ) -> None:
        """Send messages until whoever gets them is gone."""
        self.metrics.opened(route.endpoint.path)
        headers = [
            (b"content-type", route.content_type),
            (b"x-request-id", request_id),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),  # else proxies would keep messages until there are many
            (b"x-content-type-options", b"nosniff"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.create_task(_until_gone(receive))
        async with aclosing(stream.messages) as messages:
            async for message in messages:
                if gone.done():
                    break
                await send({"type": "http.response.body", "body": message, "more_body": True})
        gone.cancel()
        await send({"type": "http.response.body", "body": b""})

    def _admit(self, route: _Route, headers: _Headers, now: float) -> str | None:
        """Whose request it is, if it may come in."""
        if route.endpoint.open:
            return None
        if self._guard_browsers:
            _check_browser(headers)
        owner = None
        if self._keys:
            owner = self._keys.owner(headers.authorization)
            if owner is None:
                raise Refused(
                    401,
                    "an API key is needed, as the header Authorization: Bearer KEY",
                    ((b"www-authenticate", b"Bearer"),),
                )
        if self._rates is not None:
            wait = self._rates.wait(owner or "", now)
            if wait > 0:
                raise Refused(
                    429,
                    f"too many requests: try again in {wait:.3f} seconds",
                    ((b"retry-after", str(math.ceil(wait)).encode()),),
                )
        if self._running > MOST_REQUESTS:
            raise StoreError(f"{MOST_REQUESTS:,} requests are being answered already")
        return owner

    async def _ask(
        self, route: _Route, names: list[str], scope: Message, headers: _Headers, receive: Receive
    ) -> Any:
        handler = route.endpoint.handler
        if route.parameters is not None:
            return await handler(self.api, *names, _parameters(scope["query_string"], route.parameters))
        if scope["query_string"] and not route.endpoint.open:
            raise InputError("this takes no parameters in its address")
        if route.decode is None:
            return await handler(self.api, *names)
        body = await _read_body(headers, receive)
        if not body and route.empty is not None:
            return await handler(self.api, *names, route.empty)
        if headers.kind.partition(b";")[0].strip().lower() != _JSON:
            raise Refused(415, "the body must be JSON, with the header Content-Type: application/json")
        try:
            decoded = route.decode(body)
        except msgspec.ValidationError as error:
            raise Refused(422, f"the body must be as /openapi.json says: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(400, f"the body must be JSON: {error}") from None
        return await handler(self.api, *names, decoded)

    # --- from start to end ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Say from now on that this is not ready."""
        self.api.streams.stopping = True

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.api.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.stop()
        await self.api.close()
        await send({"type": "lifespan.shutdown.complete"})


def _text(encoded: bytes) -> str:
    try:
        return unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        raise Refused(404, "a name in an address must be UTF-8, percent-encoded") from None


def _parameters(query_string: bytes, kind: Any) -> Any:
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


async def _read_body(headers: _Headers, receive: Receive) -> bytes:
    length = headers.length
    if length and (not length.isdigit() or len(length) > 15 or int(length) > MOST_BYTES):
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
        if size > MOST_BYTES:
            raise _too_large()
    return b"".join(parts)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _patiently(receive: Receive) -> Message:
    try:
        async with asyncio.timeout(_SLOW_BODY):
            return await receive()
    except TimeoutError:
        raise Refused(
            408, f"the body did not arrive within {_SLOW_BODY:g} seconds", ((b"connection", b"close"),)
        ) from None


def _too_large() -> Refused:
    return Refused(413, f"a body may have at most {MOST_BYTES:,} bytes: send it in parts")


def _check_browser(headers: _Headers) -> None:
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


def _problem(refused: Refused) -> Problem:
    return Problem(HTTPStatus(refused.status).phrase, refused.status, refused.detail)


def _refusal(error: Exception) -> Refused:
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
