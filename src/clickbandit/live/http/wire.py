"""What goes over a connection between two workers of a service: messages with a number, a kind and a content."""

import asyncio
import struct
from collections.abc import Callable

HELLO, RANK, FIGURES, FAILED = range(4)
"""Kinds: one that answers may be asked now (its number is 0); a list; what a worker did; what it cannot answer."""
Message = tuple[int, int, bytes]
"""The number of a question, what it or its answer is about, and the content."""
_FRAME = struct.Struct("<IIB")
"""Before a content: its length, the number, and the kind."""


class Away(Exception):
    """Another worker does not answer, or cannot do what was asked."""


class Unasked(Away):
    """It was not even asked."""


class Frames:
    """Bytes as they come, and the messages in them."""

    def __init__(self) -> None:
        self._received = b""

    def read(self, data: bytes) -> list[Message]:
        """Those that are whole now."""
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
        return messages


class Wire(asyncio.Protocol):
    """A connection, seen from either end."""

    transport: asyncio.Transport

    def __init__(
        self,
        got: "Callable[[Wire, list[Message]], None]",
        lost: "Callable[[Wire], None]",
        made: "Callable[[Wire], None]" = lambda wire: None,
    ) -> None:
        self._got, self._lost, self._made = got, lost, made
        self._frames = Frames()
        self._unsent: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._made(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._lost(self)

    def data_received(self, data: bytes) -> None:
        messages = self._frames.read(data)
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
