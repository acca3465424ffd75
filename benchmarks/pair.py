"""Two versions of the service beside each other, asked in turns: CPU of each thread for a list with its click.

    git worktree add ../before v1.0
    python -m benchmarks.pair ../before . --seconds 40
    python -m benchmarks.pair . ../before --seconds 40

Each is a folder with the package in `src`. Two runs one after the other cannot be compared on a machine with other
work, and which of the two is asked first may matter too: look at both orders. Options that follow `--` are given to
both services.
"""

import argparse
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import uvloop

from benchmarks.live import CONNECTIONS, MEASURED, Connection, Load, connect, drive, server

_TURN = 0.7
"""Seconds."""
_WARM_UP = 8.0


class _Side:
    """One of the two, and what was seen of it."""

    def __init__(self, name: str, pid: int, connections: list[Connection], load: Load) -> None:
        self.name = name
        self._pid = pid
        self._connections = connections
        self._load = load
        self.times: list[float] = []
        self.seconds = 0.0
        self.cpu: dict[str, int] = {}
        """Nanoseconds by thread."""

    async def turn(self, *, counts: bool) -> None:
        self._load.reset()
        before, started = _threads(self._pid), time.perf_counter()
        await drive(self._connections, self._load.rank_and_click, _TURN)
        if counts:
            self.seconds += time.perf_counter() - started
            self.times.extend(self._load.rank_times)
            for thread, used in _threads(self._pid).items():
                self.cpu[thread] = self.cpu.get(thread, 0) + used - before.get(thread, used)

    @property
    def microseconds(self) -> float:
        """For a list."""
        return sum(self.cpu.values()) / len(self.times) / 1000

    def __str__(self) -> str:
        n, times = len(self.times), sorted(self.times)
        ranker, loop = sorted(self.cpu.values())[:-3:-1]
        return (
            f"{self.name}: {self.microseconds:.0f} us of CPU for a list ({ranker / n / 1000:.0f} and "
            f"{loop / n / 1000:.0f} in its busiest threads), {n / self.seconds:,.0f} lists/s, "
            f"p50 {times[n // 2] * 1e3:.1f} ms, p99 {times[int(n * 0.99)] * 1e3:.1f} ms, {n:,} lists"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pair",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs=2, type=Path)
    parser.add_argument("--seconds", type=float, default=40.0, help="for both together")
    parser.add_argument("options", nargs="*", help="of the services, such as --holdout 0.05")
    given = parser.parse_args()
    with ExitStack() as stack:
        served = []
        for folder in given.folders:
            os.environ["PYTHONPATH"] = str(folder.resolve() / "src")
            made = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            process, port = stack.enter_context(server(made, (*MEASURED, *given.options)))
            served.append((str(folder), process.pid, port))
        one, other = uvloop.run(_compare(served, given.seconds))
    print(one, other, f"{other.microseconds / one.microseconds:.3f} times as much", sep="\n")


async def _compare(served: list[tuple[str, int, int]], seconds: float) -> list[_Side]:
    sides = []
    for name, pid, port in served:
        connections, load = await connect(port, CONNECTIONS), Load()
        await load.meet(connections)
        sides.append(_Side(name, pid, connections, load))
    started = time.perf_counter()
    while (elapsed := time.perf_counter() - started) < _WARM_UP + seconds:
        for side in sides:
            await side.turn(counts=elapsed >= _WARM_UP)
    return sides


def _threads(pid: int) -> dict[str, int]:
    """Nanoseconds of CPU of each thread of a process so far."""
    folder = Path(f"/proc/{pid}/task")
    return {
        thread: int((folder / thread / "schedstat").read_text().split()[0]) for thread in os.listdir(folder)
    }


if __name__ == "__main__":
    main()
