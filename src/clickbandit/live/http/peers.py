"""How the workers of one service ask each other, over a socket of each in a folder of theirs.

A query belongs to one of them (`Part`), which makes its lists: what is learned about it is then in one memory, and
nobody replays what another has done. That is for speed alone: the store keeps them consistent, and a worker that
cannot reach another in time does it by itself.
"""

import asyncio
import itertools
import os
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

from clickbandit.live.stores.contract import Part

PATIENCE = 0.5
"""Seconds that another may take to answer before it is left alone until it answers again."""
_LOOK = 0.25
_FRAME = struct.Struct("<IIB")
"""Before what is asked or answered: its length, the number of the question, and what it is about."""
PING, RANK, FIGURES, FAILED = range(4)

Handler = Callable[[bytes], Awaitable[bytes]]


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
        if not self.transport.is_closing():
            self.transport.write(_FRAME.pack(len(content), number, kind) + content)


class Peer:
    """Another worker, as one asks it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._wire: _Wire | None = None
        self._answers = False
        """Whether it answered since the connection was made."""
        self._waiting: dict[int, tuple[asyncio.Future[bytes], float]] = {}
        self._numbers = itertools.count(1)

    async def ask(self, kind: int, content: bytes = b"") -> bytes:
        """What it answers; an `Away` unless it does."""
        if not self._answers:
            raise Away
        return await self._send(kind, content)

    def _send(self, kind: int, content: bytes) -> "asyncio.Future[bytes]":
        assert self._wire is not None
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()
        number = next(self._numbers) % 2**32
        self._waiting[number] = (future, loop.time())
        self._wire.send(number, kind, content)
        return future

    async def look(self) -> None:
        """Connect if there is no connection, and end one on which nothing comes."""
        loop = asyncio.get_running_loop()
        if self._wire is None:
            with suppress(OSError):
                _, self._wire = await loop.create_unix_connection(
                    lambda: _Wire(self._got, self._end), self._path
                )
                self._send(PING, b"").add_done_callback(self._greeted)
        elif self._waiting and loop.time() - next(iter(self._waiting.values()))[1] > PATIENCE:
            self._end(self._wire)

    def _greeted(self, answer: "asyncio.Future[bytes]") -> None:
        self._answers = not answer.cancelled() and answer.exception() is None

    def _got(self, wire: _Wire, number: int, kind: int, content: bytes) -> None:
        future, _ = self._waiting.pop(number, (None, 0.0))
        if future is not None and not future.done():
            if kind == FAILED:
                future.set_exception(Away())
            else:
                future.set_result(content)

    def _end(self, wire: _Wire) -> None:
        wire.transport.abort()
        if wire is not self._wire:
            return
        waiting, self._waiting = self._waiting, {}
        self._wire, self._answers = None, False
        for future, _ in waiting.values():
            if not future.done():
                future.set_exception(Away())

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
        self._tasks: set[asyncio.Task[None]] = set()
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
        self._run(self._look())

    async def _look(self) -> None:
        while True:
            for peer in self.others.values():
                await peer.look()
            await asyncio.sleep(_LOOK)

    def _run(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _asked(self, wire: _Wire, number: int, kind: int, content: bytes) -> None:
        if kind == PING:
            wire.send(number, PING, b"")
        else:
            self._run(self._answer(wire, number, kind, content))

    async def _answer(self, wire: _Wire, number: int, kind: int, content: bytes) -> None:
        try:
            answer = await self._handlers[kind](content)
        except Exception:  # the worker that asked will find out by itself what is wrong
            kind, answer = FAILED, b""
        wire.send(number, kind, answer)

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        self._server.close()
        for wire in self._wires:
            wire.transport.abort()
        for peer in self.others.values():
            peer.close()
