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
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec

from clickbandit.errors import InputError
from clickbandit.live.async_ranker import AsyncRanker
from clickbandit.live.http import log
from clickbandit.live.http.auth import Keys, Rates
from clickbandit.live.http.endpoints import JSON, Api, Endpoint
from clickbandit.live.http.files import page_files
from clickbandit.live.http.metrics import Metrics
from clickbandit.live.http.openapi import document
from clickbandit.live.http.reading import (
    Headers,
    Message,
    Receive,
    check_browser,
    read_body,
    read_name,
    read_parameters,
)
from clickbandit.live.http.refusals import Refused, problem, refusal
from clickbandit.live.http.stream import Stream, Streams
from clickbandit.live.values import StoreError

MAX_REQUESTS = 1000
"""At the same time, so that memory is bounded when the store cannot keep up."""
_JSON = JSON.encode()
_PROBLEM = b"application/problem+json"
_REQUEST_ID = re.compile(rb"[\w.:/+=-]{1,100}", re.ASCII)
_NOTHING: tuple[tuple[bytes, bytes], ...] = ()

Send = Callable[[Message], Awaitable[None]]

_encode = msgspec.json.Encoder().encode


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
        self.api = api(ranker, self.metrics, Streams(lambda error: problem(refusal(error))))
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
        headers = Headers(scope["headers"])
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
            refused = refusal(error)
            status, extra, content_type = refused.status, refused.headers, _PROBLEM
            body = _encode(problem(refused))
            if status == 500:
                trace = "".join(traceback.format_exception(error))
                log.write("error", event="failure", request_id=request_id.decode(), traceback=trace)
        finally:
            self._running -= 1
        length = (b"content-length", str(len(body)).encode())
        start = {"status": status, "headers": [*_headers(content_type, request_id), length, *extra]}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": body})
        seconds = time.perf_counter() - started
        path = route.endpoint.path if route else "none"
        self.metrics.answered(path, status, seconds)
        if self._log_requests:
            fields = {"key": owner} if owner else {}
            if self._log_queries and names:
                fields["name"] = names[0]
            log.write(
                "info" if status < 500 else "error",
                event="request",
                request_id=request_id.decode(),
                method=scope["method"],
                path=path,
                status=status,
                seconds=round(seconds, 6),
                **fields,
            )

    async def _send_stream(
        self, stream: Stream, route: _Route, request_id: bytes, receive: Receive, send: Send
    ) -> None:
        """Send messages until whoever gets them is gone."""
        self.metrics.opened(route.endpoint.path)
        unbuffered = (b"x-accel-buffering", b"no")  # else proxies would keep messages until there are many
        headers = [*_headers(route.content_type, request_id), unbuffered]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.create_task(_until_gone(receive))
        async with aclosing(stream.messages) as messages:
            async for message in messages:
                if gone.done():
                    break
                await send({"type": "http.response.body", "body": message, "more_body": True})
        gone.cancel()
        await send({"type": "http.response.body", "body": b""})

    def _admit(self, route: _Route, headers: Headers, now: float) -> str | None:
        """Whose request it is, if it may come in."""
        if route.endpoint.open:
            return None
        if self._guard_browsers:
            check_browser(headers)
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
        if self._running > MAX_REQUESTS:
            raise StoreError(f"{MAX_REQUESTS:,} requests are being answered already")
        return owner

    async def _ask(
        self, route: _Route, names: list[str], scope: Message, headers: Headers, receive: Receive
    ) -> Any:
        handler = route.endpoint.handler
        if route.parameters is not None:
            return await handler(self.api, *names, read_parameters(scope["query_string"], route.parameters))
        if scope["query_string"] and not route.endpoint.open:
            raise InputError("this takes no parameters in its address")
        if route.decode is None:
            return await handler(self.api, *names)
        body = await read_body(headers, receive)
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


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _headers(content_type: bytes, request_id: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Of every answer."""
    return (
        (b"content-type", content_type),
        (b"x-request-id", request_id),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    )
