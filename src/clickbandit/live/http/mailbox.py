"""Lists that other workers ask for: the ranker's thread takes the requests out of the sockets by itself.

So nobody is woken for them while that thread works. What is asked meanwhile waits in a socket as it would in a queue.
"""

import asyncio
import logging
import os
import select
import socket
from collections import deque
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
    """What comes over one connection, for the ranker's thread alone but for `is_over`."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        # of its own, so that its number stays this one's
        self.socket = socket.socket(fileno=os.dup(wire.transport.get_extra_info("socket").fileno()))
        self.socket.setblocking(False)
        self.is_over = False
        """Whether the event loop knows that its connection has ended."""
        self._frames = Frames()

    def read(self) -> list[tuple[int, bytes]] | None:
        """The numbers and contents of questions; None if the connection is over: then nobody waits for the answers."""
        questions: list[tuple[int, bytes]] = []
        try:
            while not self.is_over and (data := self.socket.recv(_AT_ONCE)):
                questions += [(number, content) for number, _, content in self._frames.read(data)]
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
        self._left: dict[Wire, _Letters] = {}
        """What the event loop has left to the ranker's thread."""
        self._new: deque[_Letters] = deque()
        """What that thread has not seen of them."""
        self._letters: list[_Letters] = []
        """What it reads."""
        self._rung = self._sleeps = False
        self._bell, self._rope = os.pipe()
        self._ready = select.poll()
        self._ready.register(self._bell, select.POLLIN)
        self._sink = self._deliver  # one object, by which answers are sorted

    # --- in the event loop ----------------------------------------------------------------------------------

    def connected(self, wire: Wire) -> None:
        """Somebody may ask now: it is told so by the ranker's thread, and asks nothing before."""
        self._loop.call_soon(self._leave, wire)  # which reads it once this is over

    def _leave(self, wire: Wire) -> None:
        """Leave it to the ranker's thread."""
        if wire.transport.is_closing():
            return
        try:
            letters = self._left[wire] = _Letters(wire)
        except OSError as error:  # there are too many open files
            log.error("another worker cannot ask: %s", error)
            wire.transport.abort()
            return
        wire.transport.pause_reading()
        self._new.append(letters)
        self.ring()

    def lost(self, wire: Wire) -> None:
        """The connection is over."""
        letters = self._left.pop(wire, None)
        if letters is not None:
            letters.is_over = True
            self.ring()

    def _answer(self, pairs: Sequence[tuple[tuple[Wire, int], Any]]) -> None:
        for (wire, number), shown in pairs:
            try:
                made = isinstance(shown, Shown) and shown.source != "fallback"
                answer = _encode(self._listed(shown)) if made else None
            except Exception:
                log.exception("a list for another worker cannot be sent")
                answer = None
            if answer is None:  # the worker that asked will find out why
                wire.send(number, FAILED, b"")
            else:
                wire.send(number, RANK, answer)

    def close(self) -> None:
        """Once the ranker's thread has ended."""
        for letters in (*self._letters, *self._new):
            letters.socket.close()
        os.close(self._bell)
        os.close(self._rope)

    # --- in the ranker's thread -----------------------------------------------------------------------------

    def collect(self) -> list[Operation]:
        while self._new:
            letters = self._new.popleft()
            self._ready.register(letters.socket, select.POLLIN)
            self._letters.append(letters)
            self._tell(letters.wire.send, 0, HELLO, b"")
        operations = []
        for letters in list(self._letters):
            questions = letters.read()
            if questions is None:
                self._drop(letters)
                continue
            for number, content in questions:
                waiting = letters.wire, number
                try:
                    operations.append(Operation(read_request(content), waiting, self._sink, True))
                except Exception as error:
                    log.exception("what another worker asked for cannot be read")
                    self._deliver([(waiting, error)])
        return operations

    def turn_away(self) -> None:
        for letters in list(self._letters):
            self._drop(letters)

    def _drop(self, letters: _Letters) -> None:
        self._letters.remove(letters)
        self._ready.unregister(letters.socket)
        letters.socket.close()
        self._tell(letters.wire.transport.abort)

    def _deliver(self, pairs: list[tuple[Any, Any]]) -> None:
        self._tell(self._answer, pairs)

    def _tell(self, function: Callable[..., Any], *given: Any) -> None:
        """Have the event loop do something; if it is closed, nobody waits for that any more."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *given)

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
        if self._sleeps:  # `wait` looks at the ring after it has said so, and this the other way round
            self._sleeps = False
            os.write(self._rope, b"\0")
