"""The ranker that is embedded in a program, for threads."""

from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from clickbandit.live.methods import RankerMethods
from clickbandit.live.requests import Request
from clickbandit.live.settings import RankerSettings, by_keywords
from clickbandit.live.stores.contract import Store

P = ParamSpec("P")
T = TypeVar("T")


class _Blocking(RankerMethods):
    """Waits in the caller's thread, so that a method never pauses and one step brings it to its end."""

    async def _do(self, request: Request) -> Any:
        return self._submit(request).result()

    async def _wait(self, future: "Future[T]") -> T:
        return future.result()

    async def _work(self, function: Callable[[], T]) -> T:
        return function()


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[Ranker, P], T]":
    """A method that returns when all is done."""

    @wraps(method)
    def run(self: "Ranker", /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            method(self._core, *args, **kwargs).send(None)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        raise AssertionError("a blocking method paused")

    return run


class Ranker:
    """Learns from clicks, in this process: `rank` gives a list to show, `click` reports what was clicked.

    `store` says where everything is kept: `sqlite:///clicks.db` (a file in the working directory, for one process) or
    `postgresql://...` (any number of processes). The other arguments are those of `settings.RankerSettings`; a query
    keeps the policy, positions and horizon that it started with. The horizon only sets the policy's constants:
    learning continues past it. Times are text such as "90s", "30m", "12h" or "2d", or seconds. After `retention`
    settled impressions and their events are forgotten, and with them the part of the log that a snapshot replaces.
    `clock` gives the seconds since 1970.

    Its methods may be called from any number of threads; each returns when what it did is on disk.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Ranker(f"sqlite:///{folder}/clicks.db", positions=2) as ranker:
    ...     shown = ranker.rank("red shoes", ["A", "B", "C"])
    ...     verdicts = [ranker.click(shown.id, shown.items[0]).verdict for _ in range(2)]
    ...     settled = ranker.settle(shown.id)
    >>> len(shown.items), verdicts, settled.clicked == shown.items[:1]
    (2, ['accepted', 'duplicate'], True)
    """

    @by_keywords(RankerSettings)
    def __init__(self, store: str | Store, settings: RankerSettings) -> None:
        self._core = _Blocking(store, settings)

    rank = _blocking(RankerMethods.rank)
    click = _blocking(RankerMethods.click)
    events = _blocking(RankerMethods.events)
    settle = _blocking(RankerMethods.settle)
    void = _blocking(RankerMethods.void)
    queries = _blocking(RankerMethods.queries)
    query = _blocking(RankerMethods.query)
    history = _blocking(RankerMethods.history)
    freeze = _blocking(RankerMethods.freeze)
    unfreeze = _blocking(RankerMethods.unfreeze)
    reset = _blocking(RankerMethods.reset)
    preview = _blocking(RankerMethods.preview)
    delete = _blocking(RankerMethods.delete)
    forget = _blocking(RankerMethods.forget)
    verify = _blocking(RankerMethods.verify)
    stats = _blocking(RankerMethods.stats)
    operations = _blocking(RankerMethods.operations)
    ping = _blocking(RankerMethods.ping)
    close = _blocking(RankerMethods.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
