"""Lists that other workers ask for: the ranker's thread takes the requests out of the sockets by itself.

So nobody is woken for them while that thread works. What is asked meanwhile waits in a socket as it would in a queue.
"""

import asyncio
import logging
import os
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from clickbandit.live.answers import Operation
from clickbandit.live.http.elsewhere import read_request
from clickbandit.live.http.messages import RankAnswer
from clickbandit.live.http.wire import FAILED, HELLO, RANK, Frames, Wire
from clickbandit.live.values import Shown

_AT_ONCE = 2**16
"""Bytes."""
_encode = msgspec.json.Encoder().encode

log = logging.getLogger("clickbandit.live")


class _Letters:
    """What comes over one connection."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        # of its own, so that its number stays this one's
        self.socket = socket.socket(fileno=os.dup(wire.transport.get_extra_info("socket").fileno()))
        self.socket.setblocking(False)
        self.is_known = False
        """To the ranker's thread."""
        self._frames = Frames()

    def read(self) -> list[tuple[int, bytes]] | None:
        """The numbers and contents of questions; None if the connection is over."""
        questions = []
        try:
            while data := self.socket.recv(_AT_ONCE):
                questions += [(number, content) for number, _, content in self._frames.read(data)]
                if len(data) < _AT_ONCE:
                    return questions
        except BlockingIOError:
            return questions
        except OSError:
            pass
        return None


class Mailbox:
    """An `Inbox` for requests of other workers, made in the event loop that sends the answers."""

    def __init__(self, listed: Callable[[Shown], RankAnswer]) -> None:
        self._listed = listed
        self._loop = asyncio.get_running_loop()
        self._rung = self._sleeps = False
        self._bell, self._rope = os.pipe()
        self._ready = select.poll()
        self._ready.register(self._bell, select.POLLIN)
        self._letters: dict[Wire, _Letters] = {}
        self._sink = self._deliver  # one object, by which answers are sorted

    # --- in the event loop ----------------------------------------------------------------------------------

    def connected(self, wire: Wire) -> None:
        """Somebody may ask now: it is told so by the ranker's thread, and asks nothing before."""
        self._loop.call_soon(self._leave, wire)  # which reads it once this is over

    def _leave(self, wire: Wire) -> None:
        """Leave it to the ranker's thread."""
        if not wire.transport.is_closing():
            wire.transport.pause_reading()
            self._letters[wire] = _Letters(wire)
            self.ring()

    def lost(self, wire: Wire) -> None:
        """The connection is over: whoever reads it sees that too."""
        letters = self._letters.get(wire)
        if letters is not None:
            with suppress(OSError):
                letters.socket.shutdown(socket.SHUT_RDWR)

    def _answer(self, pairs: Sequence[tuple[tuple[Wire, int], Any]]) -> None:
        for (wire, number), shown in pairs:
            try:
                answer = _encode(self._listed(shown)) if isinstance(shown, Shown) else None
            except Exception:
                log.exception("a list for another worker cannot be sent")
                answer = None
            if answer is None:  # the worker that asked will find out why
                wire.send(number, FAILED, b"")
            else:
                wire.send(number, RANK, answer)

    def close(self) -> None:
        """Once the ranker's thread has ended."""
        for letters in self._letters.values():
            letters.socket.close()
        os.close(self._bell)
        os.close(self._rope)

    # --- in the ranker's thread -----------------------------------------------------------------------------

    def collect(self) -> list[Operation]:
        operations = []
        for wire, letters in list(self._letters.items()):
            if not letters.is_known:
                letters.is_known = True
                self._ready.register(letters.socket, select.POLLIN)
                self._loop.call_soon_threadsafe(wire.send, 0, HELLO, b"")
            questions = letters.read()
            if questions is None:
                self._ready.unregister(letters.socket)
                letters.socket.close()
                del self._letters[wire]
                self._loop.call_soon_threadsafe(wire.transport.abort)
                continue
            for number, content in questions:
                waiting = wire, number
                try:
                    operations.append(Operation(read_request(content), waiting, self._sink))
                except Exception as error:
                    log.exception("what another worker asked for cannot be read")
                    self._deliver([(waiting, error)])
        return operations

    def _deliver(self, pairs: list[tuple[Any, Any]]) -> None:
        self._loop.call_soon_threadsafe(self._answer, pairs)

    def wait(self, seconds: float) -> None:
        self._sleeps = True
        ready = [] if self._rung else self._ready.poll(seconds * 1000)
        self._sleeps = False
        if (self._bell, select.POLLIN) in ready:
            os.read(self._bell, _AT_ONCE)

    def heard(self) -> None:
        self._rung = False

    # --- in any thread --------------------------------------------------------------------------------------

    def ring(self) -> None:
        self._rung = True
        if self._sleeps:  # looked at after the ring, as that is after this
            os.write(self._rope, b"\0")
