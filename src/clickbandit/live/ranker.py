"""The ranker that is embedded in a program: `Ranker` for threads, `AsyncRanker` for asyncio, with the same methods."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, cast, get_args

from clickbandit.errors import InputError
from clickbandit.live.algorithm import Algorithms
from clickbandit.live.batch import Rules
from clickbandit.live.engine import Engine, Operation
from clickbandit.live.requests import (
    Clicks,
    DetailRequest,
    FlushRequest,
    FreezeRequest,
    PingRequest,
    RankRequest,
    Request,
    ResetRequest,
    Settings,
    SettleRequest,
    VerifyRequest,
    VoidRequest,
    check_horizon,
    check_name,
    check_positions,
    click_request,
    parse_duration,
    rank_request,
)
from clickbandit.live.store import Listing, Reader, Store, open_store
from clickbandit.live.types import (
    MOST_NAME,
    Event,
    Operations,
    QueryDetail,
    QueryHistory,
    QueryPage,
    QuerySummary,
    Settlement,
    Shown,
    SortKey,
    State,
    Stats,
    Unknown,
    Verdict,
)
from clickbandit.live.views import delays as delays_view
from clickbandit.live.views import history as history_view
from clickbandit.live.views import holdout as holdout_view
from clickbandit.live.views import summary
from clickbandit.live.views import time as time_view
from clickbandit.policies.base import Policy

MOST_EVENTS = 10_000
"""Events in one call."""
MOST_PAGE = 1000
"""Queries on one page."""
_AMONG = 20_000
"""Of so many of the last impressions a query's last ones are looked for, and of so many events the delays: there is no
index for what only people look at."""
_RECENT = 12

log = logging.getLogger("clickbandit.live")


class _Core:
    """What both rankers share: requests are checked here, in the caller's thread."""

    def __init__(
        self,
        store: str | Store,
        *,
        policy: Policy | str = "batchrank",
        positions: int = 5,
        horizon: int = 1_000_000,
        window: str | float = "30m",
        holdout: float = 0.0,
        retention: str | float = "7d",
        patience: str | float = "2s",
        grace: int = 10,
        seed: int = 0,
        learners: int = 10_000,
        most_queries: int = 1_000_000,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if not 0 <= holdout <= 1:
            raise InputError(f"holdout must be a share from 0 to 1, found {holdout!r}")
        for name, value in (("grace", grace), ("learners", learners), ("most_queries", most_queries)):
            if value < 1:
                raise InputError(f"{name} must be at least 1, found {value!r}")
        self._window = parse_duration(window, "window")
        self._retention = parse_duration(retention, "retention")
        self._check_retention(self._window)
        self._algorithms = Algorithms()
        settings = Settings(
            self._algorithms.add(policy).name, check_positions(positions), check_horizon(horizon), None
        )
        self._settings = settings
        self._clock = clock or time.time
        self._store = open_store(store) if isinstance(store, str) else store
        for name in self._store.policies():
            try:
                self._algorithms.add(name)
            except InputError as error:
                log.error("queries that learn with %s cannot be served: %s", name, error)
        self._engine = Engine(
            self._store,
            self._algorithms,
            settings,
            Rules(self._window, holdout, grace, seed),
            retention=self._retention,
            patience=parse_duration(patience, "patience"),
            learners=learners,
            most_queries=most_queries,
            clock=self._clock,
        )
        self._closing = threading.Lock()
        self._closed = False
        self._reader: Reader | None = None
        self._readers = ThreadPoolExecutor(1, thread_name_prefix="clickbandit-live-reader")

    def _check_retention(self, window: int) -> None:
        if window > self._retention:
            raise InputError(
                "retention must be at least as long as the window, or clicks would have nowhere to go"
            )

    def rank_request(
        self,
        query: str,
        items: Sequence[str],
        positions: int | None,
        id: str | None,
        pinned: Mapping[str, int] | None,
        excluded: Collection[str],
    ) -> RankRequest:
        return rank_request(query, items, positions, id, pinned, excluded, self._new_id())

    def _new_id(self) -> str:
        """A name that no other impression has. It begins with the time, so that new ones stand together on disk."""
        return f"{int(self._clock() * 1000):012x}{os.urandom(10).hex()}"

    def click_requests(self, events: Sequence[Event | Mapping[str, Any]]) -> Clicks:
        if len(events) > MOST_EVENTS:
            raise InputError(f"at most {MOST_EVENTS:,} events can be given at once, found {len(events):,}")
        return Clicks(tuple(map(click_request, events)))

    def reset_request(
        self,
        query: str,
        policy: Policy | str | None,
        positions: int | None,
        horizon: int | None,
        window: str | float | None,
    ) -> ResetRequest:
        check_name(query, "query", MOST_NAME)
        own_window = None if window is None else parse_duration(window, "window")
        if own_window is not None:
            self._check_retention(own_window)
        default = self._settings
        return ResetRequest(
            query,
            Settings(
                default.policy if policy is None else self._algorithms.add(policy).name,
                default.positions if positions is None else check_positions(positions),
                default.horizon if horizon is None else check_horizon(horizon),
                own_window,
            ),
        )

    def submit(self, request: Request, future: Any, sink: Any) -> None:
        self._engine.submit(Operation(request, future, sink))

    def page(self, listing: Listing) -> QueryPage:
        """In the reader's thread."""
        if listing.sort not in get_args(SortKey):
            raise InputError(f"sort must be {', '.join(get_args(SortKey))}, found {listing.sort!r}")
        if listing.state not in (None, *get_args(State)):
            raise InputError(f"state must be {', '.join(get_args(State))}, found {listing.state!r}")
        if not 1 <= listing.limit <= MOST_PAGE or listing.offset < 0:
            raise InputError(
                f"a page has 1 to {MOST_PAGE:,} queries from 0 on, found {listing.limit} from {listing.offset}"
            )
        rows, total = self._open_reader().queries(listing)
        return QueryPage([summary(row) for row in rows], total)

    def history(self, query: str) -> QueryHistory:
        """In the reader's thread."""
        check_name(query, "query", MOST_NAME)
        reader = self._open_reader()
        found = reader.query(query)
        if found is None:
            raise Unknown(f"there is no query {query!r}")
        row, written = found
        return history_view(written, reader.recent(row.id, _AMONG, _RECENT))

    def operations(self) -> Operations:
        """In the reader's thread."""
        reader, counts = self._open_reader(), self._engine.counts
        oldest = reader.oldest()
        return Operations(
            window=self._window / 1000,
            retention=self._retention / 1000,
            oldest_at=None if oldest is None else time_view(oldest),
            store_bytes=reader.size(),
            pruned=counts.pruned,
            failures=counts.failures,
            events=dict(counts.events),
            delays=delays_view(reader.delays(_AMONG), self._window),
        )

    def totals(self) -> Stats:
        """In the reader's thread."""
        reader, counts = self._open_reader(), self._engine.counts
        totals = reader.totals()
        return Stats(
            *totals[:9],
            reader.states(),
            holdout_view(totals),
            reader.size(),
            ranked=dict(counts.ranked),
            events=dict(counts.events),
            failures=counts.failures,
            batches=counts.batches,
            operations=counts.operations,
            loaded=counts.loaded,
            learners=self._engine.n_learners,
            waiting=self._engine.waiting,
        )

    def _open_reader(self) -> Reader:
        if self._reader is None:
            self._reader = self._store.reader()
        return self._reader

    def read(self, function: Callable[[], Any]) -> "Future[Any]":
        return self._readers.submit(function)

    def close(self) -> None:
        with self._closing:
            self._engine.close()
            self._readers.shutdown(wait=True)
            if self._reader is not None:
                self._reader.close()
            if not self._closed:
                self._store.close()
            self._closed = True


class Ranker:
    """Learns from clicks, in this process: `rank` gives a list to show, `click` reports what was clicked.

    `store` says where everything is kept: `sqlite:///clicks.db` (a file in the working directory, for one process) or
    `postgresql://...` (any number of processes). The settings hold for queries that have none of their own (see
    `reset`); a query keeps the policy, positions and horizon that it started with. The horizon only sets the policy's
    constants: learning goes on past it. An impression settles when its `window` is over ("30m", "12h", "2d", or
    seconds). `holdout` is the share of impressions that are shown in the given order. After `retention` settled
    impressions and their events are forgotten, and with them the part of the log that a snapshot replaces. A list that
    the store does not answer for within `patience` is served in the order given. An item is taken for removed when
    `grace` requests in a row leave it out. At most `learners` queries are kept in memory, and
    `most_queries` in the store. `clock` gives the seconds since 1970.

    Its methods may be called from any number of threads; each returns when what it did is on disk.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Ranker(f"sqlite:///{folder}/clicks.db", positions=2) as ranker:
    ...     shown = ranker.rank("red shoes", ["A", "B", "C"])
    ...     verdicts = [ranker.click(shown.id, shown.items[0]).verdict for _ in range(2)]
    ...     settled = ranker.settle(shown.id)
    >>> len(shown.items), verdicts, settled.clicked == shown.items[:1]
    (2, ['accepted', 'duplicate'], True)
    """

    def __init__(
        self,
        store: str | Store,
        *,
        policy: Policy | str = "batchrank",
        positions: int = 5,
        horizon: int = 1_000_000,
        window: str | float = "30m",
        holdout: float = 0.0,
        retention: str | float = "7d",
        patience: str | float = "2s",
        grace: int = 10,
        seed: int = 0,
        learners: int = 10_000,
        most_queries: int = 1_000_000,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._core = _Core(
            store,
            policy=policy,
            positions=positions,
            horizon=horizon,
            window=window,
            holdout=holdout,
            retention=retention,
            patience=patience,
            grace=grace,
            seed=seed,
            learners=learners,
            most_queries=most_queries,
            clock=clock,
        )

    def _do(self, request: Request) -> Any:
        future: Future[Any] = Future()
        self._core.submit(request, future, _resolve)
        return future.result()

    def rank(
        self,
        query: str,
        items: Sequence[str],
        *,
        positions: int | None = None,
        id: str | None = None,
        pinned: Mapping[str, int] | None = None,
        excluded: Collection[str] = (),
    ) -> Shown:
        """A list to show for a query: some of `items`, the best known or one to learn from.

        `positions` may be given with the first request of a query. The same `id` again gives the same list, and with
        other arguments a `Conflict`. `pinned` items stand at their positions (counted from 1), `excluded` ones are
        not shown; such a list is not learned from unless the rules provably change nothing.
        """
        return cast(Shown, self._do(self._core.rank_request(query, items, positions, id, pinned, excluded)))

    def click(self, id: str, item: str, *, event_id: str | None = None) -> Verdict:
        """A click on an item of an impression. Without an `event_id`, repeating it changes nothing either."""
        return self.events([Event(id, item, event_id)])[0]

    def events(self, events: Sequence[Event | Mapping[str, Any]]) -> list[Verdict]:
        """Many clicks at once, a verdict for each; a bad one spoils nothing for the others."""
        return cast(list[Verdict], self._do(self._core.click_requests(events)))

    def settle(self, id: str) -> Settlement:
        """No more clicks of this impression will come: learn from those that did."""
        return cast(Settlement, self._do(SettleRequest(check_name(id, "id"))))

    def void(self, id: str) -> Settlement:
        """The impression was never shown, or its clicks were lost: its place in learning is given to another."""
        return cast(Settlement, self._do(VoidRequest(check_name(id, "id"))))

    def queries(
        self,
        *,
        search: str = "",
        state: State | None = None,
        sort: SortKey = "query",
        descending: bool = False,
        limit: int = 50,
        offset: int = 0,
        flush: bool = True,
    ) -> QueryPage:
        """The queries whose name contains `search`, in this state if there is one, sorted, some at a time."""
        if flush:
            self._do(FlushRequest())
        listing = Listing(search, state, sort, descending, limit, offset)
        return cast(QueryPage, self._core.read(lambda: self._core.page(listing)).result())

    def query(self, query: str) -> QueryDetail:
        """What has been learned about a query."""
        return cast(QueryDetail, self._do(DetailRequest(check_name(query, "query", MOST_NAME))))

    def history(self, query: str, *, flush: bool = True) -> QueryHistory:
        """How it came to be learned: how items were grouped over time, clicks over time, the last impressions."""
        if flush:
            self._do(FlushRequest())
        return cast(QueryHistory, self._core.read(lambda: self._core.history(query)).result())

    def freeze(self, query: str) -> QuerySummary:
        """From now on show the best list known, as it is now, and learn from none that is shown meanwhile."""
        return cast(QuerySummary, self._do(FreezeRequest(check_name(query, "query", MOST_NAME), True)))

    def unfreeze(self, query: str) -> QuerySummary:
        """Learn on from where it was."""
        return cast(QuerySummary, self._do(FreezeRequest(check_name(query, "query", MOST_NAME), False)))

    def reset(
        self,
        query: str,
        *,
        policy: Policy | str | None = None,
        positions: int | None = None,
        horizon: int | None = None,
        window: str | float | None = None,
    ) -> QuerySummary:
        """Start afresh, with these settings of the query's own, else with the ranker's; also before its first use."""
        request = self._core.reset_request(query, policy, positions, horizon, window)
        return cast(QuerySummary, self._do(request))

    def verify(self, query: str) -> bool:
        """Whether replaying the query's log from its beginning gives exactly the state that is in use."""
        return cast(bool, self._do(VerifyRequest(check_name(query, "query", MOST_NAME))))

    def stats(self, *, flush: bool = True) -> Stats:
        """Counts of everything; with `flush` once all that is due has settled."""
        if flush:
            self._do(FlushRequest())
        return cast(Stats, self._core.read(self._core.totals).result())

    def operations(self) -> Operations:
        """The store's size, what was forgotten, and how late clicks come."""
        return cast(Operations, self._core.read(self._core.operations).result())

    def ping(self) -> None:
        """Raise a `StoreError` unless the store works."""
        self._do(PingRequest())

    def close(self) -> None:
        """Finish what was begun and release the store. What is not settled stays so until the store is opened again."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncRanker:
    """`Ranker` for asyncio: the same arguments and methods, to be awaited.

    To construct one may take seconds (it compiles), so do that before the event loop serves anyone, or in a thread.
    """

    def __init__(
        self,
        store: str | Store,
        *,
        policy: Policy | str = "batchrank",
        positions: int = 5,
        horizon: int = 1_000_000,
        window: str | float = "30m",
        holdout: float = 0.0,
        retention: str | float = "7d",
        patience: str | float = "2s",
        grace: int = 10,
        seed: int = 0,
        learners: int = 10_000,
        most_queries: int = 1_000_000,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._core = _Core(
            store,
            policy=policy,
            positions=positions,
            horizon=horizon,
            window=window,
            holdout=holdout,
            retention=retention,
            patience=patience,
            grace=grace,
            seed=seed,
            learners=learners,
            most_queries=most_queries,
            clock=clock,
        )
        self._sinks: dict[asyncio.AbstractEventLoop, Any] = {}

    def _do(self, request: Request) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        sink = self._sinks.get(loop)
        if sink is None:
            sink = self._sinks[loop] = _LoopSink(loop)
        future = loop.create_future()
        self._core.submit(request, future, sink)
        return future

    async def rank(
        self,
        query: str,
        items: Sequence[str],
        *,
        positions: int | None = None,
        id: str | None = None,
        pinned: Mapping[str, int] | None = None,
        excluded: Collection[str] = (),
    ) -> Shown:
        request = self._core.rank_request(query, items, positions, id, pinned, excluded)
        return cast(Shown, await self._do(request))

    async def click(self, id: str, item: str, *, event_id: str | None = None) -> Verdict:
        return (await self.events([Event(id, item, event_id)]))[0]

    async def events(self, events: Sequence[Event | Mapping[str, Any]]) -> list[Verdict]:
        return cast(list[Verdict], await self._do(self._core.click_requests(events)))

    async def settle(self, id: str) -> Settlement:
        return cast(Settlement, await self._do(SettleRequest(check_name(id, "id"))))

    async def void(self, id: str) -> Settlement:
        return cast(Settlement, await self._do(VoidRequest(check_name(id, "id"))))

    async def queries(
        self,
        *,
        search: str = "",
        state: State | None = None,
        sort: SortKey = "query",
        descending: bool = False,
        limit: int = 50,
        offset: int = 0,
        flush: bool = True,
    ) -> QueryPage:
        if flush:
            await self._do(FlushRequest())
        listing = Listing(search, state, sort, descending, limit, offset)
        return cast(QueryPage, await asyncio.wrap_future(self._core.read(lambda: self._core.page(listing))))

    async def query(self, query: str) -> QueryDetail:
        return cast(QueryDetail, await self._do(DetailRequest(check_name(query, "query", MOST_NAME))))

    async def history(self, query: str, *, flush: bool = True) -> QueryHistory:
        if flush:
            await self._do(FlushRequest())
        return cast(
            QueryHistory, await asyncio.wrap_future(self._core.read(lambda: self._core.history(query)))
        )

    async def freeze(self, query: str) -> QuerySummary:
        return cast(QuerySummary, await self._do(FreezeRequest(check_name(query, "query", MOST_NAME), True)))

    async def unfreeze(self, query: str) -> QuerySummary:
        return cast(QuerySummary, await self._do(FreezeRequest(check_name(query, "query", MOST_NAME), False)))

    async def reset(
        self,
        query: str,
        *,
        policy: Policy | str | None = None,
        positions: int | None = None,
        horizon: int | None = None,
        window: str | float | None = None,
    ) -> QuerySummary:
        request = await asyncio.to_thread(  # a policy that is new here compiles
            self._core.reset_request, query, policy, positions, horizon, window
        )
        return cast(QuerySummary, await self._do(request))

    async def verify(self, query: str) -> bool:
        return cast(bool, await self._do(VerifyRequest(check_name(query, "query", MOST_NAME))))

    async def stats(self, *, flush: bool = True) -> Stats:
        if flush:
            await self._do(FlushRequest())
        return cast(Stats, await asyncio.wrap_future(self._core.read(self._core.totals)))

    async def operations(self) -> Operations:
        return cast(Operations, await asyncio.wrap_future(self._core.read(self._core.operations)))

    async def ping(self) -> None:
        await self._do(PingRequest())

    async def close(self) -> None:
        await asyncio.to_thread(self._core.close)

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
        self._loop.call_soon_threadsafe(_resolve, pairs)


def _resolve(pairs: list[tuple[Any, Any]]) -> None:
    for future, result in pairs:
        if future.done():  # whoever waited was cancelled, or answered by the watchman
            continue
        with suppress(InvalidStateError):  # at this very moment
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)
