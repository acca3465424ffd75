"""The ranker that is embedded in a program: `Ranker` for threads, `AsyncRanker` for asyncio, with the same methods."""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from clickbandit.live.types import (
    Event,
    QueryDetail,
    QueryPage,
    QuerySummary,
    Settlement,
    Shown,
    SortKey,
    Stats,
    Verdict,
)
from clickbandit.policies._base import Policy


class Ranker:
    """Learns from clicks, in this process: `rank` gives a list to show, `click` reports what was clicked.

    `store` says where everything is kept: `sqlite:///clicks.db` (a file in the working directory, for one process) or
    `postgresql://...` (any number of processes). The settings hold for queries that have none of their own (see
    `reset`); a query keeps the policy, positions and horizon that it started with. The horizon only sets the policy's
    constants: learning goes on past it. An impression settles when its `window` is over ("30m", "12h", "2d", or
    seconds). `holdout` is the share of impressions that are shown in the given order. After `retention` settled
    impressions and their events are forgotten, and with them the part of the log that a snapshot replaces. An item is
    taken for removed when `grace` requests in a row leave it out. At most `learners` queries are kept in memory, and
    `most_queries` in the store. `clock` gives the seconds since 1970.

    Its methods may be called from any number of threads; each returns when what it did is on disk.
    """

    def __init__(
        self,
        store: str,
        *,
        policy: Policy | str = "batchrank",
        positions: int = 5,
        horizon: int = 1_000_000,
        window: str | float = "30m",
        holdout: float = 0.0,
        retention: str | float = "7d",
        grace: int = 10,
        seed: int = 0,
        learners: int = 10_000,
        most_queries: int = 1_000_000,
        clock: Callable[[], float] | None = None,
    ) -> None:
        raise NotImplementedError

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
        raise NotImplementedError

    def click(self, id: str, item: str, *, event_id: str | None = None) -> Verdict:
        """A click on an item of an impression. Without an `event_id`, repeating it changes nothing either."""
        raise NotImplementedError

    def events(self, events: Sequence[Event | Mapping[str, Any]]) -> list[Verdict]:
        """Many clicks at once, a verdict for each; a bad one spoils nothing for the others."""
        raise NotImplementedError

    def settle(self, id: str) -> Settlement:
        """No more clicks of this impression will come: learn from those that did."""
        raise NotImplementedError

    def void(self, id: str) -> Settlement:
        """The impression was never shown, or its clicks were lost: its place in learning is given to another."""
        raise NotImplementedError

    def queries(
        self,
        *,
        search: str = "",
        sort: SortKey = "query",
        descending: bool = False,
        limit: int = 50,
        offset: int = 0,
    ) -> QueryPage:
        """The queries whose name contains `search`, sorted, some of them at a time."""
        raise NotImplementedError

    def query(self, query: str) -> QueryDetail:
        """What has been learned about a query."""
        raise NotImplementedError

    def freeze(self, query: str) -> QuerySummary:
        """From now on show the best list known, as it is now, and learn from none that is shown meanwhile."""
        raise NotImplementedError

    def unfreeze(self, query: str) -> QuerySummary:
        """Learn on from where it was."""
        raise NotImplementedError

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
        raise NotImplementedError

    def stats(self) -> Stats:
        """Counts of everything."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish what was begun and release the store. What is not settled stays so until the store is opened again."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncRanker:
    """`Ranker` for asyncio: the same arguments and methods, to be awaited."""

    def __init__(
        self,
        store: str,
        *,
        policy: Policy | str = "batchrank",
        positions: int = 5,
        horizon: int = 1_000_000,
        window: str | float = "30m",
        holdout: float = 0.0,
        retention: str | float = "7d",
        grace: int = 10,
        seed: int = 0,
        learners: int = 10_000,
        most_queries: int = 1_000_000,
        clock: Callable[[], float] | None = None,
    ) -> None:
        raise NotImplementedError

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
        raise NotImplementedError

    async def click(self, id: str, item: str, *, event_id: str | None = None) -> Verdict:
        raise NotImplementedError

    async def events(self, events: Sequence[Event | Mapping[str, Any]]) -> list[Verdict]:
        raise NotImplementedError

    async def settle(self, id: str) -> Settlement:
        raise NotImplementedError

    async def void(self, id: str) -> Settlement:
        raise NotImplementedError

    async def queries(
        self,
        *,
        search: str = "",
        sort: SortKey = "query",
        descending: bool = False,
        limit: int = 50,
        offset: int = 0,
    ) -> QueryPage:
        raise NotImplementedError

    async def query(self, query: str) -> QueryDetail:
        raise NotImplementedError

    async def freeze(self, query: str) -> QuerySummary:
        raise NotImplementedError

    async def unfreeze(self, query: str) -> QuerySummary:
        raise NotImplementedError

    async def reset(
        self,
        query: str,
        *,
        policy: Policy | str | None = None,
        positions: int | None = None,
        horizon: int | None = None,
        window: str | float | None = None,
    ) -> QuerySummary:
        raise NotImplementedError

    async def stats(self) -> Stats:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
