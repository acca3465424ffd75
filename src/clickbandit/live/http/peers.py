"""How the workers of one service ask each other, over a socket of each in a folder of theirs.

A query belongs to one of them (`Part`), which makes its lists: what is learned about it is then in one memory, and
nobody replays what another has done. That is for speed alone: the store keeps them consistent, and a worker that
cannot reach another in time does it by itself.
"""

import asyncio
import itertools
import logging
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from clickbandit.live.answers import resolve
from clickbandit.live.stores.contract import Part

PATIENCE = 0.5
"""Seconds that another may take to answer before it is left alone until it answers again."""
_LOOK = 0.25
_FRAME = struct.Struct("<IIB")
"""Before what is asked or answered: its length, the number of the question, and what it is about."""
PING, RANK, FIGURES, FAILED = range(4)
Message = tuple[int, int, bytes]
"""The number of a question, what it or its answer is about, and the content."""

log = logging.getLogger("clickbandit.live")


class Away(Exception):
    """Another worker does not answer, or cannot do what was asked."""


class _Wire(asyncio.Protocol):
    """One connection between two workers, seen from either end."""

    transport: asyncio.Transport

    def __init__(
        self,
        got: "Callable[[_Wire, list[Message]], None]",
        lost: "Callable[[_Wire], None]",
        made: "Callable[[_Wire], None]" = lambda wire: None,
    ) -> None:
        self._got, self._lost, self._made = got, lost, made
        self._received = b""
        self._unsent: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._made(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._lost(self)

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        messages: list[Message] = []
        at = 0
        while len(received) - at >= _FRAME.size:
            length, number, kind = _FRAME.unpack_from(received, at)
            begin, end = at + _FRAME.size, at + _FRAME.size + length
            if len(received) < end:
                break
            messages.append((number, kind, received[begin:end]))
            at = end
        self._received = received[at:]
        if messages:
            self._got(self, messages)

    def send(self, number: int, kind: int, content: bytes) -> None:
        """All that is sent in one turn of the event loop goes together."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent += (_FRAME.pack(len(content), number, kind), content)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if not self.transport.is_closing():
            self.transport.write(b"".join(unsent))


Answer = Callable[[int, bytes | None], None]
"""Answers the question of a number: None if that cannot be done, and the worker that asked will find out why."""
Handler = Callable[[Sequence[tuple[int, bytes]], Answer], None]
"""Takes the numbers of questions and what they say, and who is told the answers, then or later."""


class Peer:
    """Another worker, as one asks it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._wire: _Wire | None = None
        self._answers = False
        """Whether it answered since the connection was made."""
        self._waiting: dict[int, Any] = {}
        """Who waits for which answers."""
        self._oldest: tuple[int | None, float] = (None, 0.0)
        """What had waited longest at the last look, and since when that was so."""
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
        self._waiting[number] = waiting
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
        oldest, since = self._oldest
        longest = next(iter(self._waiting), None)
        if longest is None or longest != oldest:
            self._oldest = longest, loop.time()
        elif self._wire is not None and loop.time() - since > PATIENCE:
            self._end(self._wire)

    def _greeted(self, answer: "asyncio.Future[bytes]") -> None:
        self._answers = not answer.cancelled() and answer.exception() is None

    def _got(self, wire: _Wire, messages: list[Message]) -> None:
        resolve(
            [
                (waiting, Away() if kind == FAILED else content)
                for number, kind, content in messages
                if (waiting := self._waiting.pop(number, None)) is not None
            ]
        )

    def _end(self, wire: _Wire) -> None:
        wire.transport.abort()
        if wire is not self._wire:
            return
        left, self._waiting = self._waiting, {}
        self._wire, self._answers = None, False
        resolve([(waiting, Away()) for waiting in left.values()])

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
        self._handlers = {PING: _greet, **handlers}
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

    def _asked(self, wire: _Wire, messages: list[Message]) -> None:
        by_kind: dict[int, list[tuple[int, bytes]]] = {}
        for number, kind, content in messages:
            by_kind.setdefault(kind, []).append((number, content))
        for kind, questions in by_kind.items():
            answer = partial(_answer, wire, kind)
            try:
                self._handlers[kind](questions, answer)
            except Exception:
                log.exception("what another worker asked cannot be answered")
                for number, _ in questions:
                    answer(number, None)

    def close(self) -> None:
        self._looking.cancel()
        self._server.close()
        for wire in self._wires:
            wire.transport.abort()
        for peer in self.others.values():
            peer.close()


def _answer(wire: _Wire, kind: int, number: int, content: bytes | None) -> None:
    if content is None:
        wire.send(number, FAILED, b"")
    else:
        wire.send(number, kind, content)


def _greet(questions: Sequence[tuple[int, bytes]], answer: Answer) -> None:
    for number, _ in questions:
        answer(number, b"")
