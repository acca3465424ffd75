"""The ranker for asyncio."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from clickbandit.live.answers import Operation, resolve
from clickbandit.live.engine import Engine
from clickbandit.live.inbox import Inbox
from clickbandit.live.methods import RankerMethods
from clickbandit.live.requests import RankRequest, Request
from clickbandit.live.settings import RankerSettings, by_keywords
from clickbandit.live.stores.contract import Part, Store
from clickbandit.live.values import Closed, Shown

T = TypeVar("T")


class AsyncRanker(RankerMethods):
    """`Ranker` for asyncio: the same arguments and methods, to be awaited.

    To construct one may take seconds (it compiles), so do that before the event loop serves anyone, or in a thread.
    """

    @by_keywords(RankerSettings)
    def __init__(self, store: str | Store, settings: RankerSettings) -> None:
        super().__init__(store, settings)
        self._asked: dict[asyncio.AbstractEventLoop, Asked] = {}

    def settle_part(self, part: Part) -> None:
        """Leave what is due of other queries to others, who share the store."""
        self._engine.part = part

    def open(self, inbox: Inbox) -> None:
        """Also do what comes there."""
        self._engine.open(inbox)

    def now(self) -> int:
        """Milliseconds since 1970."""
        return self._engine.clock.now()

    def disown(self, request: RankRequest, asked: int) -> None:
        """Void the list that another process has made for this since then, if it did: nobody sees it."""
        self._engine.strays.add(request.id, asked)

    async def limits(self) -> dict[str, float]:
        """How far behind settlement is, in seconds, and how much of what is counted there may be here."""
        due = await self._read(lambda reader: reader.next_due(), None)
        behind = 0 if due is None else max(self._engine.clock.now() - due, 0)
        settings = self._settings
        return {
            "overdue_seconds": behind / 1000,
            "max_queries": settings.max_queries,
            "max_learner_bytes": settings.memory * 2**20,
        }

    def given_order(self, request: RankRequest) -> Shown:
        """What `rank` gives when the store fails, at once."""
        shown = self._engine.given_order(request)
        self._engine.counts.add([shown])
        return shown

    async def _do(self, request: Request) -> Any:
        future = asyncio.get_running_loop().create_future()
        self.begin(request, future)
        return await future

    def begin(self, request: Request, waiting: Any) -> None:
        """Have the engine do something; in an event loop, where `waiting` then gets the result as a future does.

        All that is asked in one turn of the loop is handed over at its end, at once.
        """
        self.asked_here().add(request, waiting)

    def asked_here(self) -> "Asked":
        """What is asked in the running event loop, to which more can be added there."""
        loop = asyncio.get_running_loop()
        asked = self._asked.get(loop)
        if asked is None:
            asked = self._asked[loop] = Asked(loop, self._engine)
        return asked

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


class Asked:
    """What is asked in one event loop: handed over together, and the answers of a batch come back together."""

    def __init__(self, loop: asyncio.AbstractEventLoop, engine: Engine) -> None:
        self._loop = loop
        self._engine = engine
        self._operations: list[Operation] = []
        self._sink = self._deliver  # one object, by which answers are sorted

    def add(self, request: Request, waiting: Any) -> None:
        """See `AsyncRanker.begin`."""
        if not self._operations:
            self._loop.call_soon(self._hand_over)
        self._operations.append(Operation(request, waiting, self._sink))

    def _hand_over(self) -> None:
        operations, self._operations = self._operations, []
        try:
            self._engine.submit(operations)
        except Closed as error:
            resolve([(operation.future, error) for operation in operations])

    def _deliver(self, pairs: list[tuple[Any, Any]]) -> None:
        self._loop.call_soon_threadsafe(resolve, pairs)
