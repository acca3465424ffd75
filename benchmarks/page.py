"""What the page costs: an overview of 100,000 queries, and ten viewers of a service under load.

The load is that of `benchmarks.live`. CPU time is that of the server's process for a rank with its click, with and
without viewers in turn: the median over turns, of what each took and of what viewers added to the same turn's.
"""

import asyncio
import http.client
import json
import operator
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks import Table
from benchmarks.live import CONNECTIONS, MEASURED, Load, connect, cpu_seconds, drive, server
from clickbandit.live import Ranker
from clickbandit.live.stores.rows import QUERY_COLUMNS

QUERIES = 100_000
VIEWERS = 10
_ASKED = {
    "sums over all": "/v1/stats",
    "by traffic": "/v1/queries?sort=impressions&descending=true",
    "the last page": f"/v1/queries?sort=updated&offset={QUERIES - 50}",
    "searched": "/v1/queries?search=99&sort=impressions&descending=true",
    "in a state": "/v1/queries?state=stuck&sort=clicks&descending=true",
}


def main(quick: bool) -> Iterator[Table]:
    with tempfile.TemporaryDirectory() as folder:
        _fill(Path(folder) / "clickbandit.db")
        with server(Path(folder), MEASURED) as (process, port):
            rows = [_ask(process.pid, port, name, path, 5 if quick else 20) for name, path in _ASKED.items()]
    yield Table(f"The page: {QUERIES:,} queries on SQLite, milliseconds to answer (wanted: 300)", rows)
    with tempfile.TemporaryDirectory() as folder, server(Path(folder), MEASURED) as (process, port):
        rows = asyncio.run(_measure(process.pid, port, 3.0 if quick else 10.0, 3 if quick else 6))
    title = (
        f"{VIEWERS} viewers of a service under load, CPU for a rank with its click (wanted: at most 5% added)"
    )
    yield Table(title, rows)


def _fill(path: Path) -> None:
    """Queries as they may be after some months."""
    Ranker(f"sqlite:///{path}", policy="random").close()
    draw = random.Random(1)
    rows = []
    for k in range(QUERIES):
        impressions = int(1e6 / (k + 1)) + draw.randrange(100)
        known = {
            "id": k + 1,
            "name": f"query {k} of a shop",
            "policy": "random",
            "positions": 5,
            "horizon": 10**6,
        }
        known |= {"impressions": impressions, "settled": impressions, "learned": impressions}
        known |= {
            "clicks": impressions // 3,
            "updated": draw.randrange(10**12),
            "progress": draw.randrange(3),
        }
        known |= {"idle": draw.randrange(220)}
        rows.append([known.get(name, None if name in ("window", "frozen") else 0) for name in QUERY_COLUMNS])
    with closing(sqlite3.connect(path)) as file, file:
        file.executemany(
            f"insert into queries ({', '.join(QUERY_COLUMNS)}) values ({', '.join('?' * len(QUERY_COLUMNS))})",
            rows,
        )


def _ask(pid: int, port: int, name: str, path: str, n: int) -> dict[str, Any]:
    times = []
    cpu = cpu_seconds(pid)
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        for _ in range(n):
            started = time.perf_counter()
            connection.request("GET", path)
            answer = connection.getresponse()
            body = json.loads(answer.read())
            times.append(1000 * (time.perf_counter() - started))
            assert answer.status == 200, body
    return {
        "asked": name,
        "best": round(min(times)),
        "median": round(statistics.median(times)),
        "CPU": round(1000 * (cpu_seconds(pid) - cpu) / n),
    }


async def _measure(pid: int, port: int, seconds: float, turns: int) -> list[dict[str, Any]]:
    connections = await connect(port, CONNECTIONS)
    load = Load()
    await load.meet(connections)
    await drive(connections, load.rank_and_click, 3.0)
    costs: dict[str, list[float]] = {"nobody": [], "overview": [], "query": []}
    for _ in range(turns):
        for view, found in costs.items():
            with _viewers(port, view):
                load.reset()
                cpu = cpu_seconds(pid)
                await drive(connections, load.rank_and_click, seconds)
                found.append((cpu_seconds(pid) - cpu) / len(load.rank_times) * 1e6)
    for connection in connections:
        connection.transport.close()
    return [
        {
            "looked at": view,
            "CPU us": round(statistics.median(found)),
            "added": f"{statistics.median(map(operator.truediv, found, costs['nobody'])) - 1:.1%}",
            "of": ", ".join(str(round(one)) for one in found),
        }
        for view, found in costs.items()
    ]


@contextmanager
def _viewers(port: int, view: str) -> Iterator[None]:
    """Streams that somebody reads."""
    if view == "nobody":
        yield
        return
    path = f"/v1/stream?view={view}&sort=impressions&descending=true&query=query%201"
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

    async def read() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        try:
            while await reader.read(2**16):
                pass
        finally:
            writer.close()

    tasks = [asyncio.ensure_future(read()) for _ in range(VIEWERS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
