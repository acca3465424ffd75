"""The service under load, from another process: ranks with their clicks, and clicks alone, on disk before answered.

32 connections, each with one request at a time. A list is made of ten items for one of a thousand queries; one item of
each is clicked, and clicks arrive in batches of 100. Impressions settle and are pruned while this goes on. CPU time is
that of the server's process, and depends less on what else the machine does than rates and latencies do. Its memory is
given at the beginning, in the middle and at the end, and after some minutes by how much it grew a minute.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import Table

CONNECTIONS = 32
QUERIES = 1000
ITEMS = 10
BATCH = 100
WARM_UP = 3.0
RETENTION = 60
MEASURED = ("--policy", "batchrank")
"""What the figures in the docs are of."""
WANTED = "1,500 ranks/s, p99 60 ms, 8,000 events/s"
_SAMPLES = 20
"""Of the server's memory."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def main(quick: bool, minutes: float | None = None) -> Iterator[Table]:
    """CPU us: for a rank with its click and settlement; for a click."""
    seconds = 60 * minutes if minutes else 8.0 if quick else 30.0
    with tempfile.TemporaryDirectory() as folder, server(Path(folder), MEASURED) as (process, port):
        rows = asyncio.run(_measure(process.pid, port, seconds))
    yield Table(f"The service on SQLite, {CONNECTIONS} connections, durable (wanted: {WANTED})", rows)


@contextmanager
def server(folder: Path, options: tuple[str, ...] = ()) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """`clickbandit serve` on a port of its own."""
    command = ["serve", "--port", "0", "--window", "5s", "--retention", f"{RETENTION}s", *options]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "clickbandit", *command],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
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
    connections = await connect(port, CONNECTIONS)
    load = Load()
    rows = []
    for name, work in (("ranks with their clicks", load.rank_and_click), ("clicks alone", load.click)):
        if work == load.click:
            seconds = min(seconds, RETENTION / 2)  # after that its impressions are pruned
        await drive(connections, work, WARM_UP)
        load.reset()
        cpu, memory, started = cpu_seconds(pid), [resident(pid)], time.perf_counter()
        for _ in range(_SAMPLES):
            await drive(connections, work, seconds / _SAMPLES)
            memory.append(resident(pid))
        elapsed = time.perf_counter() - started
        cpu = cpu_seconds(pid) - cpu
        times = sorted(load.rank_times or load.event_times)
        rows.append(
            {
                "load": name,
                "ranks/s": round(len(load.rank_times) / elapsed),
                "events/s": round(len(load.event_times) * BATCH / elapsed),
                "p50 ms": round(times[len(times) // 2] * 1e3, 1),
                "p99 ms": round(times[int(len(times) * 0.99)] * 1e3, 1),
                "server CPU": f"{cpu / elapsed:.0%}",
                "CPU us": round(cpu / (len(load.rank_times) or len(load.event_times) * BATCH) * 1e6),
                "MiB": ", ".join(f"{memory[k] / 2**20:.0f}" for k in (0, _SAMPLES // 2, _SAMPLES)),
                "MiB/min": _growth(memory, elapsed),
            }
        )
    for connection in connections:
        connection.transport.close()
    return rows


async def drive(connections: list["Connection"], work: Callable[[], "Request"], seconds: float) -> None:
    end = time.perf_counter() + seconds
    await asyncio.gather(*(connection.run(work, end) for connection in connections))


class Load:
    """What to send next, from what was answered. Requests are made of pieces that are made once."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        names = ",".join(f'"item {k}"' for k in range(ITEMS))
        self._ranks = [
            post("/v1/rank", f'{{"query":"query {k}","items":[{names}]}}'.encode()) for k in range(QUERIES)
        ]
        self._shown: deque[tuple[bytes, bytes]] = deque(maxlen=5000)
        self._clicks: list[bytes] = []
        self._number = 0
        self.reset()

    def reset(self) -> None:
        self.rank_times = array("d")
        self.event_times = array("d")

    def rank_and_click(self) -> "Request":
        if len(self._clicks) >= BATCH:
            return self._events()
        return Request(self._random.choice(self._ranks), self._ranked)

    def _ranked(self, answer: bytes, seconds: float) -> None:
        self.rank_times.append(seconds)
        parts = answer.split(b'"', 12)  # {"id":"...","items":[{"id":"...",
        self._shown.append((parts[3], parts[9]))
        self._clicks.append(self._event(parts[3], parts[9]))

    def click(self) -> "Request":
        self._clicks = [self._event(*self._shown[-1 - k]) for k in range(BATCH)]
        self._shown.rotate(BATCH)
        return self._events()

    def _event(self, id: bytes, item: bytes) -> bytes:
        self._number += 1
        return b'{"id":"%b","item":"%b","event_id":"%d"}' % (id, item, self._number)

    def _events(self) -> "Request":
        body = b'{"events":[%b]}' % b",".join(self._clicks[:BATCH])
        del self._clicks[:BATCH]
        return Request(post("/v1/events", body), self._judged)

    def _judged(self, answer: bytes, seconds: float) -> None:
        assert answer.count(b'"accepted"') + answer.count(b'"late"') == BATCH, answer[:500]
        self.event_times.append(seconds)


class Request:
    """What to send, and what to do with the answer."""

    __slots__ = ("bytes", "then")

    def __init__(self, written: bytes, then: "Callable[[bytes, float], Request | None]") -> None:
        self.bytes = written
        self.then = then
        """Takes the answer and the seconds it took; gives what is to be sent at once, if anything."""


def post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Connection(asyncio.Protocol):
    """Sends a request when the last is answered: HTTP/1.1 as far as this service speaks it."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._received = b""

    def run(self, work: Callable[[], Request | None], end: float = math.inf) -> "asyncio.Future[None]":
        """Send what there is to do, until the end or until there is nothing."""
        self._work, self._end = work, end
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._next(None)
        return self._done

    def _next(self, request: Request | None) -> None:
        if request is None and time.perf_counter() < self._end:
            request = self._work()
        if request is None:
            self._done.set_result(None)
            return
        self._request = request
        self._sent = time.perf_counter()
        self.transport.write(self._request.bytes)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found or len(body) < int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]):
            return
        seconds = time.perf_counter() - self._sent
        assert head.startswith(b"HTTP/1.1 200 "), self._received[:500]
        self._received = b""
        self._next(self._request.then(body, seconds))

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(error or ConnectionError("the service closed a connection"))


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
