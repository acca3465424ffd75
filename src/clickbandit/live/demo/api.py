"""The service of the demo: all that the service has, with a crowd, and what sets it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from clickbandit.live.async_ranker import AsyncRanker
from clickbandit.live.demo.crowd import Crowd, DemoArm
from clickbandit.live.demo.messages import DemoList, DemoRow, DemoSettings, DemoState
from clickbandit.live.demo.queries import POSITIONS, QUERIES
from clickbandit.live.http.endpoint import endpoint
from clickbandit.live.http.endpoints import Api
from clickbandit.live.http.messages import StreamParameters
from clickbandit.live.http.metrics import Metrics
from clickbandit.live.http.stream import Streams
from clickbandit.live.values import Unknown

WINDOW = 2.0
"""Seconds: people in a hurry, so that the first split comes soon."""


class DemoApi(Api):
    """The endpoints of the demo."""

    def __init__(
        self,
        ranker: AsyncRanker,
        metrics: Metrics,
        streams: Streams,
        *,
        arms: Sequence[DemoArm],
        ready: Callable[[], None],
    ) -> None:
        super().__init__(ranker, metrics, streams)
        self.crowd = Crowd(ranker, metrics, arms)
        self._ready = ready
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        for arm in self.crowd.arms[1:]:
            for query in QUERIES:
                await self.ranker.reset(query.name + arm.suffix, policy=arm.policy)
        self._task = asyncio.create_task(self.crowd.run())
        self._ready()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await super().close()

    @endpoint("GET", "/v1/demo")
    async def demo(self) -> DemoState:
        """Say how people come, what they click with each policy, and which lists they see."""
        crowd = self.crowd
        names = [query.name + arm.suffix for query in QUERIES for arm in crowd.arms]
        lists = dict(zip(names, await asyncio.gather(*map(self._list, names)), strict=True))
        rows = [
            DemoRow(
                query.name,
                list(query.items[:POSITIONS]),
                [lists[query.name + arm.suffix] for arm in crowd.arms],
            )
            for query in QUERIES
        ]
        arms = [arm.state() for arm in crowd.arms]
        return DemoState(crowd.settings, WINDOW, arms, crowd.best.state(), rows)

    async def _list(self, name: str) -> DemoList:
        try:
            detail = await self.ranker.query(name)
        except Unknown:  # nobody has asked for it yet
            return DemoList(name, "exploring", [], 0)
        return DemoList(name, detail.summary.state, detail.best, detail.summary.learned)

    @endpoint("POST", "/v1/demo")
    async def set_demo(self, body: DemoSettings) -> DemoSettings:
        """Change how people come and click; what is left out is as at the start."""
        self.crowd.settings = body
        return body

    def view(self, parameters: StreamParameters) -> Callable[[], Awaitable[Any]]:
        return self.demo if parameters.view == "demo" else super().view(parameters)
