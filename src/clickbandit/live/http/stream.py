"""What open pages show, once a second, worked out once for all who look at the same.

Server-sent events: each message is the whole of what a view shows, so that a page that missed some needs only the next.
"""

import asyncio
import time
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from clickbandit.live.http import log
from clickbandit.live.values import StoreError

MAX_STREAMS = 100
"""In one process."""
_MIN_INTERVAL = 1.0
"""Seconds between two messages at least."""
_SHARE, _MAX_SHARE = 0.01, 0.05
"""Of the time that may go into working out one view: what takes long is shown less often."""
_MAX_PAUSE = 4.0
"""Seconds after which it is shown again even if that takes more than the first share, but never more than the other."""
_ALIVE = b":\n\n"
"""Says that the connection is there, when there is nothing else to say."""

_encode = msgspec.json.Encoder().encode


class Stream:
    """Messages to one viewer, for as long as it is there."""

    def __init__(self, messages: AsyncGenerator[bytes, None]) -> None:
        self.messages = messages

    def as_long_as(self, allowed: Callable[[], bool]) -> "Stream":
        """The same, which ends before the first message that is not allowed."""
        return Stream(_as_long_as(allowed, self.messages))


class _View:
    """What some look at."""

    def __init__(self) -> None:
        self.viewers = 0
        self.number = 0
        self.message = b""
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def show(self, message: bytes) -> None:
        self.message = message
        self.number += 1
        self.changed.set()
        self.changed = asyncio.Event()


class Streams:
    """All views that are open."""

    def __init__(self, problem: Callable[[Exception], Any]) -> None:
        self._problem = problem
        """What to send when something fails."""
        self._views: dict[Any, _View] = {}
        self._open = 0
        self.stopping = False

    def open(self, key: Any, work_out: Callable[[], Awaitable[Any]]) -> Stream:
        """Follow what `work_out` gives; the same key is the same view."""
        if self._open >= MAX_STREAMS:
            raise StoreError(f"{MAX_STREAMS} pages are open already")
        return Stream(self._follow(key, work_out))

    async def _follow(self, key: Any, work_out: Callable[[], Awaitable[Any]]) -> AsyncGenerator[bytes, None]:
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = _View()
            view.task = asyncio.create_task(self._work(view, work_out))
        view.viewers += 1
        self._open += 1
        try:
            seen = 0
            while not self.stopping:
                if view.number > seen:
                    seen = view.number
                    yield view.message
                else:
                    changed = view.changed
                    try:
                        async with asyncio.timeout(_MIN_INTERVAL):
                            await changed.wait()
                    except TimeoutError:
                        yield _ALIVE
        finally:
            self._open -= 1
            view.viewers -= 1
            if view.viewers == 0:
                assert view.task is not None
                view.task.cancel()
                del self._views[key]

    async def _work(self, view: _View, work_out: Callable[[], Awaitable[Any]]) -> None:
        while True:
            started = time.perf_counter()
            try:
                message = b"data: " + _encode(await work_out()) + b"\n\n"
            except Exception as error:
                told = self._problem(error)
                if told.status == 500:
                    log.write("error", event="failure", traceback="".join(traceback.format_exception(error)))
                message = b"event: problem\ndata: " + _encode(told) + b"\n\n"
            view.show(message)
            took = time.perf_counter() - started
            await asyncio.sleep(pause(took))


async def _as_long_as(
    allowed: Callable[[], bool], messages: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    async with aclosing(messages):
        async for message in messages:
            if not allowed():
                return
            yield message


def pause(took: float) -> float:
    """How long a view that took so many seconds stays as it is.

    >>> [round(pause(took), 1) for took in (0.001, 0.02, 0.1, 1.0)]
    [1.0, 2.0, 4.0, 20.0]
    """
    return max(_MIN_INTERVAL - took, min(took / _SHARE, _MAX_PAUSE), took / _MAX_SHARE)
