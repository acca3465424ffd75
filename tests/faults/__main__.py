"""Everything that can go wrong, again and again, and what came of it.

    python -m tests.faults                       # minutes
    python -m tests.faults --full                # two or three hours: at least 1,000 kills on each store
    python -m tests.faults --full --hours 1      # as far as that goes; the same command goes on from there
    python -m tests.faults --only kill --kills 200 --write docs/reliability.md

Each fault is done to a ranker or a service under load, many times, while clients write down every reply; the checker
(`tests.live.kill`) then asks for everything once more: nothing acknowledged may be lost, nothing learned twice, nothing
learned that was not shown, and between any two faults it must have learned again, without anyone's help. What came
of it is added up in a file (`--state`) after every few faults, so that nothing is lost when this is ended.
"""

import argparse
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.faults import scenarios
from tests.faults.scenarios import Outcome

BEGIN, END = "<!-- python -m tests.faults -->", "<!-- end -->"
SLICE = 25
"""Faults that are done before everything is checked."""


class Fault(NamedTuple):
    """Something to try."""

    name: str
    store: str
    run: Callable[[str, int, int], Outcome]
    """With a store, how often, and a seed."""
    times: int
    full: int
    slice: int = SLICE


SQLITE, POSTGRES = "sqlite", "postgresql"
FAULTS = (
    Fault("kill -9 of the worker", SQLITE, scenarios.kill_workers, 10, 1000),
    Fault("kill -9 of one of three workers", POSTGRES, scenarios.kill_workers, 10, 1000),
    Fault("kill -9 of one of the service's two workers", POSTGRES, scenarios.kill_service_workers, 4, 100),
    Fault("kill -9 of the service's parent process", POSTGRES, scenarios.kill_parent, 3, 100),
    Fault("PostgreSQL shut down at once (SIGQUIT)", POSTGRES, scenarios.kill_database, 4, 300),
    Fault("PostgreSQL stopped for a second, and started again", POSTGRES, scenarios.stop_database, 3, 100),
    Fault("PostgreSQL read-only for a second", POSTGRES, scenarios.make_database_read_only, 3, 100),
    Fault("PostgreSQL stopped (SIGSTOP) for up to three seconds", POSTGRES, scenarios.pause_database, 3, 100),
    Fault("the worker stopped (SIGSTOP) for up to a second", SQLITE, scenarios.pause_workers, 5, 100),
    Fault("a worker stopped (SIGSTOP) for up to a second", POSTGRES, scenarios.pause_workers, 5, 100),
    Fault("disk full for a second", SQLITE, scenarios.fill_disk, 4, 100),
    Fault("file locked by another program for a second", SQLITE, scenarios.lock_file, 4, 100),
    Fault("file moved away for a second", SQLITE, scenarios.move_file, 4, 100),
    Fault("one in ten replies lost, and asked for again", SQLITE, scenarios.lose_replies, 5, 200),
    Fault("one in ten replies lost, and asked for again", POSTGRES, scenarios.lose_replies, 5, 200),
    Fault("requests repeated, late and out of order", SQLITE, scenarios.reorder_replies, 5, 200),
    Fault("requests repeated, late and out of order", POSTGRES, scenarios.reorder_replies, 5, 200),
    Fault("a flipped bit in a snapshot", SQLITE, scenarios.flip_snapshots, 40, 1000, 200),
    Fault("a flipped bit in the log", SQLITE, scenarios.flip_log, 40, 1000, 200),
    Fault("files cut off at any byte", SQLITE, scenarios.truncate_file, 40, 1000, 200),
    Fault("hostile connections", SQLITE, scenarios.hostile_connections, 100, 1200, 300),
)


@dataclass
class Tried:
    """How often a fault was done, and what came of it."""

    times: int = 0
    seconds: float = 0.0
    outcome: Outcome = field(default_factory=Outcome)


class State:
    """What was tried so far, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.tried: dict[str, Tried] = {}
        if path.exists():
            for key, value in json.loads(path.read_text(encoding="utf-8")).items():
                self.tried[key] = Tried(value["times"], value["seconds"], Outcome(**value["outcome"]))

    def of(self, fault: Fault) -> Tried:
        return self.tried.setdefault(f"{fault.name}, {fault.store}", Tried())

    def save(self) -> None:
        written = {key: asdict(tried) for key, tried in self.tried.items()}
        unfinished = self._path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(written, indent=1), encoding="utf-8")
        unfinished.replace(self._path)


def table(state: State) -> str:
    lines = [
        "| fault | store | times | acknowledged | lost | learned twice or unseen | learned from | slowest list "
        "| slowest recovery | |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for fault in FAULTS:
        tried = state.of(fault)
        if tried.times == 0:
            continue
        outcome = tried.outcome
        cells = (
            fault.name,
            fault.store,
            f"{tried.times:,}",
            f"{outcome.acknowledged:,}" if outcome.acknowledged else "",
            "0" if outcome.acknowledged else "",
            "0" if outcome.acknowledged else "",
            f"{outcome.learned:,}" if outcome.learned else "",
            f"{outcome.slowest:.2f} s" if outcome.slowest else "",
            f"{outcome.recovery:.1f} s" if outcome.recovery else "",
            ", ".join(f"{n:,} {what}" for what, n in outcome.counts.items() if n),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def go_on(fault: Fault, wanted: int, state: State, seed: int, end: float) -> None:
    """Do a fault until it was done often enough, or the time is over."""
    tried = state.of(fault)
    while tried.times < wanted and time.monotonic() < end:
        times = min(fault.slice, wanted - tried.times)
        started = time.monotonic()
        chance = random.Random(f"{seed} {fault.name} {fault.store} {tried.times}")
        try:
            outcome = fault.run(fault.store, times, chance.randrange(2**31))
        except AssertionError as error:
            sys.exit(f"{fault.name}, {fault.store}: {error}")
        if ended:
            sys.exit(f"{fault.name}, {fault.store}: a thread ended: {ended[0]}")
        tried.times += times
        tried.seconds += time.monotonic() - started
        tried.outcome = tried.outcome.add(outcome)
        state.save()
        print(
            f"{fault.name}, {fault.store}: {tried.times:,} of {wanted:,} in {tried.seconds:.0f} s", flush=True
        )


ended: list[str] = []
"""Threads of this process that did not catch an error."""


def _ended(args: threading.ExceptHookArgs) -> None:
    ended.append(repr(args.exc_value))
    threading.__excepthook__(args)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="at length")
    parser.add_argument("--kills", type=int, help="do every fault that often")
    parser.add_argument("--hours", type=float, default=1000.0, help="begin nothing after this")
    parser.add_argument("--only", default="", help="faults whose name or store contains this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--state", type=Path, default=Path("faults.json"), help="where results add up (%(default)s)"
    )
    parser.add_argument("--write", type=Path, help="write the table of all results into this file")
    given = parser.parse_args()
    threading.excepthook = _ended
    state, end = State(given.state), time.monotonic() + 3600 * given.hours
    for fault in FAULTS:
        if given.only in f"{fault.name} {fault.store}":
            wanted = given.kills or (fault.full if given.full else fault.times)
            go_on(fault, wanted, state, given.seed, end)
    made = table(state)
    print(f"\n{made}")
    if given.write is not None:
        text = given.write.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        given.write.write_text(f"{head}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
