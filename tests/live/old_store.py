"""A store as version 0.1 wrote it, and what a ranker said of it then: `data/store-0.1.db` and `data/store-0.1.json`.

`python -m tests.live.old_store FOLDER` writes such a pair with the code at hand, for a version that changes the tables.
"""

import json
import random
import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path

from clickbandit.live import Event, Ranker
from clickbandit.live.stores import open_store

DATA = Path(__file__).parent / "data"
NAME = "store-0.1"
POLICIES = {
    "batched": "batchrank",
    "top": "toprank",
    "sampled": "cts",
    "adversarial": "ranked-exp3",
}
ITEMS = list("ABCDEFG")
NOW = 1_700_000_000.0
SETTINGS = {
    "policy": "batchrank",
    "positions": 3,
    "horizon": 20,
    "window": "30m",
    "holdout": 0.2,
    "seed": 7,
    "grace": 2,
}
N_IMPRESSIONS = 90
N_BATCHED = 200
"""Enough for a snapshot."""
NEWER = (
    *("errors", "shared", "sure", "holdout_week", "holdout_today", "freezing", "units", "unit"),
    *("rewards", "certainty"),
)
"""Fields of values that there were not in version 0.1."""


class Clock:
    """Seconds since 1970."""

    now = NOW

    def __call__(self):
        return self.now


def write(path):
    """Fill a store: clicks in time, twice and late, voids, items that come and go, a freeze, and a reset."""
    clock, chance = Clock(), random.Random(5)
    with Ranker(f"sqlite:///{path}", clock=clock, **SETTINGS) as ranker:
        for query, policy in POLICIES.items():
            ranker.reset(query, policy=policy, window="2h" if query == "top" else None)
        ranker.reset("started over", policy="toprank")
        for n in range(N_BATCHED):
            clock.now += 1
            for query in _asked(n):
                items = ITEMS[: -1 if 20 <= n < 40 else None] + (["new"] if n >= 60 else [])
                shown = ranker.rank(query, items, id=f"{query} {n}")
                clicked = [item for item in shown.items if chance.random() < (0.9 if item in "BD" else 0.1)]
                events = [Event(shown.id, item, timestamp="2023-11-14T22:13:20Z") for item in clicked]
                ranker.events(events * (1 + n % 2))
                if n % 10 == 9:
                    ranker.void(shown.id)
                    ranker.click(shown.id, shown.items[0], event_id=f"late {query} {n}")
                elif n < N_IMPRESSIONS - 4 or 100 < n < N_BATCHED - 4:
                    ranker.settle(shown.id)
            if n == 15:
                ranker.rank("batched", ITEMS, id="ruled", pinned={"A": 2}, excluded=["C"])
            if n == 19:
                ranker.reset("started over", policy="batchrank", horizon=30)
        ranker.freeze("frozen")
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.prune(int(NOW + 50) * 1000, 1000)
        store.prune(int(NOW + N_BATCHED) * 1000, 1)  # the log of a query now starts from its snapshot
    with closing(sqlite3.connect(path)) as file:
        file.execute("pragma journal_mode = delete")
        file.execute("vacuum")
    Path(f"{path}-lock").unlink()


def _asked(n):
    """The queries of a second."""
    if n >= N_IMPRESSIONS:
        return ["batched"]
    return [*POLICIES, *(["started over"] if n < 20 else []), *(["frozen"] if n < 30 else [])]


def said(url):
    """What a ranker says of a store, and of what comes next."""
    clock = Clock()
    clock.now += N_BATCHED + 10
    with Ranker(url, clock=clock, **SETTINGS) as ranker:
        queries = [summary.query for summary in ranker.queries().queries]
        answers = {"before": _all(ranker, queries), "next": []}
        pending = [f"{query} {n}" for query in POLICIES for n in range(N_IMPRESSIONS - 4, N_IMPRESSIONS - 1)]
        for n, id in enumerate(pending):
            answers["next"].append(ranker.void(id) if n % 3 == 2 else ranker.settle(id))
        for n in range(12):
            for query in queries:
                shown = ranker.rank(query, [*ITEMS, "new"], id=f"next {query} {n}")
                verdicts = ranker.events([Event(shown.id, item) for item in shown.items if item in "BE"] * 2)
                answers["next"] += [shown, verdicts, ranker.settle(shown.id)]
        answers["repeated"] = ranker.rank("batched", [*ITEMS, "new"], id="batched 100")
        answers["known"] = ranker.click("top 89", "B", event_id="late top 89")
        answers["after"] = _all(ranker, queries)
    return plain(answers)


def _all(ranker, queries):
    stats = plain(ranker.stats())
    for name in (
        "store_bytes",
        "batches",
        "operations",
        "loaded",
        "checked",
        "damaged",
        "learners",
        "learner_bytes",
        "waiting",
        "clock_skew",
    ):
        del stats[name]  # these depend on the disk and on time
    return {
        "stats": stats,
        "summaries": ranker.queries(),
        "details": [ranker.query(query) for query in queries],
        "histories": [ranker.history(query) for query in queries],
        "verified": [ranker.verify(query) for query in queries],
    }


def plain(value):
    """As JSON has it: values as objects of their fields."""
    names = getattr(type(value), "_fields", None)
    if names is None and is_dataclass(value):
        names = [field.name for field in fields(value)]
    if names is not None:
        return {name: plain(getattr(value, name)) for name in names if name not in NEWER}
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value.isoformat() if isinstance(value, datetime) else value


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write(folder / f"{NAME}.db")
    shutil.copy(folder / f"{NAME}.db", folder / "copy.db")
    text = json.dumps(said(f"sqlite:///{folder}/copy.db"), separators=(",", ":"), ensure_ascii=False)
    (folder / f"{NAME}.json").write_text(text + "\n", encoding="utf-8")
