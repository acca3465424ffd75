"""What a list costs with one worker on PostgreSQL, and with two that have twice the load: processor time.

    python -m benchmarks.workers             # a minute
    python -m benchmarks.workers --seconds 60 --turns 3

Each worker has the load of `benchmarks.live`: the more lists are in a batch, the less each of them costs, so with the
same load two workers cost more than one. They take turns, and of each the best turn counts.
"""

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.live.postgres import database

from benchmarks.live import CONNECTIONS, MEASURED, WARM_UP, Load, connect, cpu_seconds, drive, server


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2, help="against one")
    given = parser.parse_args()
    costs: dict[int, list[tuple[float, float]]] = {1: [], given.workers: []}
    for _ in range(given.turns):
        for workers in costs:
            costs[workers].append(measure(workers, given.seconds))
    best = {workers: min(turns) for workers, turns in costs.items()}
    for workers, (service, postgres) in best.items():
        print(
            f"{workers} workers: {service:.0f} us of the service and {postgres:.0f} us of PostgreSQL a list"
        )
    one, many = best[1], best[given.workers]
    print(f"ratio {many[0] / one[0]:.2f} of the service, {sum(many) / sum(one):.2f} with PostgreSQL")


def measure(workers: int, seconds: float) -> tuple[float, float]:
    """Microseconds a list with its click: of all processes of the service, and of the database."""
    with tempfile.TemporaryDirectory() as folder, database() as running:
        options = (*MEASURED, "--store", running.url, "--workers", str(workers), "--no-log-requests")
        with server(Path(folder), options) as (process, port):
            return asyncio.run(_load(process.pid, running.process.pid, port, seconds, workers))


async def _load(service: int, postgres: int, port: int, seconds: float, workers: int) -> tuple[float, float]:
    await _until_all_answer(service, workers)
    connections = await connect(port, CONNECTIONS * workers)
    load = Load()
    await load.meet(connections)
    await drive(connections, load.rank_and_click, WARM_UP)
    load.reset()
    stats = _stats(port)
    before, started = (cpu_seconds(service), cpu_seconds(postgres)), time.perf_counter()
    await drive(connections, load.rank_and_click, seconds)
    lists, elapsed = len(load.rank_times), time.perf_counter() - started
    used = [cpu_seconds(pid) - then for pid, then in zip((service, postgres), before, strict=True)]
    for connection in connections:
        connection.transport.close()
    batches = _stats(port)["batches"] - stats["batches"]
    print(
        f"{workers} workers: {lists / elapsed:.0f} lists/s, {lists / batches:.1f} a batch, CPU us a list "
        f"{[round(seconds / lists * 1e6) for seconds in used]}",
        flush=True,
    )
    return used[0] / lists * 1e6, used[1] / lists * 1e6


def _stats(port: int) -> dict[str, Any]:
    with urlopen(f"http://127.0.0.1:{port}/v1/stats") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


async def _until_all_answer(service: int, workers: int) -> None:
    """Until as many processes are there and quiet."""
    last = -1.0
    while True:
        await asyncio.sleep(2.0)
        now = cpu_seconds(service)
        if now - last < 0.3:
            return
        last = now


if __name__ == "__main__":
    main()
