"""What the engine says when something is done, and to whom."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import InvalidStateError
from datetime import UTC, datetime
from itertools import compress
from typing import Any, NamedTuple

from clickbandit.live.requests import QuerySettings, RankRequest, Request, arrange, new_id
from clickbandit.live.values import EventVerdict, Shown, Source, Verdict

log = logging.getLogger("clickbandit.live")

Sink = Callable[[list[tuple[Any, Any]]], None]
"""Takes pairs of a future and its result, which is an exception if the operation failed."""


class Operation(NamedTuple):
    """Something to do, and where to say that it is done."""

    request: Request
    future: Any
    sink: Sink
    by_another: bool = False
    """Whether another process asks, which sees to it that a list that nobody sees is void."""


class ActivityCounts:
    """What happened since the ranker was started."""

    def __init__(self) -> None:
        self.ranked: Counter[Source] = Counter()
        self.events: Counter[EventVerdict] = Counter()
        self.failures = 0
        self.pruned = 0
        self.batches = 0
        self.operations = 0

    def committed(self, operations: int) -> None:
        """Count a transaction and its operations."""
        self.batches += 1
        self.operations += operations

    def add(self, results: Sequence[Any]) -> None:
        """Count the lists and verdicts among these."""
        self.ranked.update([result.source for result in results if type(result) is Shown])
        lists = [result for result in results if type(result) is list]
        self.events.update([one.verdict for verdicts in lists for one in verdicts if type(one) is Verdict])


def given_order(request: RankRequest, now: int, of_new_queries: QuerySettings) -> Shown:
    """A list without the store. It has an id of its own, for under the one that was given another may be stored."""
    shown = arrange(request.items, request, request.positions or of_new_queries.positions)
    return Shown(
        new_id(now / 1000),
        request.query,
        tuple(shown),
        (1.0,) * len(shown),
        of_new_queries.policy,
        "fallback",
        datetime.fromtimestamp(now / 1000, UTC),
    )


def once_more(operations: Iterable[Operation], given_up: Collection[str]) -> list[Operation]:
    """The operations, without lists that were given up; of no other is it taken for granted that its id is new."""
    again = []
    for operation in operations:
        request = operation.request
        if not isinstance(request, RankRequest):
            again.append(operation)
        elif request.id not in given_up:
            again.append(operation._replace(request=request._replace(is_new=False)))
    return again


def apart(
    operations: Sequence[Operation], results: Sequence[Any], kind: type
) -> tuple[list[Operation], list[Operation], list[Any]]:
    """The operations of a kind; the others, and their results."""
    found = [isinstance(operation.request, kind) for operation in operations]
    others = [not one for one in found]
    return (
        list(compress(operations, found)),
        list(compress(operations, others)),
        list(compress(results, others)),
    )


def wanted(
    operations: list[Operation], results: list[Any], given_up: Collection[str]
) -> tuple[list[Operation], list[Any]]:
    """Those that were not given up, and their results: who gave a list up answers without the store."""
    if not given_up:
        return operations, results
    kept = [not (isinstance(one.request, RankRequest) and one.request.id in given_up) for one in operations]
    return list(compress(operations, kept)), list(compress(results, kept))


def deliver(operations: Sequence[Operation], results: Sequence[Any]) -> None:
    """Give everyone their result."""
    sinks: dict[Sink, list[tuple[Any, Any]]] = {}
    for (_, future, sink, _), result in zip(operations, results, strict=True):
        if sink in sinks:
            sinks[sink].append((future, result))
        else:
            sinks[sink] = [(future, result)]
    for sink, pairs in sinks.items():
        try:
            sink(pairs)
        except RuntimeError:  # an event loop that was closed: nobody waits any more
            log.warning("%d answers found nobody who waits for them", len(pairs))


def resolve(pairs: list[tuple[Any, Any]]) -> None:
    """Give futures their results."""
    for future, result in pairs:
        if future.done():  # cancelled meanwhile, or answered by the watchman
            continue
        try:
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)
        except InvalidStateError:  # at this very moment
            pass
        except Exception:  # in the caller's future: the others still get theirs
            log.exception("an answer could not be taken")
