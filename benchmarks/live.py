"""The service under load, from another process: lists with their clicks, and clicks alone, on disk before answered.

32 connections, each with one request at a time. A list is made of ten items for one of a thousand queries; when it is
there one of its items is clicked, which is a request of its own. Clicks alone come in batches of 100. Impressions
settle and are pruned while this goes on. CPU time is that of the server's process for a list with its click and
settlement (or for a click), and depends less on what else the machine does than rates and latencies do. Memory is given
at the beginning, in the middle and at the end, and after some minutes by how much it grew a minute. Paced, lists are
asked for at a steady rate over more connections, and their time is counted from when each was to be asked for.
"""

import asyncio
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from benchmarks import Table

CONNECTIONS = 32
QUERIES = 1000
ITEMS = 10
BATCH = 100
WARM_UP = 3.0
RETENTION = 60
MEASURED = ("--policy", "batchrank")
"""What the figures in the docs are of."""
EVERYTHING = (*MEASURED, "--holdout", "0.05", "--rate", "1e6")
"""And then with a key, whose rate is counted, and a holdout."""
KEY = "benchmark-benchmark"
PACE = 5000
"""Lists a second."""
PACED_CONNECTIONS = 256
WANTED = f"{PACE:,} lists/s at p99 20 ms, 140 us of CPU; 50,000 events/s"
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def main(quick: bool, minutes: float | None = None) -> Iterator[Table]:
    seconds = 60 * minutes if minutes else 8.0 if quick else 30.0
    rows = []
    with tempfile.TemporaryDirectory() as folder, server(Path(folder), MEASURED) as (process, port):
        rows += uvloop.run(_measure(process.pid, port, seconds))
    with tempfile.TemporaryDirectory() as folder, server(Path(folder), EVERYTHING, KEY) as (process, port):
        rows += uvloop.run(_measure_all(process.pid, port, min(seconds, 30.0)))
    yield Table(f"The service on SQLite, {CONNECTIONS} connections, durable (wanted: {WANTED})", rows)


@contextmanager
def server(
    folder: Path, options: tuple[str, ...] = (), key: str | None = None
) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """`clickbandit serve` on a port of its own, with an API key if one is given."""
    command = ["serve", "--port", "0", "--window", "5s", "--retention", f"{RETENTION}s", *options]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "clickbandit", *command],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ if key is None else {**os.environ, "CLICKBANDIT_API_KEYS": key},
        )
    assert process.stdout is not None
    try:
        found = re.search(r":(\d+) ", process.stdout.readline())
        assert found is not None, (folder / "log").read_text()
        yield process, int(found[1])
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def connect(port: int, n: int) -> list["Connection"]:
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(n)]


async def _measure(pid: int, port: int, seconds: float) -> list[dict[str, Any]]:
    """Lists with their clicks as fast as they come and at a steady rate, and clicks alone."""
    connections = await connect(port, CONNECTIONS)
    load = Load()
    await load.meet(connections)

    async def lists(seconds: float) -> None:
        await drive(connections, load.rank_and_click, seconds)

    async def paced(seconds: float) -> None:
        await Pace(more, load.rank_and_click, PACE).run(seconds)

    async def clicks(seconds: float) -> None:
        await drive(connections, load.click, seconds)

    rows = [await _observe(pid, load, "lists with their clicks", lists, seconds)]
    more = await connect(port, PACED_CONNECTIONS)
    rows.append(await _observe(pid, load, f"paced at {PACE:,}", paced, min(seconds, 30.0), samples=2))
    for connection in connections:  # the service closes those that are idle
        connection.transport.close()
    connections = await connect(port, CONNECTIONS)
    # after some time the impressions that are clicked would be pruned
    rows.append(await _observe(pid, load, "clicks alone", clicks, min(seconds, RETENTION / 4)))
    for connection in (*connections, *more):
        connection.transport.close()
    return rows


async def _measure_all(pid: int, port: int, seconds: float) -> list[dict[str, Any]]:
    """Lists with their clicks, with what a service may have besides."""
    connections = await connect(port, CONNECTIONS)
    load = Load(KEY)
    await load.meet(connections)

    async def lists(seconds: float) -> None:
        await drive(connections, load.rank_and_click, seconds)

    rows = [await _observe(pid, load, "with a key, a rate and a holdout", lists, seconds)]
    for connection in connections:
        connection.transport.close()
    return rows


async def _observe(
    pid: int,
    load: "Load",
    name: str,
    work: Callable[[float], Awaitable[None]],
    seconds: float,
    samples: int = 20,
) -> dict[str, Any]:
    """What is seen while this is done; the server's memory is looked at so many times."""
    await work(WARM_UP)
    load.reset()
    cpu, own, memory, started = cpu_seconds(pid), time.process_time(), [resident(pid)], time.perf_counter()
    for _ in range(samples):
        await work(seconds / samples)
        memory.append(resident(pid))
    elapsed = time.perf_counter() - started
    cpu, own = cpu_seconds(pid) - cpu, time.process_time() - own
    times = sorted(load.rank_times or load.event_times)
    return {
        "load": name,
        "lists/s": round(len(load.rank_times) / elapsed),
        "events/s": round(load.events / elapsed),
        "p50 ms": round(times[len(times) // 2] * 1e3, 1),
        "p99 ms": round(times[int(len(times) * 0.99)] * 1e3, 1),
        "server CPU": f"{cpu / elapsed:.0%}",
        "clients'": f"{own / elapsed:.0%}",
        "CPU us": round(cpu / (len(load.rank_times) or load.events) * 1e6, 1),
        "MiB": ", ".join(f"{memory[k] / 2**20:.0f}" for k in (0, samples // 2, samples)),
        "MiB/min": _growth(memory, elapsed),
    }


async def drive(connections: list["Connection"], work: Callable[[], "Request"], seconds: float) -> None:
    end = time.perf_counter() + seconds
    await asyncio.gather(*(connection.run(work, end) for connection in connections))


class Pace:
    """Asks for lists at a steady rate, as long as one of its connections is free; else later, but as if in time."""

    def __init__(self, connections: list["Connection"], work: Callable[[], "Request"], rate: float) -> None:
        self._free = deque(connections)
        self._connections = connections
        self._work = work
        self._rate = rate
        self._late: deque[float] = deque()
        """When those were due for which no connection was free."""

    async def run(self, seconds: float) -> None:
        start = time.perf_counter()
        sent = 0
        while sent < seconds * self._rate:
            await asyncio.sleep(0.001)
            while sent < seconds * self._rate and start + sent / self._rate <= time.perf_counter():
                self._late.append(start + sent / self._rate)
                sent += 1
            self._send()
        self._late.clear()  # a service that cannot keep up is not to be waited for
        while len(self._free) < len(self._connections):
            await asyncio.sleep(0.001)
            if any(connection.transport.is_closing() for connection in self._connections):
                raise ConnectionError("the service closed a connection")

    def _send(self) -> None:
        while self._free and self._late:
            self._free.popleft().send(self._work(), self._late.popleft(), self._done)

    def _done(self, connection: "Connection") -> None:
        self._free.append(connection)
        self._send()


class Load:
    """What to send next, from what was answered. Requests are made of pieces that are made once."""

    def __init__(self, key: str | None = None) -> None:
        self._random = random.Random(1)
        self._key = key
        names = ",".join(f'"item {k}"' for k in range(ITEMS))
        self._ranks = [
            post("/v1/rank", f'{{"query":"query {k}","items":[{names}]}}'.encode(), key)
            for k in range(QUERIES)
        ]
        self._shown: deque[tuple[bytes, bytes]] = deque(maxlen=5000)
        self._number = 0
        self.reset()

    def reset(self) -> None:
        self.rank_times = array("d")
        self.event_times = array("d")
        self.events = 0

    async def meet(self, connections: list["Connection"]) -> None:
        """Ask for each query once, for the first list of a query costs more than others."""
        left = iter(self._ranks)

        def work() -> Request | None:
            rank = next(left, None)
            return None if rank is None else Request(rank, self._ranked)

        await asyncio.gather(*(connection.run(work) for connection in connections))

    def rank_and_click(self) -> "Request":
        return Request(self._random.choice(self._ranks), self._ranked)

    def _ranked(self, answer: bytes, seconds: float) -> "Request":
        self.rank_times.append(seconds)
        parts = answer.split(b'"', 12)  # {"id":"...","items":[{"id":"...",
        self._shown.append((parts[3], parts[9]))
        return self._events([self._event(parts[3], parts[9])])

    def click(self) -> "Request":
        clicks = [self._event(*self._shown[-1 - k]) for k in range(BATCH)]
        self._shown.rotate(BATCH)
        return self._events(clicks)

    def _event(self, id: bytes, item: bytes) -> bytes:
        self._number += 1
        return b'{"id":"%b","item":"%b","event_id":"%d"}' % (id, item, self._number)

    def _events(self, clicks: list[bytes]) -> "Request":
        def judged(answer: bytes, seconds: float) -> None:
            assert answer.count(b'"accepted"') + answer.count(b'"late"') == len(clicks), answer[:500]
            self.event_times.append(seconds)
            self.events += len(clicks)

        return Request(post("/v1/events", b'{"events":[%b]}' % b",".join(clicks), self._key), judged)


class Request:
    """What to send, and what to do with the answer."""

    __slots__ = ("bytes", "then")

    def __init__(self, written: bytes, then: "Callable[[bytes, float], Request | None]") -> None:
        self.bytes = written
        self.then = then
        """Takes the answer and the seconds it took; gives what is to be sent at once, if anything."""


def post(path: str, body: bytes, key: str | None = None) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += "" if key is None else f"Authorization: Bearer {key}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Connection(asyncio.Protocol):
    """Sends a request when the last is answered: HTTP/1.1 as far as this service speaks it."""

    transport: asyncio.Transport
    _failed: "asyncio.Future[None] | None" = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._received = b""

    def run(self, work: Callable[[], Request | None], end: float = math.inf) -> "asyncio.Future[None]":
        """Send what there is to do, until the end or until there is nothing."""

        def on(connection: "Connection") -> None:
            request = work() if time.perf_counter() < end else None
            if request is None:
                done.set_result(None)
            else:
                self.send(request, time.perf_counter(), on)

        done = self._failed = asyncio.get_running_loop().create_future()
        on(self)
        return done

    def send(self, request: Request, at: float, then: Callable[["Connection"], None]) -> None:
        """Send a request that was to be sent at a time, and those that its answer leads to; then do something."""
        self._request, self._sent, self._then = request, at, then
        self.transport.write(request.bytes)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found or len(body) < int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]):
            return
        now = time.perf_counter()
        assert head.startswith(b"HTTP/1.1 200 "), self._received[:500]
        self._received = b""
        request = self._request.then(body, now - self._sent)
        if request is None:
            self._then(self)
        else:
            self.send(request, now, self._then)

    def connection_lost(self, error: Exception | None) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error or ConnectionError("the service closed a connection"))


def cpu_seconds(pid: int) -> float:
    """Seconds of CPU of a process and its children so far; those that ended count in the parent's."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(map(int, fields[11:15])) / _TICKS + sum(map(cpu_seconds, map(int, children)))


def _growth(memory: list[int], seconds: float) -> str:
    """MiB a minute in the second half, if that is well after the first impressions were pruned."""
    if seconds < 4 * RETENTION:
        return "-"
    sizes = memory[len(memory) // 2 :]
    middle = (len(sizes) - 1) / 2
    away = [k - middle for k in range(len(sizes))]
    covariance = sum(k * size for k, size in zip(away, sizes, strict=True))
    slope = covariance / sum(k * k for k in away) / (seconds / (len(memory) - 1))
    return f"{slope * 60 / 2**20:.2f}"


def resident(pid: int) -> int:
    """Bytes of a process in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
