"""What a list costs with one worker on PostgreSQL, and with two that have twice the load: processor time.

    python -m benchmarks.workers             # a minute and a half
    python -m benchmarks.workers --seconds 300

Each worker has the load of `benchmarks.live`: the more lists are in a batch, the less each of them costs, so with the
same load two workers cost more than one. Half of the connections begin a little later, as not all users ask for lists
at once. Each of the two services has a database server of its own, and they are asked in turns, for a machine that
others use is faster in one minute than in the next. What a service does while the other is asked counts: it settles
what was shown before. Services that are started anew differ by a fiftieth: to compare, start several times.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import uvloop
from tests.live.postgres import database

from benchmarks.live import (
    CONNECTIONS,
    MEASURED,
    PACED_CONNECTIONS,
    Connection,
    Load,
    Pace,
    connect,
    drive,
    server,
)

_TURN = 1.0
"""Seconds."""
_LATER = 0.005
_WARM_UP = 8.0


class _Side:
    """A service with so many workers, and what was seen of it."""

    def __init__(self, workers: int, service: int, postgres: int, port: int, rate: float | None) -> None:
        self.workers = workers
        self._rate = rate
        self.port = port
        self._pids = service, postgres
        self.load = Load()
        self.connections: list[Connection] = []
        self.lists = self.batches = 0
        self.seconds = 0.0
        self.used: list[float] = []
        """Seconds of CPU, of the service and of the database."""

    async def connect(self) -> None:
        """To all of its workers: connections go to those that are there."""
        url = f"http://127.0.0.1:{self.port}/v1/health"
        while self.workers > 1 and len(_json(url)["workers"]) < self.workers:
            time.sleep(0.2)
        n = PACED_CONNECTIONS if self._rate else CONNECTIONS
        self.connections = await connect(self.port, n * self.workers)
        await self.load.meet(self.connections)

    def start(self) -> None:
        """Count from now on."""
        self.lists = 0
        self.seconds = 0.0
        self.batches, self.used = -self._batches(), [-cpu_seconds(pid) for pid in self._pids]

    async def turn(self) -> None:
        self.load.reset()
        started = time.perf_counter()
        if self._rate:
            await Pace(self.connections, self.load.rank_and_click, self._rate * self.workers).run(_TURN)
        else:
            half = len(self.connections) // 2
            await asyncio.gather(
                drive(self.connections[:half], self.load.rank_and_click, _TURN),
                self._later(self.connections[half:]),
            )
        self.seconds += time.perf_counter() - started
        self.lists += len(self.load.rank_times)

    async def _later(self, connections: list[Connection]) -> None:
        """So that not all ask for lists while nobody clicks: such batches cost less than those of any real load."""
        await asyncio.sleep(_LATER)
        await drive(connections, self.load.rank_and_click, _TURN - _LATER)

    def end(self) -> None:
        self.used = [used + cpu_seconds(pid) for used, pid in zip(self.used, self._pids, strict=True)]
        self.batches += self._batches()

    @property
    def microseconds(self) -> list[float]:
        """For a list."""
        return [used / self.lists * 1e6 for used in self.used]

    def _batches(self) -> int:
        return int(_json(f"http://127.0.0.1:{self.port}/v1/stats")["batches"])

    def __str__(self) -> str:
        service, postgres = self.microseconds
        return (
            f"{self.workers} worker{'s' * (self.workers > 1)}: {service:.0f} us of the service and {postgres:.0f} us "
            f"of PostgreSQL a list with its click, {self.lists / self.seconds:,.0f} lists/s, "
            f"{self.lists / self.batches:.1f} in a batch"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.workers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="for both together")
    parser.add_argument("--workers", type=int, default=2, help="against one")
    parser.add_argument("--rate", type=float, help="lists a second for each worker, at times of their own")
    given = parser.parse_args()
    with ExitStack() as stack:
        sides = []
        for workers in (1, given.workers):
            running = stack.enter_context(database())
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            options = (*MEASURED, "--store", running.url, "--workers", str(workers), "--no-log-requests")
            process, port = stack.enter_context(server(folder, options))
            sides.append(_Side(workers, process.pid, running.process.pid, port, given.rate))
        uvloop.run(_compare(sides, given.seconds))
    one, many = sides
    ratios = [b / a for a, b in zip(one.microseconds, many.microseconds, strict=True)]
    both = sum(many.microseconds) / sum(one.microseconds)
    print(one, many, sep="\n")
    print(f"{ratios[0]:.2f} times as much of the service, {ratios[1]:.2f} of PostgreSQL, {both:.2f} in all")


async def _compare(sides: list[_Side], seconds: float) -> None:
    for side in sides:
        await side.connect()
    await _in_turns(sides, _WARM_UP)
    for side in sides:
        side.start()
    await _in_turns(sides, seconds)
    for side in sides:
        side.end()
        for connection in side.connections:
            connection.transport.close()


async def _in_turns(sides: list[_Side], seconds: float) -> None:
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        for side in sides:
            await side.turn()


def cpu_seconds(pid: int) -> float:
    """Seconds of CPU of all threads of a process and its children so far, to the nanosecond."""
    folder = Path(f"/proc/{pid}/task")
    own = sum(int((folder / thread / "schedstat").read_text().split()[0]) for thread in os.listdir(folder))
    children = (folder / str(pid) / "children").read_text().split()
    return own / 1e9 + sum(map(cpu_seconds, map(int, children)))


def _json(url: str) -> Any:
    with urlopen(url) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
