"""Kills a ranker under load, again and again, and holds every reply that was ever acknowledged against what is left.

    python -m tests.live.kill --kills 100 --store sqlite
    python -m tests.live.kill --kills 100 --store postgresql --workers 3

Workers (one with SQLite, any number with a store that many processes share) serve a ranker over a Unix socket.
Clients rank (new queries start from what others taught), click, repeat themselves, settle, void and let windows pass;
a request that got no reply is sent again until it gets one. Meanwhile a random worker is killed with SIGKILL and
started again. In the end the checker, which knows nothing but requests and replies, asks for everything once more: no
acknowledged reply may be lost or have another outcome now, and the policy, which does nothing but count, must have been
told of each impression exactly once.
"""

import argparse
import contextlib
import multiprocessing
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tests.live.kill_client import QUERIES, Client
from tests.live.kill_serve import WINDOW, serve

LEARNED = 5
"""Impressions that are learned from between two disturbances, at least."""
RECOVERY = 300.0
"""Seconds that it may take until then, on a machine that does much else besides."""
_START = 60.0
"""Seconds that a worker may take to start."""

# --- a worker -----------------------------------------------------------------------------------------------

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["__main__", serve.__module__])


class Worker:
    """A process that is killed and started again, by forking one that has imported everything."""

    process: Any

    def __init__(self, store: str, path: str) -> None:
        self.store = store
        self.path = path
        self.start()

    def start(self) -> None:
        if os.path.exists(self.path):
            os.unlink(self.path)
        here, there = _FORKS.Pipe()
        self.process = _FORKS.Process(target=serve, args=(self.store, self.path, there), daemon=True)
        self.process.start()
        there.close()
        with here:
            assert here.poll(_START), "the worker did not start"
            here.recv()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


# --- the checker --------------------------------------------------------------------------------------------


class Counts:
    """What the ranker must have counted, and its policy been told, by query."""

    def __init__(self) -> None:
        self.seen: dict[str, Counter[str]] = {query: Counter() for query in QUERIES}
        self.observed: dict[str, Counter[str]] = {query: Counter() for query in QUERIES}
        self.credit: dict[str, Counter[str]] = {query: Counter() for query in QUERIES}

    def add(self, other: "Counts") -> None:
        for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True):
            for query, counter in theirs.items():
                mine[query].update(counter)


def check_again(client: Client) -> Counts:
    """Ask for everything again that a client was told, and count."""
    counts = Counts()
    for id, impression in client.impressions.items():
        count = counts.seen[impression.query]
        if impression.source == "fallback":
            reply, _ = client.ask("settle", id=id)
            assert reply.get("error") in ("Unknown", "Conflict"), (
                f"{id} was not shown, and is learned: {reply}"
            )
            if reply["error"] == "Conflict":  # it was stored all the same, and is void
                count.update(["impressions", "void"])
            continue
        impression.outcome = impression.outcome or "settled"
        client.check_list(id)
        client.check_end(id)
        events = [
            *({"id": id, "item": item, "event_id": f"{id}/{item}"} for item in impression.clicked),
            *({"id": id, "item": key.split("/")[1], "event_id": key} for key in impression.late),
        ]
        if events:
            reply, _ = client.ask("events", events=events)
            assert {verdict for verdict, *_ in reply} == {"duplicate"}, f"{id}: an event was lost: {reply}"
        count["impressions"] += 1
        count[impression.outcome] += 1
        count["late"] += len(impression.late)
        if impression.outcome == "settled":
            count["clicks"] += len(impression.clicked)
            counts.observed[impression.query].update(impression.shown)
            counts.credit[impression.query].update(impression.clicked)
    return counts


def check(clients: list[Client]) -> None:
    """Ask for everything again, all clients at once, and hold what they count against what the ranker says."""
    total = Counts()
    with ThreadPoolExecutor(len(clients)) as pool:
        for counts in pool.map(check_again, clients):
            total.add(counts)
    seen, observed, credit = total.seen, total.observed, total.credit
    asker = clients[0]
    for query, count in ((query, count) for query, count in seen.items() if count):
        detail, _ = asker.ask("query", query=query)
        names = ("impressions", "learned", "settled", "voided", "clicks", "late")
        found = {name: detail["summary"][name] for name in names}
        expected = {
            "impressions": count["impressions"],
            "learned": count["settled"],
            "settled": count["settled"],
            "voided": count["void"],
            "clicks": count["clicks"],
            "late": count["late"],
        }
        assert found == expected, f"{query}: found {found}, expected {expected}"
        for entry in detail["learned"]["items"]:
            item = entry["item"]
            told = (entry["observed"], entry["clicks"])
            assert told == (observed[query][item], credit[query][item]), (
                f"{query}: the policy was told {told} of {item}, expected "
                f"{(observed[query][item], credit[query][item])}"
            )
        verified, _ = asker.ask("verify", query=query)
        assert verified is True, f"{query}: the log does not give the state in use"


def kill(worker: Worker, chance: random.Random) -> None:
    worker.kill()
    worker.start()


class Report(NamedTuple):
    """What came of a run in which nothing was lost."""

    impressions: int
    fallbacks: int
    replies: int
    unanswered: int
    slowest: float
    """Seconds that a list took which was answered at the first attempt."""
    learned: int
    """Impressions that were settled and learned from, some of them between any two disturbances."""
    recovery: float
    """Seconds from the end of a disturbance to the next impression that was learned from, at most."""


def report(clients: list[Client], recovery: float) -> Report:
    made = [impression for client in clients for impression in client.impressions.values()]
    return Report(
        len(made),
        sum(impression.source == "fallback" for impression in made),
        sum(client.replies for client in clients),
        sum(client.unanswered for client in clients),
        max(client.slowest for client in clients),
        sum(impression.outcome == "settled" for impression in made),
        recovery,
    )


def wait_for_learning(clients: list[Client]) -> float:
    """Wait until what is shown is learned from again, without anyone's help; how long that took."""
    started = time.monotonic()
    enough = sum(client.learned for client in clients) + LEARNED
    while sum(client.learned for client in clients) < enough:
        took = time.monotonic() - started
        assert took < RECOVERY, f"nothing is learned {took:.0f} seconds after a disturbance"
        if any(client.error for client in clients):
            break
        time.sleep(0.02)
    return time.monotonic() - started


def run(
    store: str,
    kills: int,
    *,
    workers: int = 1,
    n_clients: int = 8,
    seed: int = 0,
    say: Any = print,
    disturb: Callable[[Worker, random.Random], None] = kill,
    lost: float = 0.0,
    make_worker: Callable[[str, str], Worker] = Worker,
    make_client: Callable[[str, list[str], threading.Event], Client] = Client,
) -> Report:
    """Disturb a worker again and again, and check everything in the end."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{n}" for n in range(workers)]
        running = [make_worker(store, path) for path in paths]
        stop = threading.Event()
        clients = [make_client(f"{seed}-{os.getpid()}-{n}", paths, stop) for n in range(n_clients)]
        try:
            for client in clients:
                client.lost = lost
                client.start()
            recovery = 0.0
            for n in range(kills):
                time.sleep(chance.uniform(0.02, 1.0))
                disturb(chance.choice(running), chance)
                recovery = max(recovery, wait_for_learning(clients))
                if any(client.error for client in clients):
                    break
                if n % 10 == 9:
                    say(f"{n + 1} kills, {sum(client.replies for client in clients):,} replies")
            time.sleep(0.5)
            stop.set()
            for client in clients:
                client.join()
                if client.error:
                    raise client.error
            time.sleep(WINDOW)
            for client in clients:
                client.lost = 0.0
            found = report(clients, recovery)
            check(clients)
            say(
                f"{kills} kills of {workers} worker{'s' * (workers > 1)}, {found.impressions:,} impressions, "
                f"{found.replies:,} acknowledged replies, {found.unanswered:,} requests sent again: 0 lost, 0 double"
            )
            return found
        finally:
            stop.set()
            for worker in running:
                worker.kill()
            for client in clients:
                if client.connection is not None:
                    with contextlib.suppress(OSError):
                        client.connection.close()


def main() -> None:
    from tests.live.postgres import new_store

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="sqlite", help="sqlite, postgresql (its own server), or a URL")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with new_store(given.store) as store:
        run(store, given.kills, workers=given.workers, n_clients=given.clients, seed=given.seed)


if __name__ == "__main__":
    main()
