"""HTTP/1.1 over a connection: bytes to requests and answers to bytes, and nothing that one connection can do without
end. A request is admitted by its headers, and counts only once its body is there (docs/decisions/0010-service.md)."""

import asyncio
import math
from collections import deque
from contextlib import aclosing
from http import HTTPStatus

import httptools

from clickbandit.live.http.connections import UNKNOWN, Connections
from clickbandit.live.http.reading import HEADERS, MAX_BYTES, Headers, Request
from clickbandit.live.http.refusals import Refused
from clickbandit.live.http.service import Response
from clickbandit.live.http.stream import Stream

MAX_HEAD = 2**16
"""Bytes of a request before its body, between two pieces of that, and after it."""
MAX_DISCARDED = 2**24
"""Bytes of a refused body that are still read, since most clients look at the answer only after sending all of it."""
IDLE_SECONDS = 65.0
"""Between two requests; a little more than load balancers allow."""
HEAD_SECONDS = 10.0
BODY_SECONDS = 30.0
"""That a request may take to arrive, from its first byte and from the end of its headers on."""
WRITE_SECONDS, LAST_SECONDS = 30.0, 2.0
"""That an answer may wait to be read, and that it may when the service is stopped."""

_STATUS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Connection(asyncio.Protocol):
    """One connection. httptools calls the methods that begin with `on_`."""

    transport: asyncio.Transport

    def __init__(self, connections: Connections) -> None:
        self._all = connections
        self._parser = httptools.HttpRequestParser(self)
        self._head = 0
        """Bytes of the request at hand since the last that were its body's: a head, or what comes with chunks."""
        self._url = b""
        self._headers = Headers()
        self._proposed = b""
        """The head of a request that proposed another protocol, without that: the parser skips its body."""
        self._request: Request | None = None
        """Whose headers are there, while its body is awaited."""
        self._body = bytearray()  # not pieces, which take many times their bytes if they are small
        self.size = 0
        """Bytes of its body so far."""
        self._discarded = -1
        """Bytes read since the request was refused; -1 while it is not."""
        self._queue: deque[Request] = deque()
        self._paused = False
        """Whether nothing is read until there are fewer."""
        self._broken = False
        """Whether nothing that comes can be read any more."""
        self._task: asyncio.Task[None] | None = None
        self._whole = b""
        """What came last, if it may be a whole request."""
        self.answering = False
        self._writable = asyncio.Event()
        self._writable.set()
        self.deadline = math.inf

    # --- what happens to the connection ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._all.open[self] = None
        self._set_deadline(IDLE_SECONDS)
        if self._all.stopping or not self._all.make_room(self):
            self._refuse(Refused(503, "there are too many connections"))

    def connection_lost(self, error: Exception | None) -> None:
        self._all.open.pop(self, None)
        self._forget_body()
        self._writable.set()
        self._queue.clear()

    def pause_writing(self) -> None:
        self._writable.clear()
        self._set_deadline(LAST_SECONDS if self._all.stopping else WRITE_SECONDS)

    def hurry(self) -> None:
        """The service is stopped: end with the answer, soon if it waits to be read only, at once if there is none."""
        if not self.answering:
            self.drop()
        elif not self._writable.is_set():
            self._set_deadline(LAST_SECONDS)

    def resume_writing(self) -> None:
        self._writable.set()
        self.deadline = math.inf if self.answering else self._all.loop.time() + IDLE_SECONDS

    def data_received(self, data: bytes) -> None:
        if self._discarded >= 0:
            self._discarded += len(data)
            if self._discarded > MAX_DISCARDED:
                self.drop()
                return
        begun = self._request
        is_new = begun is None and self._head == 0
        may_be_whole = is_new and not self.answering and self._discarded < 0
        if may_be_whole and self._is_known(data):
            return
        self._whole = data if may_be_whole else b""
        self._head += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on(data, upgrade)
        except httptools.HttpParserError:
            self._refuse(Refused(400, "this is not HTTP/1.1"))
        if self._request is not None:
            if self._request is not begun:
                self._set_deadline(BODY_SECONDS)
        elif self._head and is_new and not self.answering:
            self._set_deadline(HEAD_SECONDS)
        if self._head > MAX_HEAD:
            self._refuse(Refused(431, f"headers, and trailers, may have at most {MAX_HEAD:,} bytes"))

    def _go_on(self, data: bytes, upgrade: httptools.HttpParserUpgrade) -> None:
        """Read on behind a proposal to speak something else, as if there had been none."""
        rest = memoryview(data)
        while self._proposed:
            rest = rest[upgrade.args[0] :]
            head, self._proposed = self._proposed, b""
            self._parser = httptools.HttpRequestParser(self)
            try:
                self._parser.feed_data(head)
                self._parser.feed_data(rest)
            except httptools.HttpParserUpgrade as another:
                upgrade = another
            except httptools.HttpParserError:
                self._refuse(Refused(400, "this is not HTTP/1.1"))

    def _without_proposal(self, method: str) -> bytes:
        """A head as it would have been."""
        lines = [f"{method} ".encode() + self._url + b" HTTP/" + self._parser.get_http_version().encode()]
        for name, attribute in HEADERS.items():
            value = getattr(self._headers, attribute)
            if value and name.islower() and attribute != "upgrade":
                lines.append(name + b": " + value)
        if not self._parser.should_keep_alive():
            lines.append(b"connection: close")
        return b"\r\n".join((*lines, b"", b""))

    def _is_known(self, data: bytes) -> bool:
        """Whether this is a whole request whose head is known, and so is being answered."""
        end = data.find(b"\r\n\r\n") + 4
        length, known = self._all.known.get(data[:end], UNKNOWN)
        if known is None or len(data) != length:
            return False
        request = known.again(data[end:])
        self._all.service.admit(request)
        self._begin(request)
        return True

    def time_out(self) -> None:
        if self._request is not None and self._discarded < 0 and not self.answering:
            self._refuse(Refused(408, f"the body did not arrive within {BODY_SECONDS:g} seconds"))
        self.drop()

    def drop(self) -> None:
        """Close, whatever is under way."""
        self._all.open.pop(self, None)
        self._forget_body()
        if self._writable.is_set():
            self.transport.close()  # what was written is sent
        else:
            self.transport.abort()

    def _set_deadline(self, seconds: float) -> None:
        self.deadline = self._all.loop.time() + seconds

    def _forget_body(self) -> None:
        self._all.waiting_bytes -= self.size
        self.size = 0
        self._body = bytearray()

    # --- from bytes to requests -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._head = self._head or 1  # it begins behind another request; how much is there is not known
        self._url, self._headers = b"", Headers()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        attribute = HEADERS.get(name) or HEADERS.get(name.lower())
        if attribute is not None:
            setattr(self._headers, attribute, value)

    def on_headers_complete(self) -> None:
        method = self._parser.get_method().decode("ascii")
        if self._headers.upgrade and self._parser.should_upgrade() and method != "CONNECT":
            self._proposed = self._without_proposal(method)
            return
        path, _, query_string = self._url.partition(b"?")
        request = self._request = Request(method, path, query_string, self._headers)
        self._head = 0
        refused = self._all.service.admit(request)
        if refused is not None and request.headers.has_body:
            self._refuse_body(request, refused)
        elif request.headers.expect and not self.answering:
            self._continue(request)

    def on_body(self, body: bytes) -> None:
        self._head = 0
        if self._discarded >= 0:
            return
        self._body += body
        self.size += len(body)
        self._all.waiting_bytes += len(body)
        if self.size > MAX_BYTES:
            assert self._request is not None
            self._refuse_body(self._request, self._all.service.too_large(self._request))
        else:
            self._all.bound_bodies(self)

    def on_message_complete(self) -> None:
        request, self._request = self._request, None
        self._head = 0
        if request is None:  # it is read again
            return
        if self._discarded >= 0:
            if not self.answering:
                self.drop()
            return
        request.body = bytes(self._body)
        request.keep_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        self._forget_body()
        if not self.answering:
            self._begin(request)
            if request.admitted is not None:
                self._all.remember(self._whole, request)
            return
        self._wait(request)

    def _refuse_body(self, request: Request, refused: Response) -> None:
        """Answer a request whose body is not there, in its turn; what comes after its headers is thrown away."""
        if self._discarded >= 0:
            return
        request.refused, request.keep_alive = refused, False
        self._discarded = 0
        self._forget_body()
        if self.answering:
            self._wait(request)
        else:
            self._begin(request)

    def _wait(self, request: Request) -> None:
        """Let a request wait for the answer before its own."""
        self._queue.append(request)
        if len(self._queue) > 1 or self._discarded >= 0:  # clients that do not wait for answers are made to
            self._paused = True
            self.transport.pause_reading()

    # --- from answers to bytes ------------------------------------------------------------------------------

    def _next(self) -> None:
        """Answer the next request, if there is one."""
        if self._queue:
            request = self._queue.popleft()
            if self._paused and not self._queue and not self._broken:
                self._paused = False
                self.transport.resume_reading()
            self._begin(request)
        else:
            self._rest()

    def _rest(self) -> None:
        """Wait for the next request, which may have begun to come."""
        self.answering = False
        seconds = HEAD_SECONDS if self._head else IDLE_SECONDS
        if self._request is not None:
            seconds = BODY_SECONDS
            self._continue(self._request)
        self.deadline = self._all.loop.time() + seconds

    def _begin(self, request: Request) -> None:
        if self._all.open.pop(self, self) is None:
            self._all.open[self] = None  # to the end
        self.deadline = math.inf
        self.answering = True
        if not self._all.service.begin(request, self._reply):
            self._task = self._all.loop.create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        response = await self._all.service.answer(request)
        if isinstance(response.body, Stream):
            await self._send_stream(response, response.body)
            self._end(close=True)
        else:
            close = self._closes(request)
            self._answer(request, response, close=close)
            await self._writable.wait()
            self._end(close)

    def _reply(self, request: Request, response: Response) -> None:
        """Send the answer to a request that had no task."""
        close = self._closes(request)
        self._answer(request, response, close=close)
        if self._writable.is_set():
            if close or self._queue or self.transport.is_closing():
                self._end(close)
            else:
                self._rest()
        else:
            self._task = self._all.loop.create_task(self._end_when_read(close))

    async def _end_when_read(self, close: bool) -> None:
        await self._writable.wait()
        self._end(close)

    def _closes(self, request: Request) -> bool:
        return not request.keep_alive or self._all.stopping or (self._broken and not self._queue)

    def _end(self, close: bool) -> None:
        """Go on after an answer."""
        self._task = None
        if self.transport.is_closing() or (close and not self._is_discarding()):
            self.answering = False
            self.drop()
        else:
            self._next()

    def _is_discarding(self) -> bool:
        """Whether the rest of a refused body is still to come."""
        return self._discarded >= 0 and self._request is not None and not (self._broken or self._all.stopping)

    def _answer(self, request: Request | None, response: Response, *, close: bool) -> None:
        status, headers, body = response
        assert isinstance(body, bytes)
        sent = b"" if request is not None and request.method == "HEAD" else body
        more = b"connection: close\r\n" if close else b""
        self._write(
            b"%b%b%b%bcontent-length: %d\r\n\r\n%b"
            % (_STATUS[status], self._all.date, headers, more, len(body), sent)
        )

    def _continue(self, request: Request) -> None:
        """Ask for a body if its sender waits to be asked."""
        if request.headers.expect.lower() == b"100-continue" and self._discarded < 0:
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _write(self, data: bytes) -> None:
        """Write unless the client has disconnected."""
        transport = self.transport
        if not transport.is_closing():
            transport.write(data)

    async def _send_stream(self, response: Response, stream: Stream) -> None:
        """Send messages until there are no more, or nobody reads them."""
        head = b"%b%b%btransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        self._write(head % (_STATUS[response.status], self._all.date, response.headers))
        async with aclosing(stream.messages) as messages:
            async for message in messages:
                await self._writable.wait()
                if self.transport.is_closing():
                    return
                self._write(b"%x\r\n%b\r\n" % (len(message), message))
        self._write(b"0\r\n\r\n")

    def _refuse(self, refused: Refused) -> None:
        """Say what is wrong, and close, after what was asked for before."""
        if self.answering:
            self._broken = True
            self.transport.pause_reading()
        elif not self.transport.is_closing():
            if self._discarded < 0:
                self._answer(None, self._all.service.refuse(refused), close=True)
            self.drop()
