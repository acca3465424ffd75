"""A client of `tests.live.kill` whose requests are repeated, late and out of order."""

import json
import socket
from collections import deque
from typing import Any

from tests.live import kill


class Straying(kill.Client):
    """Sends some requests twice, on two connections at once, and old ones again: they are done in any order."""

    share = 0.15

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._past: deque[bytes] = deque(maxlen=50)
        self._strays: deque[socket.socket] = deque()
        self.strayed = False

    def ask(self, method: str, **arguments: Any) -> tuple[Any, bool]:
        sent = json.dumps([method, arguments]).encode() + b"\n"
        self.strayed = self.chance.random() < self.share
        if self.strayed:
            self._stray(sent)
            if self._past:
                self._stray(self.chance.choice(list(self._past)))
        self._past.append(sent)
        reply, again = super().ask(method, **arguments)
        return reply, again or self.strayed

    def _stray(self, sent: bytes) -> None:
        """Nobody waits for the reply."""
        raw = socket.socket(socket.AF_UNIX)
        raw.connect(self.chance.choice(self.paths))
        raw.sendall(sent)
        self._strays.append(raw)
        while len(self._strays) > 5:
            self._strays.popleft().close()
