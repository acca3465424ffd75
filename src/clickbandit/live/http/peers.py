"""How the workers of one service ask each other, over a socket of each in a folder of theirs.

A query belongs to one of them (`Part`), which makes its lists: what is learned about it is then in one memory, and
nobody replays what another has done. That is for speed alone: the store keeps them consistent, and a worker that
cannot reach another in time does it by itself.
"""

import asyncio
import itertools
import os
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from clickbandit.live.stores.contract import Part

PATIENCE = 0.5
"""Seconds that another may take to answer before it is left alone until it answers again."""
_LOOK = 0.25
_FRAME = struct.Struct("<IIB")
"""Before what is asked or answered: its length, the number of the question, and what it is about."""
PING, RANK, FIGURES, FAILED = range(4)


class Away(Exception):
    """Another worker does not answer, or cannot do what was asked."""


class _Wire(asyncio.Protocol):
    """One connection between two workers, seen from either end."""

    transport: asyncio.Transport

    def __init__(
        self,
        got: "Callable[[_Wire, int, int, bytes], None]",
        lost: "Callable[[_Wire], None]",
        made: "Callable[[_Wire], None]" = lambda wire: None,
    ) -> None:
        self._got, self._lost, self._made = got, lost, made
        self._received = bytearray()
        self._unsent: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._made(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._lost(self)

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        at = 0
        while len(received) - at >= _FRAME.size:
            length, number, kind = _FRAME.unpack_from(received, at)
            end = at + _FRAME.size + length
            if len(received) < end:
                break
            self._got(self, number, kind, bytes(received[at + _FRAME.size : end]))
            at = end
        del received[:at]

    def send(self, number: int, kind: int, content: bytes) -> None:
        """All that is sent in one turn of the event loop goes together."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent += (_FRAME.pack(len(content), number, kind), content)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if not self.transport.is_closing():
            self.transport.write(b"".join(unsent))


class Question:
    """What another worker asked: gets the answer as a future does."""

    __slots__ = ("_kind", "_number", "_wire")

    def __init__(self, wire: _Wire, number: int, kind: int) -> None:
        self._wire = wire
        self._number = number
        self._kind = kind

    def done(self) -> bool:
        return self._wire.transport.is_closing()

    def set_result(self, answer: bytes) -> None:
        self._wire.send(self._number, self._kind, answer)

    def set_exception(self, error: BaseException) -> None:
        """The worker that asked will find out by itself what is wrong."""
        self._wire.send(self._number, FAILED, b"")


Handler = Callable[[bytes, Question], None]


class Peer:
    """Another worker, as one asks it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._wire: _Wire | None = None
        self._answers = False
        """Whether it answered since the connection was made."""
        self._waiting: dict[int, tuple[Any, float]] = {}
        """Who waits for which answers, and since when."""
        self._numbers = itertools.count(1)

    def ask(self, kind: int, content: bytes, waiting: Any) -> None:
        """Ask; `waiting` gets what it answers as a future does, and an `Away` unless it does."""
        if self._answers:
            self._send(kind, content, waiting)
        else:
            waiting.set_exception(Away())

    def _send(self, kind: int, content: bytes, waiting: Any) -> None:
        assert self._wire is not None
        number = next(self._numbers) % 2**32
        self._waiting[number] = (waiting, asyncio.get_running_loop().time())
        self._wire.send(number, kind, content)

    async def look(self) -> None:
        """Connect if there is no connection, and end one on which nothing comes."""
        loop = asyncio.get_running_loop()
        if self._wire is None:
            with suppress(OSError):
                _, self._wire = await loop.create_unix_connection(
                    lambda: _Wire(self._got, self._end), self._path
                )
                greeted: asyncio.Future[bytes] = loop.create_future()
                greeted.add_done_callback(self._greeted)
                self._send(PING, b"", greeted)
        elif self._waiting and loop.time() - next(iter(self._waiting.values()))[1] > PATIENCE:
            self._end(self._wire)

    def _greeted(self, answer: "asyncio.Future[bytes]") -> None:
        self._answers = not answer.cancelled() and answer.exception() is None

    def _got(self, wire: _Wire, number: int, kind: int, content: bytes) -> None:
        waiting, _ = self._waiting.pop(number, (None, 0.0))
        if waiting is not None and not waiting.done():
            if kind == FAILED:
                waiting.set_exception(Away())
            else:
                waiting.set_result(content)

    def _end(self, wire: _Wire) -> None:
        wire.transport.abort()
        if wire is not self._wire:
            return
        left, self._waiting = self._waiting, {}
        self._wire, self._answers = None, False
        for waiting, _ in left.values():
            if not waiting.done():
                waiting.set_exception(Away())

    def close(self) -> None:
        if self._wire is not None:
            self._end(self._wire)


class Peers:
    """All workers of a service, as one of them sees them."""

    def __init__(self, folder: str | Path, part: Part) -> None:
        self._folder = Path(folder)
        self.part = part
        self.others = {
            number: Peer(str(self._folder / str(number)))
            for number in range(part.of)
            if number != part.number
        }
        self._wires: set[_Wire] = set()
        """On which others ask."""

    def of(self, query: str) -> Peer | None:
        """Whose query it is, unless it is one's own."""
        return self.others.get(self.part.owner(query))

    async def start(self, handlers: Mapping[int, Handler]) -> None:
        """Answer the others, and find them."""
        self._handlers = handlers
        path = self._folder / str(self.part.number)
        with suppress(FileNotFoundError):
            os.unlink(path)  # of the one that had this number before
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            lambda: _Wire(self._asked, self._wires.discard, self._wires.add), str(path)
        )
        self._looking = loop.create_task(self._look())

    async def _look(self) -> None:
        while True:
            for peer in self.others.values():
                await peer.look()
            await asyncio.sleep(_LOOK)

    def _asked(self, wire: _Wire, number: int, kind: int, content: bytes) -> None:
        question = Question(wire, number, kind)
        if kind == PING:
            question.set_result(b"")
            return
        try:
            self._handlers[kind](content, question)
        except Exception as error:
            question.set_exception(error)

    def close(self) -> None:
        self._looking.cancel()
        self._server.close()
        for wire in self._wires:
            wire.transport.abort()
        for peer in self.others.values():
            peer.close()
