"""What the service offers: each endpoint is a method, and its signature says what it takes and gives."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from clickbandit.errors import InputError
from clickbandit.live.asking import for_events
from clickbandit.live.async_ranker import AsyncRanker
from clickbandit.live.export import as_arrow, as_ndjson
from clickbandit.live.http import metrics, workers
from clickbandit.live.http.elsewhere import Elsewhere, write_request
from clickbandit.live.http.endpoint import Asked, Endpoint, Quick, Typed, endpoint
from clickbandit.live.http.events import read_events
from clickbandit.live.http.lists import list_request, read_list
from clickbandit.live.http.mailbox import Mailbox
from clickbandit.live.http.messages import (
    EventsAnswer,
    EventsBody,
    ExportParameters,
    Forgotten,
    Health,
    Latency,
    ListingParameters,
    PreviewBody,
    QueriesParameters,
    RankAnswer,
    RankBody,
    Ready,
    ResetBody,
    StreamParameters,
    Verification,
    judged,
    ranked,
)
from clickbandit.live.http.metrics import Metrics
from clickbandit.live.http.peers import Peer, Peers
from clickbandit.live.http.stream import Streams
from clickbandit.live.http.wire import RANK
from clickbandit.live.http.workers import Figures, Workers
from clickbandit.live.past import QueryHistory
from clickbandit.live.requests import RankRequest
from clickbandit.live.stores.reading import Listing
from clickbandit.live.values import (
    Preview,
    QueryDetail,
    QueryPage,
    QuerySummary,
    Settlement,
    Shown,
    Stats,
    StoreError,
    Verdict,
)

_PATIENCE = 2.0
"""Seconds that the store may take to say that it is there."""
_ARROW = "application/vnd.apache.arrow.stream"


class Api:
    """The endpoints, over a ranker."""

    def __init__(self, ranker: AsyncRanker, metrics: Metrics, streams: Streams) -> None:
        self.ranker = ranker
        self.metrics = metrics
        self.streams = streams
        self.document = b""
        self.peers: Peers | None = None
        """The other workers, if there are some."""
        self._mailbox: Mailbox | None = None
        """Where they ask for lists."""

    async def start(self) -> None:
        """Called once, when the service begins to serve."""
        if self.peers is not None:
            self._mailbox = Mailbox(self._listed)
            self.ranker.open(self._mailbox)
            await self.peers.start(self._mailbox, lambda: workers.write(self._figures()))

    async def close(self) -> None:
        """Called once, at its end."""
        if self.peers is not None:
            self.peers.close()
        await self.ranker.close()
        if self._mailbox is not None:
            self._mailbox.close()

    @classmethod
    def endpoints(cls) -> tuple[Endpoint, ...]:
        members = (member for kind in reversed(cls.__mro__) for member in vars(kind).values())
        return tuple(member.endpoint for member in members if hasattr(member, "endpoint"))

    # --- lists and clicks -----------------------------------------------------------------------------------

    @endpoint("POST", "/v1/rank", 403, 409, decode=read_list, scope="rank")
    def rank(self, body: RankBody) -> Asked[RankAnswer]:
        """Make a list to show."""
        request = list_request(body)
        owner = None if self.peers is None else self.peers.of(request.query)
        if owner is None:
            return Quick(request, self._listed)
        return Quick(request, self._listed, partial(self._rank_by, owner))

    def _rank_by(self, owner: Peer, request: RankRequest, waiting: Any) -> None:
        owner.ask(RANK, write_request(request), Elsewhere(self.ranker, request, waiting))

    async def given_order(self, body: RankBody) -> RankAnswer:
        """A list while there are too many requests to wait for one."""
        return self._listed(self.ranker.given_order(list_request(body)))

    def _listed(self, shown: Shown) -> RankAnswer:
        self.metrics.listed(shown)
        return ranked(shown)

    @endpoint("POST", "/v1/events", decode=read_events, scope="write")
    def events(self, body: EventsBody) -> Asked[EventsAnswer]:
        """Report clicks: a verdict for each, and a bad one does not affect the others."""
        return Quick(for_events(body), self._judged)  # type: ignore[arg-type]

    def _judged(self, verdicts: list[Verdict]) -> EventsAnswer:
        self.metrics.judged(verdicts)
        return judged(verdicts)

    @endpoint("POST", "/v1/impressions/{id}/settle", 404, 409, scope="write")
    async def settle(self, id: str) -> Settlement:
        """No more clicks of this impression will come: learn from those that did."""
        return await self.ranker.settle(id)

    @endpoint("POST", "/v1/impressions/{id}/void", 404, 409, scope="write")
    async def void(self, id: str) -> Settlement:
        """The impression was never shown, or its clicks were lost: give its place in learning to another."""
        return await self.ranker.void(id)

    # --- queries --------------------------------------------------------------------------------------------

    @endpoint("GET", "/v1/queries")
    async def queries(self, parameters: QueriesParameters) -> QueryPage:
        """List the queries."""
        include = None if parameters.include is msgspec.UNSET else parameters.include
        return await self.ranker.listed(_listing(parameters), include)

    @endpoint("GET", "/v1/queries/{query}", 404)
    async def query(self, query: str) -> QueryDetail:
        """Say what has been learned about a query."""
        return await self.ranker.query(query)

    @endpoint("GET", "/v1/queries/{query}/history", 404)
    async def history(self, query: str) -> QueryHistory:
        """Say how it learned: groups of items over time, clicks over time, the last impressions."""
        return await self.ranker.history(query)

    @endpoint("POST", "/v1/queries/{query}/freeze", 404)
    async def freeze(self, query: str) -> QuerySummary:
        """Show the list that is now the best known; impressions until it is unfrozen are not learned from."""
        return await self.ranker.freeze(query)

    @endpoint("POST", "/v1/queries/{query}/unfreeze", 404)
    async def unfreeze(self, query: str) -> QuerySummary:
        """Resume learning from where it was."""
        return await self.ranker.unfreeze(query)

    @endpoint("POST", "/v1/queries/{query}/reset", 403)
    async def reset(self, query: str, body: ResetBody) -> QuerySummary:
        """Start afresh, with settings of the query's own; also before its first use."""
        _check_policy(body.policy)
        return await self.ranker.reset(query, **msgspec.structs.asdict(body))

    @endpoint("POST", "/v1/queries/{query}/preview", 404)
    async def preview(self, query: str, body: PreviewBody) -> Preview:
        """Say what another policy would show after the same clicks; nothing changes."""
        _check_policy(body.policy)
        return await self.ranker.preview(query, policy=body.policy)

    @endpoint("DELETE", "/v1/queries/{query}", 404)
    async def delete(self, query: str) -> Forgotten:
        """Forget a query and everything about it."""
        return Forgotten(await self.ranker.delete(query))

    @endpoint("DELETE", "/v1/users/{user}")
    async def forget(self, user: str) -> Forgotten:
        """Forget what a user was shown and clicked; what was learned stays."""
        return Forgotten(await self.ranker.forget(user))

    @endpoint("POST", "/v1/queries/{query}/verify", 404)
    async def verify(self, query: str) -> Verification:
        """Replay a query's log, concurrently with other requests, and compare with the state that is in use."""
        return Verification(await self.ranker.verify(query))

    # --- operations -----------------------------------------------------------------------------------------

    @endpoint("GET", "/v1/stats")
    async def stats(self) -> Stats:
        """Count everything."""
        return (await self._workers()).in_stats(await self.ranker.stats())

    def _figures(self) -> Figures:
        number = 0 if self.peers is None else self.peers.part.number
        return Figures(
            number, os.getpid(), self.metrics.answers(), self.metrics.times(), self.ranker.counts()
        )

    @property
    def _expected(self) -> int:
        """How many workers there are to be."""
        return 1 if self.peers is None else self.peers.part.of

    async def _workers(self) -> Workers:
        return await workers.ask_all(self._figures(), self.peers)

    @endpoint("GET", "/v1/health")
    async def health(self) -> Health:
        """Say how the service does: latency, errors, the store's size, and how late clicks come."""
        operations = await self.ranker.operations()
        found = await self._workers()
        requests, refused, failed = found.answers
        return Health(
            found.described(),
            self._expected,
            [Latency(*entry) for entry in metrics.latency(found.times)],
            requests,
            refused,
            failed,
            found.counted("ranked").get("fallback", 0),
            found.in_operations(operations),
        )

    @endpoint("GET", "/v1/export", content_type="application/x-ndjson", other_type=_ARROW)
    async def export(self, parameters: ExportParameters) -> bytes:
        """Give settled impressions with how their lists were chosen, from a mark on; nothing if there are no more."""
        arrow = parameters.format == "arrow"
        write = as_arrow if arrow else as_ndjson
        written = await self.ranker.export(lambda reader: write(reader, parameters.since, parameters.limit))
        return Typed(written, _ARROW.encode()) if arrow else written

    @endpoint("GET", "/v1/stream", 404, content_type="text/event-stream")
    async def stream(self, parameters: StreamParameters) -> bytes:
        """Send what a view of the page shows (or a `problem`) about once a second, as server-sent events."""
        return self.streams.open(parameters, self.view(parameters))  # type: ignore[return-value]

    def view(self, parameters: StreamParameters) -> Callable[[], Awaitable[Any]]:
        """What gives the data of a view."""
        match parameters.view:
            case "overview":

                async def overview() -> Any:
                    return {
                        "stats": (await self._workers()).in_stats(await self.ranker.stats(flush=False)),
                        "page": await self.ranker.listed(_listing(parameters), flush=None),
                    }

                return overview
            case "query":

                async def one_query() -> Any:
                    return {
                        "detail": await self.query(parameters.query),
                        "history": await self.ranker.history(parameters.query, flush=None),
                    }

                return one_query
            case "health":
                return self.health
        raise InputError(f"there is no view {parameters.view!r} here")

    @endpoint("GET", "/metrics", content_type=metrics.CONTENT_TYPE)
    async def prometheus(self) -> bytes:
        """Give the metrics that Prometheus reads."""
        stats: Stats | None = None
        found = await self._workers()
        limits: dict[str, float] = {"workers": len(found), "expected_workers": self._expected}
        try:
            async with asyncio.timeout(_PATIENCE):
                await self.ranker.ping()
                stats = found.in_stats(await self.ranker.stats(flush=False))
                limits |= await self.ranker.limits()
                limits["max_learner_bytes"] *= self._expected
        except (StoreError, TimeoutError):
            pass  # which is what clickbandit_store_up says
        return self.metrics.text(stats, limits)

    @endpoint("GET", "/openapi.json", open=True)
    async def openapi(self) -> bytes:
        """Describe all of this."""
        return self.document

    @endpoint("GET", "/livez", open=True)
    async def live(self) -> Ready:
        """Say whether the process lives."""
        return Ready()

    @endpoint("GET", "/readyz", 503, open=True)
    async def ready(self) -> Ready:
        """Say whether the store works, and the service is not about to stop."""
        if self.streams.stopping:
            raise StoreError("the service is stopping")
        try:
            async with asyncio.timeout(_PATIENCE):
                await self.ranker.ping()
        except (StoreError, TimeoutError):
            raise StoreError("the store does not work, and lists are served in the given order") from None
        return Ready()


def _check_policy(policy: str | None) -> None:
    if policy is not None and ".py" in policy:
        raise InputError("policy must be one of the library over HTTP: a file is named by --policy alone")


def _listing(parameters: ListingParameters) -> Listing:
    given = {name: getattr(parameters, name) for name in ListingParameters.__struct_fields__}
    return Listing(**(given if parameters.state is not msgspec.UNSET else {**given, "state": None}))


ENDPOINTS: tuple[Endpoint, ...] = Api.endpoints()
