"""The methods of a ranker, once: `AsyncRanker` has them as they are, `Ranker` runs each to its end."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, TypeVar, cast

from clickbandit.errors import InputError
from clickbandit.live.algorithm import Algorithms
from clickbandit.live.answers import Operation, resolve
from clickbandit.live.asking import for_events, for_list
from clickbandit.live.best import best_included
from clickbandit.live.checking import Check, Rounds
from clickbandit.live.comparison import certainty, freezing, holdouts
from clickbandit.live.engine import Engine
from clickbandit.live.export import archived
from clickbandit.live.past import QueryHistory
from clickbandit.live.requests import (
    DeleteRequest,
    DetailRequest,
    FlushRequest,
    ForgetRequest,
    FreezeRequest,
    InUse,
    PingRequest,
    QuerySettings,
    Request,
    ResetRequest,
    SettleRequest,
    StateRequest,
    VoidRequest,
    check_horizon,
    check_name,
    check_new_query,
    check_positions,
    check_query,
    parse_duration,
)
from clickbandit.live.settings import RankerSettings
from clickbandit.live.stores import open_store
from clickbandit.live.stores.contract import Store
from clickbandit.live.stores.reading import Listing, Reader
from clickbandit.live.values import (
    Event,
    Include,
    Operations,
    Preview,
    QueryDetail,
    QueryPage,
    QuerySummary,
    Settlement,
    Shown,
    SortKey,
    State,
    Stats,
    StoreError,
    Verdict,
)
from clickbandit.live.views import MAX_INCLUDED, MAX_SCANNED
from clickbandit.live.views import delays as delays_view
from clickbandit.live.views import history as history_view
from clickbandit.live.views import page as page_view
from clickbandit.live.views import time as time_view
from clickbandit.policies.base import Policy

log = logging.getLogger("clickbandit.live")
T = TypeVar("T")


class RankerMethods(ABC):
    """Checks requests in the caller's thread, has the engine do them, and reads for people in a thread of its own."""

    def __init__(self, store: str | Store, settings: RankerSettings) -> None:
        self._settings = settings
        self._clock = settings.clock or time.time
        self._algorithms = Algorithms()
        policy = self._algorithms.add(_within(settings)).name
        self._of_new_queries = QuerySettings(policy, settings.positions, settings.horizon, None)
        self._store = archived(open_store(store) if isinstance(store, str) else store, settings.archive)
        self._engine = Engine(
            self._store, self._algorithms, self._of_new_queries, settings, self._load_policies
        )
        self._closing = Lock()
        self._closed = False
        self._reader: Reader | None = None
        self._readers = ThreadPoolExecutor(1, thread_name_prefix="clickbandit-live-reader")
        self._rounds = Rounds(
            self._algorithms, self._submit_read, self._submit, self._engine.learners.found_damage
        )

    def _load_policies(self) -> None:
        """Compile what the queries in the store learn with, so that no request has to wait for it."""
        for name in self._store.policies():
            try:
                self._algorithms.add(name)
            except InputError as error:
                log.error("queries that learn with %s cannot be served: %s", name, error)

    @abstractmethod
    async def _do(self, request: Request) -> Any:
        """What the engine answers."""

    @abstractmethod
    async def _wait(self, future: "Future[T]") -> T:
        """What another thread answers."""

    @abstractmethod
    async def _work(self, function: Callable[[], T]) -> T:
        """What takes a while, without keeping an event loop from its work."""

    async def rank(
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
        features: Sequence[Sequence[float]] | None = None,
        context: Sequence[float] | None = None,
    ) -> Shown:
        """A list to show for a query: some of `items`, the best known or one to learn from.

        `positions` may be given with the first request of a query. The same `id` again gives the same list, and with
        other arguments a `Conflict`. `pinned` items stand at their positions (counted from 1), `excluded` ones are
        not shown; such a list is not learned from unless the rules provably change nothing. `user` says who sees it,
        for `forget`. `scores`, one for each item, are what a query starts from, calibrated over all queries, when this
        is its first request; without them the `prior` of the ranker is. `features`, a row of numbers for each item, and
        `context`, numbers that are the same for all of them, are what it starts from once clicks on the items of other
        queries with as many have said what these are worth.
        """
        request = for_list(
            self._clock(),
            query,
            items,
            positions=positions,
            id=id,
            pinned=pinned,
            excluded=excluded,
            user=user,
            scores=scores,
            features=features,
            context=context,
        )
        return cast(Shown, await self._do(request))

    async def click(self, id: str, item: str, *, event_id: str | None = None) -> Verdict:
        """A click on an item of an impression. Without an `event_id`, repeating it changes nothing either."""
        return (await self.events([Event(id, item, event_id)]))[0]

    async def events(self, events: Sequence[Event | Mapping[str, Any]]) -> list[Verdict]:
        """Many clicks at once, a verdict for each; a bad one does not affect the others."""
        return cast(list[Verdict], await self._do(for_events(events)))

    async def settle(self, id: str) -> Settlement:
        """No more clicks of this impression will come: learn from those that did."""
        return cast(Settlement, await self._do(SettleRequest(check_name(id, "id"))))

    async def void(self, id: str) -> Settlement:
        """The impression was never shown, or its clicks were lost: its place in learning is given to another."""
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
        include: Include | None = None,
    ) -> QueryPage:
        """The queries whose name contains `search`, in this state if there is one, sorted, some at a time.

        With `include="best"` each has the best list known and how sure its policy is of it, which takes a while; no
        more than 100 then, whatever the limit.
        """
        return await self.listed(Listing(search, state, sort, descending, limit, offset), include)

    async def listed(
        self, listing: Listing, include: Include | None = None, *, flush: bool | None = True
    ) -> QueryPage:
        """Some of the queries; see `_read` about `flush`."""
        if include not in (None, "best"):
            raise InputError(f"include must be best, or left out, found {include!r}")
        if include is not None:
            listing = listing._replace(limit=min(listing.limit, MAX_INCLUDED))
        found = await self._read(lambda reader: page_view(reader, listing), flush)
        if include is None:
            return found
        with_best = [
            await self._read(partial(best_included, found=one, algorithms=self._algorithms), None)
            for one in found.queries  # each for itself, so that others can read in between
        ]
        return QueryPage(with_best, found.total)

    async def query(self, query: str) -> QueryDetail:
        """What has been learned about a query."""
        detail = cast(QueryDetail, await self._do(DetailRequest(check_query(query))))
        compared = await self._read(lambda reader: self._holdouts(reader, query), None)
        sure = certainty(detail.learned, detail.best)
        advice = freezing(detail.summary, sure, compared["holdout"], compared["holdout_week"])
        return replace(detail, **compared, freezing=advice, rewards=self._settings.rewards)

    async def history(self, query: str, *, flush: bool | None = True) -> QueryHistory:
        """How it learned: how items were grouped over time, clicks over time, the last impressions."""
        return await self._read(lambda reader: history_view(reader, check_query(query)), flush)

    async def freeze(self, query: str) -> QuerySummary:
        """From now on show the list that is now the best known; impressions until `unfreeze` are not learned from."""
        return cast(QuerySummary, await self._do(FreezeRequest(check_query(query), True)))

    async def unfreeze(self, query: str) -> QuerySummary:
        """Resume learning from where it was."""
        return cast(QuerySummary, await self._do(FreezeRequest(check_query(query), False)))

    async def reset(
        self,
        query: str,
        *,
        policy: Policy | str | None = None,
        positions: int | None = None,
        horizon: int | None = None,
        window: str | float | None = None,
        replay: bool = False,
    ) -> QuerySummary:
        """Start afresh, with the given settings or the ranker's defaults; also before the query's first use.

        With `replay` it then learns from what the query's log still has, all at once: see `preview`.
        """
        check_new_query(query)
        own_window = None if window is None else parse_duration(window, "window")
        if own_window is not None:
            self._settings.check_retention(own_window)
        default = self._of_new_queries
        settings = QuerySettings(
            default.policy if policy is None else await self._compiled(policy),
            default.positions if positions is None else check_positions(positions),
            default.horizon if horizon is None else check_horizon(horizon),
            own_window,
        )
        return cast(QuerySummary, await self._do(ResetRequest(query, settings, replay)))

    async def preview(self, query: str, *, policy: Policy | str) -> Preview:
        """What a policy would show that learned from what the query's log still has; nothing changes."""
        name = await self._compiled(policy)
        own = cast(QueryDetail, await self._do(DetailRequest(check_query(query)))).summary
        settings = QuerySettings(name, own.positions, own.horizon, None)
        found = await self._do(ResetRequest(query, settings, replay=True, preview=True))
        return found if isinstance(found, Preview) else Preview(name, [], 0, 0)

    async def _compiled(self, policy: Policy | str) -> str:
        """The name of a policy that is ready."""
        return await self._work(lambda: self._algorithms.add(policy).name)

    async def delete(self, query: str) -> int:
        """Forget a query and everything about it: what was learned, and its impressions, this many."""
        return cast(int, await self._do(DeleteRequest(check_query(query))))

    async def forget(self, user: str) -> int:
        """Forget what a user was shown and clicked; how many impressions these were.

        What was learned from them stays, without them: the log of each query then starts from there.
        """
        check_name(user, "user")
        forgotten = 0
        while (n := cast(int, await self._do(ForgetRequest(user)))) > 0:
            forgotten += n
        return forgotten

    async def verify(self, query: str) -> bool:
        """Whether replaying the query's log gives exactly its snapshots and the state that is in use.

        From the first record that is still there, concurrently with all other requests.
        """
        in_use = cast(InUse, await self._do(StateRequest(check_query(query))))
        check = Check(query, self._algorithms, in_use.query, in_use)
        verified = None
        while verified is None:
            verified = await self._read(check.step, None)
        if check.damage is not None:
            self._engine.learners.found_damage(query, check.damage)
        return verified

    async def stats(self, *, flush: bool = True) -> Stats:
        """Counts of everything; with `flush` once all that is due has settled."""
        return await self._read(self._stats, flush)

    async def export(self, write: Callable[[Reader], bytes]) -> bytes:
        """What a function writes of the settled impressions, such as `export.as_ndjson`."""
        return await self._read(write, False)

    async def operations(self) -> Operations:
        """The store's size, what was forgotten, and how late clicks come."""
        return await self._read(self._operations, None)

    async def ping(self) -> None:
        """Raise a `StoreError` unless the store works."""
        await self._do(PingRequest())

    async def close(self) -> None:
        """Finish what was begun and release the store. What is not settled stays so until the store is opened again."""
        await self._work(self._close)

    def _submit(self, request: Request) -> "Future[Any]":
        """Have the engine do something, for a thread that waits."""
        future: Future[Any] = Future()
        self._engine.submit([Operation(request, future, resolve)])
        return future

    def _submit_read(self, function: Callable[[Reader], T]) -> "Future[T]":
        return self._readers.submit(lambda: function(self._open_reader()))

    async def _read(self, function: Callable[[Reader], T], flush: bool | None) -> T:
        """What a function finds in the store, with `flush` after what is due has settled; with None, seconds old."""
        if flush:
            await self._do(FlushRequest())
        elif flush is not None and self._engine.hidden:
            with suppress(StoreError):  # what can be seen without it is better than nothing
                await self.ping()
        return await self._wait(self._submit_read(function))

    def _open_reader(self) -> Reader:
        if self._reader is None:
            self._reader = self._store.reader()
        return self._reader

    def _operations(self, reader: Reader) -> Operations:
        counts, settings = self._engine.counts, self._settings
        oldest = reader.oldest()
        return Operations(
            window=settings.window_ms / 1000,
            retention=settings.retention_ms / 1000,
            oldest_at=None if oldest is None else time_view(oldest),
            store_bytes=reader.size(),
            pruned=counts.pruned,
            failures=counts.failures,
            events=dict(counts.events),
            delays=delays_view(reader.delays(MAX_SCANNED), settings.window_ms, settings.conversion_ms),
        )

    def _holdouts(self, reader: Reader, query: str | None = None) -> dict[str, Any]:
        return holdouts(reader, self._settings, int(self._clock() * 1000), query)

    def _stats(self, reader: Reader) -> Stats:
        here: dict[str, Any] = {**self._holdouts(reader), "store_bytes": reader.size(), **self.counts()}
        here["rewards"] = self._settings.rewards
        here["shared"] = self._engine.learners.shared.view()
        del here["pruned"]
        return Stats(*reader.totals(), reader.states(), **here)

    def counts(self) -> dict[str, Any]:
        """What this process did, and has in memory: the second block of `Stats`, and how many rows were forgotten."""
        counts, learners = self._engine.counts, self._engine.learners
        return {
            "ranked": dict(counts.ranked),
            "events": dict(counts.events),
            "failures": counts.failures,
            "batches": counts.batches,
            "operations": counts.operations,
            "loaded": learners.n_loaded,
            "checked": self._rounds.checked,
            "damaged": learners.n_damaged,
            "learners": len(learners),
            "learner_bytes": learners.n_bytes,
            "waiting": self._engine.waiting,
            "clock_skew": self._engine.clock.skew,
            "pruned": counts.pruned,
        }

    def _close(self) -> None:
        with self._closing:
            self._rounds.stop()
            self._engine.close()
            self._readers.shutdown(wait=True)
            if self._reader is not None:
                self._reader.close()
            if not self._closed:
                self._store.close()
            self._closed = True


def _within(settings: RankerSettings) -> Policy | str:
    """The policy of new queries, with their budget if they have one."""
    if settings.max_loss == 0:
        return settings.policy
    return f"{settings.policy} within {settings.max_loss:g}"
