"""The ranker for asyncio."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from clickbandit.live.answers import Operation, resolve
from clickbandit.live.methods import RankerMethods
from clickbandit.live.requests import Request, new_id, rank_request, with_scores
from clickbandit.live.settings import RankerSettings, by_keywords
from clickbandit.live.stores.contract import Part, Store
from clickbandit.live.values import Shown

T = TypeVar("T")


class AsyncRanker(RankerMethods):
    """`Ranker` for asyncio: the same arguments and methods, to be awaited.

    To construct one may take seconds (it compiles), so do that before the event loop serves anyone, or in a thread.
    """

    @by_keywords(RankerSettings)
    def __init__(self, store: str | Store, settings: RankerSettings) -> None:
        super().__init__(store, settings)
        self._sinks: dict[asyncio.AbstractEventLoop, _LoopSink] = {}

    def settle_part(self, part: Part) -> None:
        """Leave what is due of other queries to others, who share the store."""
        self._engine.part = part

    async def limits(self) -> dict[str, float]:
        """How far behind settlement is, in seconds, and how much of what is counted there may be here."""
        due = await self._read(lambda reader: reader.next_due(), False)
        behind = 0 if due is None else max(self._engine.clock.now() - due, 0)
        settings = self._settings
        return {
            "overdue_seconds": behind / 1000,
            "max_queries": settings.max_queries,
            "max_learner_bytes": settings.memory * 2**20,
        }

    def given_order(
        self,
        query: str,
        items: Sequence[str],
        *,
        positions: int | None = None,
        id: str | None = None,
        pinned: Mapping[str, int] | None = None,
        excluded: Collection[str] = (),
        user: str | None = None,
        scores: Sequence[float] | None = None,
    ) -> Shown:
        """What `rank` gives when the store fails, at once."""
        request = rank_request(query, items, positions, id, pinned, excluded, new_id(self._clock()))
        request = with_scores(request, scores)
        return self._engine.given_order(request)

    async def _do(self, request: Request) -> Any:
        loop = asyncio.get_running_loop()
        sink = self._sinks.get(loop)
        if sink is None:
            sink = self._sinks[loop] = _LoopSink(loop)
        future = loop.create_future()
        self._engine.submit(Operation(request, future, sink))
        return await future

    async def _wait(self, future: "Future[T]") -> T:
        return await asyncio.wrap_future(future)

    async def _work(self, function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _LoopSink:
    """Hands the answers of a batch to an event loop, all at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self, pairs: list[tuple[Any, Any]]) -> None:
        self._loop.call_soon_threadsafe(resolve, pairs)
