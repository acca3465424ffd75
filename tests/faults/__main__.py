"""Everything that can go wrong, again and again, and what came of it.

    python -m tests.faults            # minutes
    python -m tests.faults --full     # hours: at least 1,000 kills on each store
    python -m tests.faults --only disk --write docs/reliability.md

Each fault is done to a ranker or a service under load, many times, while clients write down every reply; the checker
(`tests.live.kill`) then asks for everything once more: nothing acknowledged may be lost, nothing learned twice, nothing
learned that was not shown, and it must have recovered without anyone's help.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.faults import scenarios
from tests.faults.scenarios import Outcome

BEGIN, END = "<!-- python -m tests.faults -->", "<!-- end -->"


class Fault(NamedTuple):
    """Something to try."""

    name: str
    store: str
    run: Callable[[str, int, int], Outcome]
    """With a store, how often, and a seed."""
    times: int
    full: int


FAULTS = (
    Fault("kill -9 of the worker", "sqlite", scenarios.kill_workers, 10, 1000),
    Fault("kill -9 of one of three workers", "postgresql", scenarios.kill_workers, 10, 1000),
    Fault("PostgreSQL shut down at once (SIGQUIT)", "postgresql", scenarios.kill_database, 4, 1000),
    Fault(
        "PostgreSQL stopped for a second, and started again", "postgresql", scenarios.stop_database, 3, 200
    ),
    Fault("the worker stopped (SIGSTOP) for up to a second", "sqlite", scenarios.pause_workers, 5, 200),
    Fault("a worker stopped (SIGSTOP) for up to a second", "postgresql", scenarios.pause_workers, 5, 200),
    Fault("disk full for a second", "sqlite", scenarios.fill_disk, 4, 200),
    Fault("file locked by another program for a second", "sqlite", scenarios.lock_file, 4, 200),
    Fault("file moved away for a second", "sqlite", scenarios.move_file, 4, 200),
    Fault("one in ten replies lost, and asked for again", "sqlite", scenarios.lose_replies, 5, 200),
    Fault("one in ten replies lost, and asked for again", "postgresql", scenarios.lose_replies, 5, 200),
    Fault("a flipped bit in a snapshot", "sqlite", scenarios.flip_snapshots, 40, 2000),
    Fault("a flipped bit in the log", "sqlite", scenarios.flip_log, 40, 2000),
    Fault("hostile connections", "sqlite", scenarios.hostile_connections, 100, 1200),
)


def table(rows: list[tuple[Fault, int, Outcome]]) -> str:
    lines = [
        "| fault | store | times | acknowledged | lost | learned twice or unseen | slowest list | |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    for fault, times, outcome in rows:
        slowest = "" if outcome.slowest is None else f"{outcome.slowest:.2f} s"
        cells = (
            fault.name,
            fault.store,
            f"{times:,}",
            f"{outcome.acknowledged:,}",
            "0",
            "0",
            slowest,
            outcome.note,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="at length")
    parser.add_argument("--only", default="", help="faults whose name contains this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="write the table into this file")
    given = parser.parse_args()
    rows = []
    for number, fault in enumerate(FAULTS):
        if given.only not in f"{fault.name} {fault.store}":
            continue
        times = fault.full if given.full else fault.times
        started = time.monotonic()
        try:
            outcome = fault.run(fault.store, times, random.Random(f"{given.seed} {number}").randrange(2**31))
        except AssertionError as error:
            sys.exit(f"{fault.name}, {fault.store}: {error}")
        rows.append((fault, times, outcome))
        print(
            f"{fault.name}, {fault.store}: {times:,} times in {time.monotonic() - started:.0f} s: {outcome}",
            flush=True,
        )
    made = table(rows)
    print(f"\n{made}")
    if given.write is not None:
        text = given.write.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        given.write.write_text(f"{head}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
