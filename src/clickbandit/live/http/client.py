"""`Client`: a ranker that is elsewhere. The methods of `Ranker`, over HTTP, with msgspec and the standard library."""

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from weakref import WeakSet

import msgspec

from clickbandit.live.asking import click_request
from clickbandit.live.http import messages
from clickbandit.live.http.calls import Call, Calls
from clickbandit.live.http.voids import Voids
from clickbandit.live.past import QueryHistory
from clickbandit.live.requests import (
    ClickRequest,
    RankRequest,
    arrange,
    check_name,
    check_query,
    new_id,
    rank_request,
    with_told,
)
from clickbandit.live.rewards import CLICK
from clickbandit.live.told import read_told
from clickbandit.live.values import (
    Conflict,
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

_MAX_BYTES = 1_000_000
"""Of events that are sent at once."""

_encode = msgspec.json.Encoder().encode


class Client:
    """Asks the service at a URL. Its methods are those of `Ranker` and may be called from any number of threads.

    A call takes at most about `timeout` seconds, in which it is tried again as long as the service cannot be reached or
    says that its store failed: requests carry ids, so that what is sent twice is done once (a click that arrived the
    first time is then a duplicate). After that, or if something else answers in its place, `rank` gives the items in
    the given order, as a list whose source is "fallback", with an id of its own under which clicks will be unknown; and
    should the service have made another list all the same, that one is voided in the background. The other methods
    raise a `StoreError`.
    """

    def __init__(self, url: str, *, key: str | None = None, timeout: float = 2.0) -> None:
        self._calls = Calls(url, key, timeout)
        self._voids = Voids(self.void)
        _clients.add(self)

    def _after_fork(self) -> None:
        """Leave the parent's connections and voids to it."""
        self._calls.close()
        self._voids = Voids(self.void)

    # --- the methods of a ranker ----------------------------------------------------------------------------

    def rank(
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
        """A list to show for a query: some of `items`, the best known or one to learn from."""
        request = rank_request(query, items, positions, id, pinned, excluded, new_id(time.time()))
        request = with_told(request, read_told(len(request.items), scores, features, context))
        body = messages.RankBody(
            query=query,
            items=list(items),
            positions=positions,
            id=request.id,
            pinned=request.pinned,
            excluded=list(request.excluded),
            user=None if user is None else check_name(user, "user"),
            scores=None if scores is None else list(scores),
            features=None if features is None else [list(row) for row in features],
            context=None if context is None else list(context),
        )
        call = Call("POST", "/v1/rank", _encode(body))
        shown = None
        try:
            shown = _shown(query, self._calls.make(call, messages.RankAnswer))
            if shown.id != request.id and shown.source != "fallback":  # the answer to another request
                call.unanswered = True
                self._calls.close()
                shown = _fallback(request)
        except StoreError:
            shown = _fallback(request)
        except Conflict:  # the id is that of another list
            call.unanswered = False
            raise
        finally:
            if call.unanswered and (shown is None or shown.id != request.id):
                self._voids.add(request.id)
        return shown

    def click(self, id: str, item: str, *, event_id: str | None = None) -> Verdict:
        """A click on an item of an impression. Without an `event_id`, repeating it changes nothing either."""
        return self.events([Event(id, item, event_id)])[0]

    def events(self, events: Sequence[Event | Mapping[str, Any]]) -> list[Verdict]:
        """Many clicks at once, a verdict for each; a bad one does not affect the others."""
        read = [click_request(event) for event in events]
        judged: list[messages.EventResult] = []
        for part in _parts([event for event in read if isinstance(event, ClickRequest)]):
            judged += self._calls.make(Call("POST", "/v1/events", part), messages.EventsAnswer).results
        results = iter(judged)
        return [event if isinstance(event, Verdict) else _verdict(next(results)) for event in read]

    def settle(self, id: str) -> Settlement:
        """No more clicks of this impression will come: learn from those that did."""
        return self._end(id, "settle")

    def void(self, id: str) -> Settlement:
        """The impression was never shown, or its clicks were lost: its place in learning is given to another."""
        return self._end(id, "void")

    def _end(self, id: str, how: str) -> Settlement:
        path = f"/v1/impressions/{_quoted(check_name(id, 'id'))}/{how}"
        return self._calls.make(Call("POST", path), Settlement)

    def queries(
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
        path = (
            f"/v1/queries?search={_quoted(search)}&sort={_quoted(sort)}&descending={str(descending).lower()}"
            f"&limit={limit}&offset={offset}{f'&state={_quoted(state)}' if state else ''}"
            f"{f'&include={_quoted(include)}' if include else ''}"
        )
        return self._calls.make(Call("GET", path), QueryPage)

    def query(self, query: str) -> QueryDetail:
        """What has been learned about a query."""
        return self._calls.make(Call("GET", _of(query)), QueryDetail)

    def history(self, query: str) -> QueryHistory:
        """How it learned: how items were grouped over time, clicks over time, the last impressions."""
        return self._calls.make(Call("GET", f"{_of(query)}/history"), QueryHistory)

    def freeze(self, query: str) -> QuerySummary:
        """From now on show the list that is now the best known; impressions until `unfreeze` are not learned from."""
        return self._change(query, "freeze")

    def unfreeze(self, query: str) -> QuerySummary:
        """Resume learning from where it was."""
        return self._change(query, "unfreeze")

    def reset(
        self,
        query: str,
        *,
        policy: str | None = None,
        positions: int | None = None,
        horizon: int | None = None,
        window: str | float | None = None,
        replay: bool = False,
    ) -> QuerySummary:
        """Start afresh, with the given settings or the service's defaults; also before the query's first use.

        With `replay` it then learns from what the query's log still has: see `preview`. This call alone is not
        retried once it may have arrived, since each one has an effect.
        """
        body = messages.ResetBody(policy, positions, horizon, window, replay)
        return self._change(query, "reset", _encode(body), repeatable=False)

    def preview(self, query: str, *, policy: str) -> Preview:
        """What a policy would show that learned from what the query's log still has; nothing changes."""
        return self._calls.make(
            Call("POST", f"{_of(query)}/preview", _encode(messages.PreviewBody(policy))), Preview
        )

    def _change(self, query: str, what: str, body: bytes = b"", *, repeatable: bool = True) -> QuerySummary:
        return self._calls.make(Call("POST", f"{_of(query)}/{what}", body, repeatable), QuerySummary)

    def delete(self, query: str) -> int:
        """Forget a query and everything about it: what was learned, and its impressions, this many."""
        return self._calls.make(Call("DELETE", _of(query), repeatable=False), messages.Forgotten).impressions

    def forget(self, user: str) -> int:
        """Forget what a user was shown and clicked; how many impressions these were."""
        path = f"/v1/users/{_quoted(check_name(user, 'user'))}"
        return self._calls.make(Call("DELETE", path), messages.Forgotten).impressions

    def verify(self, query: str) -> bool:
        """Whether replaying the query's log from its beginning gives exactly the state that is in use."""
        return self._calls.make(Call("POST", f"{_of(query)}/verify"), messages.Verification).verified

    def stats(self) -> Stats:
        """Counts of everything."""
        return self._calls.make(Call("GET", "/v1/stats"), Stats)

    def operations(self) -> Operations:
        """The store's size, what was forgotten, and how late clicks come."""
        return self._calls.make(Call("GET", "/v1/health"), messages.Health).operations

    def ping(self) -> None:
        """Raise a `StoreError` unless the service is there and its store works."""
        self._calls.make(Call("GET", "/readyz"), messages.Ready)

    def close(self) -> None:
        """Void what is to be voided, as far as the service answers, and close the connections."""
        self._voids.close()
        self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_clients: WeakSet[Client] = WeakSet()


def _after_fork() -> None:
    for client in _clients:
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _shown(query: str, answer: messages.RankAnswer) -> Shown:
    errors = tuple(
        item.propensity_error for item in answer.items if item.propensity_error is not msgspec.UNSET
    )
    return Shown(
        answer.id,
        query,
        tuple(item.id for item in answer.items),
        tuple(item.propensity for item in answer.items),
        answer.policy,
        answer.source,
        answer.expires_at,
        errors or None,
    )


def _fallback(request: RankRequest) -> Shown:
    """The items in the given order, all of them if it is not known how many are shown."""
    shown = arrange(request.items, request, request.positions or len(request.items))
    now = datetime.now(UTC)
    return Shown(new_id(time.time()), request.query, tuple(shown), (1.0,) * len(shown), "", "fallback", now)


def _parts(clicks: Sequence[ClickRequest]) -> Iterator[bytes]:
    """Bodies with all of these events, each small enough."""
    part: list[bytes] = []
    size = 0
    for click in clicks:
        action = None if click.action == CLICK else click.action
        event = _encode(
            messages.EventBody(
                click.impression, click.item, click.event_id, click.timestamp, action, click.amount
            )
        )
        if size + len(event) > _MAX_BYTES:
            yield b'{"events":[%b]}' % b",".join(part)
            part, size = [], 0
        part.append(event)
        size += len(event) + 1
    if part:
        yield b'{"events":[%b]}' % b",".join(part)


def _verdict(result: messages.EventResult) -> Verdict:
    return Verdict(result.verdict, result.event_id, result.reason if isinstance(result.reason, str) else None)


def _of(query: str) -> str:
    return f"/v1/queries/{_quoted(check_query(query))}"


def _quoted(name: str) -> str:
    """Dots too, for `..` means something else in an address."""
    return quote(name, safe="", errors="surrogatepass").replace(".", "%2E")
