"""Kills rankers while their store is exported and archived, and looks for each settled impression in all files.

    python -m tests.live.export_kill --kills 20
    python -m tests.live.export_kill --kills 20 --store postgresql --workers 3

Processes rank, click and settle as fast as they can, write down what was acknowledged, and are killed with SIGKILL, all
of them or one while the others go on; once with a retention of a second and an archive, once with exports beside it,
each going on from the one before. In the end every impression that was ever settled must be in one file, once, and no
other may be in any.
"""

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, nullcontext
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
from tests.live.postgres import server

from clickbandit.live import Ranker

LOAD = """
import sys
from clickbandit.live import Ranker
settings = {"retention": "1s", "window": "1s", "archive": sys.argv[3]} if sys.argv[3] else {}
with Ranker(sys.argv[1], policy="random", positions=3, **settings) as ranker, open(sys.argv[2], "a") as told:
    print("ready", flush=True)
    while True:
        shown = ranker.rank("shoes", list("ABCDE"))
        ranker.click(shown.id, shown.items[0])
        ranker.settle(shown.id)
        print(shown.id, file=told, flush=True)
"""


def start(url: str, told: Path, archive: Path | None) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", LOAD, url, told, archive or ""]
    load = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    assert load.stdout is not None
    assert load.stdout.readline() == "ready\n"
    return load


def kill(load: "subprocess.Popen[str]") -> None:
    load.send_signal(signal.SIGKILL)
    load.wait()
    assert load.stdout is not None
    load.stdout.close()


def run(folder: Path, url: str, kills: int, archive: bool, workers: int = 1) -> tuple[int, int]:
    """How many impressions were acknowledged, and how many are in the files; fails if one is missing or there twice."""
    old, last = folder / "old", None
    loads: dict[int, subprocess.Popen[str]] = {}
    for number in range(kills):
        for worker in {*range(workers)} - loads.keys():
            loads[worker] = start(url, folder / f"told-{worker}", old if archive else None)
        time.sleep(random.uniform(0.5, 2.5))
        if not archive:
            last = export(url, folder / f"{number}.parquet", last)
        for worker in random.sample(sorted(loads), random.choice([1, workers])):
            kill(loads.pop(worker))
    for load in loads.values():
        kill(load)
    if archive:
        prune(url, old)
    export(url, folder / "rest.parquet", last)
    files = sorted(folder.glob("*.parquet")) + sorted(old.glob("*.parquet"))
    found: Counter[str] = Counter()
    for file in files:
        found.update(pq.read_table(file)["impression"].to_pylist())
    acknowledged = {id for told in folder.glob("told-*") for id in told.read_text().split()}
    twice = {id for id, n in found.items() if n > 1}
    settled = number_in(url, "sum(settled) from queries")
    assert not twice, f"{len(twice)} impressions are in two files"
    assert acknowledged <= found.keys(), f"{len(acknowledged - found.keys())} impressions are in no file"
    assert len(found) == settled, f"{settled} were settled, and {len(found)} are in files"
    return len(acknowledged), len(found)


def prune(url: str, old: Path) -> None:
    """What was in a file already when its process was killed, and not yet deleted, is deleted by the next one."""
    with Ranker(url, policy="random", positions=3, retention="1s", window="1s", archive=str(old)):
        for _ in range(120):
            if number_in(url, "count(*) from impressions") == 0:
                return
            time.sleep(0.5)


def number_in(url: str, what: str) -> int:
    """As the store has it."""
    connect = (
        sqlite3.connect(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else psycopg.connect(url)
    )
    with closing(connect) as store:
        ((number,),) = store.execute(f"select {what}").fetchall()
    return int(number)


def export(url: str, out: Path, since: Path | None) -> Path:
    more = [] if since is None else ["--since", str(since)]
    command = [sys.executable, "-m", "clickbandit", "export", "--store", url, "--out", str(out), *more]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--workers", type=int, default=1, help="processes; more than one with PostgreSQL")
    options = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    for archive in (True, False):
        with tempfile.TemporaryDirectory(dir=memory) as name:
            folder = Path(name)
            here = nullcontext(f"sqlite:///{folder}/clicks.db")
            with server() if options.store == "postgresql" else here as url:
                acknowledged, found = run(folder, url, options.kills, archive, options.workers)
        kind = "archived" if archive else "exported"
        print(
            f"{options.kills} kills: {acknowledged:,} settlements acknowledged, {found:,} impressions {kind}, each once"
        )


if __name__ == "__main__":
    main()
