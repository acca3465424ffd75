"""What the connections of a process share: limits, heads that came before, and an end."""

import asyncio
from email.utils import formatdate
from typing import Any, Protocol

from clickbandit.live.http import descriptors
from clickbandit.live.http.reading import Request
from clickbandit.live.http.service import Service

MAX_KNOWN, MAX_HEADS = 2**11, 2000
"""Bytes of a head that is remembered, and how many are."""
UNKNOWN = 0, None
MAX_CONNECTIONS = 5000
"""In one process, if it may have as many open files. For a further one, the connection that has gone longest without
a whole request is closed."""
MAX_WAITING = 2**26
"""Bytes in bodies that are not whole, of all connections; beyond that the oldest is closed."""


class One(Protocol):
    """A connection, as it is seen here."""

    answering: bool
    size: int
    """Bytes of a body that is not whole."""
    deadline: float

    def drop(self) -> None: ...

    def time_out(self) -> None: ...

    def hurry(self) -> None: ...


class Connections:
    """All connections of a process, and the limits that they share."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.loop = asyncio.get_running_loop()
        self.open: dict[One, None] = {}
        """Those that sent a whole request longest ago first."""
        self.waiting_bytes = 0
        self.stopping = False
        self.date = b""
        self.known: dict[bytes, tuple[int, Request]] = {}
        """Heads of requests that were let in, word for word: its length with the body, and a request that had it."""

    def remember(self, whole: bytes, request: Request) -> None:
        """The head of a request that came in one piece and was let in: others that have the same are not parsed."""
        head, body = whole[: len(whole) - len(request.body)], request.body
        if (
            len(head) <= MAX_KNOWN
            and whole.endswith(body)
            and head.find(b"\r\n\r\n") == len(head) - 4
            and request.headers.length == b"%d" % len(body)
            and not request.headers.encoding
            and not request.headers.expect
            and request.keep_alive
        ):
            if len(self.known) >= MAX_HEADS:
                self.known.clear()
            self.known[head] = len(whole), request.again(b"")

    def make_room(self, new: One) -> bool:
        """Whether there is room for another connection, or was made."""
        most = min(MAX_CONNECTIONS, descriptors.room())
        return len(self.open) <= most or self._drop(new, lambda other: True)

    def bound_bodies(self, newest: One) -> None:
        while self.waiting_bytes > MAX_WAITING and self._drop(newest, lambda other: other.size > 0):
            pass

    def _drop(self, spared: One, choose: Any) -> bool:
        for connection in self.open:
            if connection is not spared and not connection.answering and choose(connection):
                connection.drop()
                return True
        return False

    def look(self) -> None:
        """Once a second: close what took too long."""
        self.date = b"date: " + formatdate(usegmt=True).encode() + b"\r\n"
        self.service.look()
        now = self.loop.time()
        for connection in [one for one in self.open if one.deadline < now]:
            connection.time_out()

    def stop(self) -> None:
        """Let those go that ask for nothing; the others end with their answer."""
        self.stopping = True
        for connection in list(self.open):
            connection.hurry()

    def end(self) -> None:
        """Let all go: the event loop may never close while there is one."""
        for connection in list(self.open):
            connection.drop()

    @property
    def answering(self) -> bool:
        return any(connection.answering for connection in self.open)
