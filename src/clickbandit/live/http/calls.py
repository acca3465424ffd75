"""Calls of the service over HTTP, tried again until a deadline, over connections that threads share."""

import http.client
import io
import socket
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from clickbandit.errors import InputError
from clickbandit.live.http.messages import ProblemDetails
from clickbandit.live.values import Conflict, LimitReached, StoreError, Unknown

_IDLE = 30.0
"""Seconds after which a connection is not used again; the service closes it after twice as many."""
_PAUSE = 0.05
"""Seconds before the second attempt; twice as many before each further one."""
_ERRORS: dict[int, type[InputError]] = {403: LimitReached, 404: Unknown, 409: Conflict}
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

T = TypeVar("T")


@dataclass
class Call:
    """What is asked of the service."""

    method: str
    path: str
    body: bytes = b""
    repeatable: bool = True
    unanswered: bool = False
    """Whether an attempt may have been done without an answer of the service."""


class Calls:
    """Makes calls of the service at a URL, each of at most about `timeout` seconds."""

    def __init__(self, url: str, key: str | None, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(
                f"a service must be http://HOST:PORT, such as http://127.0.0.1:8000, found {url!r}"
            )
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = timeout
        self._idle: deque[tuple[http.client.HTTPConnection, float]] = deque()

    def make(self, call: Call, kind: type[T]) -> T:
        """The answer of the service."""
        deadline = time.monotonic() + self._timeout
        pause = _PAUSE
        while True:
            try:
                answer = self._send(call, deadline)
                return msgspec.json.decode(answer, type=kind)
            except _UNREADABLE as error:
                call.unanswered = True
                raise StoreError(f"{self._host} answered, but not as the service does: {error}") from error
            except StoreError as error:
                if not error.retry or time.monotonic() + pause >= deadline:
                    raise
            time.sleep(pause)
            pause *= 2

    def _send(self, call: Call, deadline: float) -> bytes:
        connection = self._connection()
        sent = False
        try:
            if connection.sock is None:
                connection.timeout = _left(deadline)
                connection.connect()
            connection.sock.settimeout(_left(deadline))
            sent = True
            connection.request(call.method, self._prefix + call.path, call.body, self._headers)
            connection.sock.settimeout(_left(deadline))
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            call.unanswered |= sent
            raise StoreError(
                f"{self._host} did not answer: {type(error).__name__}: {error}",
                retry=call.repeatable or not sent,
            ) from error
        if response.will_close:
            connection.close()
        else:
            self._idle.append((connection, time.monotonic()))
        if response.status == 200:
            return answer
        raise _error(call, response.status, answer)

    def _connection(self) -> http.client.HTTPConnection:
        while self._idle:
            try:
                connection, used = self._idle.pop()
            except IndexError:  # another thread was quicker
                break
            if time.monotonic() - used < _IDLE:
                return connection
            connection.close()
        connection = self._kind(self._host, self._port)
        connection.response_class = _Response
        return connection

    def close(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            self._idle.pop()[0].close()


class _Response(http.client.HTTPResponse):
    """Has to be whole by the socket's timeout, which is otherwise that of each piece that comes."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_Pieces(self.fp.detach(), sock))


class _Pieces(io.RawIOBase):
    """What comes over a socket until its timeout is over."""

    def __init__(self, pieces: io.RawIOBase, sock: socket.socket) -> None:
        self._pieces = pieces
        self._sock = sock
        self._deadline = time.monotonic() + (sock.gettimeout() or 0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer was not whole in time")
        self._sock.settimeout(left)
        return self._pieces.readinto(buffer)

    def close(self) -> None:
        self._pieces.close()
        super().close()


def _left(deadline: float) -> float:
    """Seconds, for a socket, which would never wait for 0."""
    return max(deadline - time.monotonic(), 0.001)


def _error(call: Call, status: int, answer: bytes) -> InputError | StoreError:
    """What an answer that is no success means here."""
    try:
        detail = msgspec.json.decode(answer, type=ProblemDetails).detail
    except _UNREADABLE:  # of something between here and the service
        passed_on = not 300 <= status < 500  # perhaps
        call.unanswered |= passed_on
        text = answer[:200].decode(errors="replace")
        return StoreError(
            f"expected an answer of the service, found one of what is before it: HTTP status {status}: {text}",
            retry=passed_on and call.repeatable,
        )
    if status == 503:  # nothing was done
        return StoreError(detail, retry=call.repeatable)
    if status >= 500:
        call.unanswered = True
        return StoreError(detail, retry=call.repeatable)
    if status == 429:
        return StoreError(detail)
    return _ERRORS.get(status, InputError)(detail)
