"""Kills a ranker while its store is exported and archived, and looks for each settled impression in all files.

    python -m tests.live.export_kill --kills 20

A process ranks, clicks and settles as fast as it can, writes down what was acknowledged, and is killed with SIGKILL;
once with a retention of a second and an archive, once with exports beside it, each going on from the one before. In the
end every impression that was ever settled must be in one file, once, and no other may be in any.
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
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq

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


def run(folder: Path, kills: int, archive: bool) -> tuple[int, int]:
    """How many impressions were acknowledged, and how many are in the files; fails if one is missing or there twice."""
    url, told, old = f"sqlite:///{folder}/clicks.db", folder / "told", folder / "old"
    found: Counter[str] = Counter()
    last = None
    for kill in range(kills):
        load = subprocess.Popen(
            [sys.executable, "-c", LOAD, url, told, str(old) if archive else ""],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert load.stdout is not None
        assert load.stdout.readline() == "ready\n"
        time.sleep(random.uniform(0.5, 2.5))
        if not archive:
            last = export(url, folder / f"{kill}.parquet", last)
        load.send_signal(signal.SIGKILL)
        load.wait()
        load.stdout.close()
    if archive:
        files = sorted(old.glob("*.parquet"))
        last = export(url, folder / "rest.parquet", None)
        files.append(last)
    else:
        export(url, folder / "last.parquet", last)
        files = sorted(folder.glob("*.parquet"))
    for file in files:
        found.update(pq.read_table(file)["impression"].to_pylist())
    acknowledged = set(told.read_text().split())
    with closing(sqlite3.connect(folder / "clicks.db")) as store:
        ((settled,),) = store.execute("select sum(settled) from queries").fetchall()
    twice = [id for id, n in found.items() if n > 1]
    if (
        archive and twice
    ):  # written before a kill, and not deleted yet: gone from one of them with the next pruning
        rest = set(pq.read_table(folder / "rest.parquet")["impression"].to_pylist())
        assert set(twice) <= rest, "an impression is in the archive twice"
        twice = []
    assert not twice, f"{len(twice)} impressions are in two files"
    assert acknowledged <= found.keys(), f"{len(acknowledged - found.keys())} impressions are in no file"
    assert len(found) == settled, f"{settled} were settled, and {len(found)} are in files"
    return len(acknowledged), len(found)


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
    kills = parser.parse_args().kills
    for archive in (True, False):
        with tempfile.TemporaryDirectory(
            dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        ) as folder:
            acknowledged, found = run(Path(folder), kills, archive)
        kind = "archived" if archive else "exported"
        print(
            f"{kills} kills: {acknowledged:,} settlements acknowledged, {found:,} impressions {kind}, each once"
        )


if __name__ == "__main__":
    main()
