"""What all workers of a service did, as any of them says it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import Struct

from clickbandit.live.http.messages import WorkerHealth
from clickbandit.live.http.peers import Peer, Peers
from clickbandit.live.http.wire import FIGURES, Away
from clickbandit.live.values import Operations, Stats

_OF_OPERATIONS = ("pruned", "failures", "events")


class Figures(Struct):
    """Of one worker."""

    number: int
    pid: int
    answers: tuple[int, int, int]
    """Requests answered, of these refused, and failed."""
    times: dict[str, list[float]]
    """By endpoint: how long the last requests took."""
    counts: dict[str, Any]
    """What its ranker did, and has in memory."""


_read = msgspec.msgpack.Decoder(Figures).decode
write = msgspec.msgpack.Encoder().encode


class Workers:
    """The figures of all workers that answer."""

    def __init__(self, all_: Sequence[Figures]) -> None:
        self._all = sorted(all_, key=lambda figures: figures.number)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def answers(self) -> tuple[int, int, int]:
        answered, refused, failed = map(sum, zip(*(figures.answers for figures in self._all), strict=True))
        return answered, refused, failed

    @property
    def times(self) -> dict[str, list[float]]:
        times: dict[str, list[float]] = {}
        for figures in self._all:
            for endpoint, some in figures.times.items():
                times.setdefault(endpoint, []).extend(some)
        return times

    def in_stats(self, stats: Stats) -> Stats:
        """The counts of one worker, with those of the others."""
        names = [name for name in self._all[0].counts if name != "pruned"]
        return replace(stats, **{name: self.counted(name) for name in names})

    def in_operations(self, operations: Operations) -> Operations:
        return replace(operations, **{name: self.counted(name) for name in _OF_OPERATIONS})

    def counted(self, name: str) -> Any:
        """What they counted under this name, together."""
        values = [figures.counts[name] for figures in self._all]
        if name == "clock_skew":
            return max(values, key=abs)
        if isinstance(values[0], dict):
            return dict(sum(map(Counter, values), Counter[str]()))
        return sum(values)

    def described(self) -> list[WorkerHealth]:
        names = ("failures", "waiting", "learners", "learner_bytes")
        return [
            WorkerHealth(f.number, f.pid, f.answers[0], *(f.counts[name] for name in names))
            for f in self._all
        ]


async def ask_all(own: Figures, peers: Peers | None) -> Workers:
    """Those of this worker and of all others that answer."""
    others = peers.others.values() if peers is not None else ()
    found = await asyncio.gather(*map(_ask, others))
    return Workers([own, *(figures for figures in found if figures is not None)])


async def _ask(peer: Peer) -> Figures | None:
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    peer.ask(FIGURES, b"", answer)
    try:
        return _read(await answer)
    except Away:
        return None
