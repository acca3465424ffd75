"""How the workers of one service ask each other, over sockets of each in a folder of theirs.

A query belongs to one of them (`Part`), which makes its lists: what is learned about it is then in one memory, and
nobody replays what another has done. That is for speed alone: the store keeps them consistent, and a worker that
cannot reach another in time does it by itself.
"""

import asyncio
import itertools
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from clickbandit.errors import InputError
from clickbandit.live.answers import resolve
from clickbandit.live.http.mailbox import Mailbox
from clickbandit.live.http.wire import FAILED, FIGURES, HELLO, Away, Message, Unasked, Wire
from clickbandit.live.stores.contract import Part

PATIENCE = 0.5
"""Seconds that another may take to answer before it is left alone until it says hello again."""
_LOOK = 0.125

log = logging.getLogger("clickbandit.live")


class Peer:
    """Another worker, as one asks it."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._wire: Wire | None = None
        self._answers = False
        """Whether it has said hello since the connection was made."""
        self._waiting: dict[int, Any] = {}
        """Who waits for which answers."""
        self._oldest: tuple[int | None, float] = (None, 0.0)
        """What had waited longest at the last look, and since when that was so."""
        self._numbers = itertools.count()

    def ask(self, kind: int, content: bytes, waiting: Any) -> None:
        """Ask; `waiting` gets what it answers as a future does, and an `Away` unless it does."""
        if self._answers and self._wire is not None:
            number = next(self._numbers) % (2**32 - 1) + 1
            self._waiting[number] = waiting
            self._wire.send(number, kind, content)
        else:
            waiting.set_exception(Unasked())

    async def look(self) -> None:
        """Connect if there is no connection, and end one on which nothing comes."""
        loop = asyncio.get_running_loop()
        oldest, since = self._oldest
        longest = next(iter(self._waiting), None)
        if self._wire is None:
            with suppress(OSError):
                _, self._wire = await loop.create_unix_connection(
                    lambda: Wire(self._got, self._end), self._path
                )
        elif longest is None or longest != oldest:
            self._oldest = longest, loop.time()
        elif loop.time() - since > PATIENCE:
            self._end(self._wire)

    def _got(self, wire: Wire, messages: list[Message]) -> None:
        answered = []
        for number, kind, content in messages:
            if kind == HELLO:
                self._answers = True
            elif (waiting := self._waiting.pop(number, None)) is not None:
                answered.append((waiting, Away() if kind == FAILED else content))
        resolve(answered)

    def _end(self, wire: Wire) -> None:
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
    """All workers of a service, as one of them sees them.

    Each has two sockets: one that its ranker's thread reads, for lists, and one for its figures, which its event loop
    tells also while that thread waits for the store.
    """

    def __init__(self, folder: str | Path, part: Part) -> None:
        self._folder = Path(folder)
        self.part = part
        numbers = [number for number in range(part.of) if number != part.number]
        self.others = {number: Peer(self._path(number)) for number in numbers}
        self.rankers = {number: Peer(self._path(number, "lists")) for number in numbers}
        """Of the others."""
        self._wires: set[Wire] = set()
        """On which others ask."""

    def _path(self, number: int, what: str = "figures") -> Path:
        return self._folder / f"{number}.{what}"

    def check(self) -> None:
        """Refuse a folder that cannot have sockets, as when its path is too long."""
        path = str(self._path(self.part.number))
        try:
            with socket.socket(socket.AF_UNIX) as tried:
                tried.bind(path)
        except OSError as error:
            raise InputError(
                f"several workers need sockets in the folder of temporary files, found {path}: {error}: set TMPDIR to "
                "another, such as /tmp"
            ) from None

    def of(self, query: str) -> Peer | None:
        """Who makes the lists of a query, unless it is one's own."""
        return self.rankers.get(self.part.owner(query))

    async def start(self, mailbox: Mailbox, figures: Callable[[], bytes]) -> None:
        """Answer the others, and find them."""

        def met(wire: Wire) -> None:
            self._wires.add(wire)
            wire.send(0, HELLO, b"")

        def asked(wire: Wire, messages: list[Message]) -> None:
            for number, _, _ in messages:
                try:
                    wire.send(number, FIGURES, figures())
                except Exception:
                    log.exception("the figures of this worker cannot be told")
                    wire.send(number, FAILED, b"")

        def connected(wire: Wire) -> None:
            self._wires.add(wire)
            mailbox.connected(wire)

        def lost(wire: Wire) -> None:
            self._wires.discard(wire)
            mailbox.lost(wire)

        self._servers = [
            await _listen(self._path(self.part.number), lambda: Wire(asked, self._wires.discard, met)),
            await _listen(
                self._path(self.part.number, "lists"), lambda: Wire(lambda wire, read: None, lost, connected)
            ),
        ]
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while True:
            for peer in (*self.others.values(), *self.rankers.values()):
                await peer.look()
            await asyncio.sleep(_LOOK)

    def close(self) -> None:
        self._looking.cancel()
        for server in self._servers:
            server.close()
        for wire in self._wires:
            wire.transport.abort()
        for peer in (*self.others.values(), *self.rankers.values()):
            peer.close()


async def _listen(path: Path, protocol: Callable[[], Wire]) -> asyncio.Server:
    with suppress(FileNotFoundError):
        os.unlink(path)  # of the one that had this number before
    return await asyncio.get_running_loop().create_unix_server(protocol, str(path))
