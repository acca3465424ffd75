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
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

QUERIES = {f"query {n}": [f"{n}-{item}" for item in "ABCDEF"[: 2 + n]] for n in range(5)}
EXPIRING = "query 4"
"""Its impressions are left to the window."""
WINDOW = 2.0
POSITIONS = 3
LEARNED = 5
"""Impressions that are learned from between two disturbances, at least."""
RECOVERY = 300.0
"""Seconds that it may take until then, on a machine that does much else besides."""

# --- a worker -----------------------------------------------------------------------------------------------


class Worker:
    """A process that is killed and started again."""

    def __init__(self, store: str, path: str) -> None:
        self.path = path
        program = str(Path(__file__).with_name("kill_serve.py"))
        self.command = [sys.executable, program, store, path]
        self.start()

    def start(self) -> None:
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", "the worker did not start"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


# --- clients ------------------------------------------------------------------------------------------------


class Impression:
    """What a client was told about an impression."""

    def __init__(self, query: str, items: list[str]) -> None:
        self.query = query
        self.items = items
        self.shown: list[str] = []
        self.source = ""
        self.clicked: set[str] = set()
        """Accepted for certain."""
        self.doubtful: set[str] = set()
        """Sent, and known to the ranker, but perhaps too late."""
        self.late: set[str] = set()
        self.outcome = ""


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


class Client(threading.Thread):
    """Sends requests to any worker, one after the other, each until it is answered."""

    def __init__(self, name: str, paths: list[str], stop: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.paths = paths
        self.stop = stop
        self.chance = random.Random(name)
        self.connection: Any = None
        self.impressions: dict[str, Impression] = {}
        self.replies = self.unanswered = 0
        self.slowest = 0.0
        self.pause = 0.0  # seconds between two users
        self.lost = 0.0
        """Share of replies that this client does not wait for, and asks again."""
        self.learned = 0
        """Impressions that were settled."""
        self.error: BaseException | None = None

    def ask(self, method: str, **arguments: Any) -> tuple[Any, bool]:
        """The reply, and whether the request was sent more than once to get it."""
        again = False
        while True:
            try:
                if self.connection is None:
                    with socket.socket(socket.AF_UNIX) as connection:
                        connection.connect(self.chance.choice(self.paths))
                        self.connection = connection.makefile("rwb")
                sent = json.dumps([method, arguments]).encode() + b"\n"
                started = time.monotonic()
                self.connection.write(sent)
                self.connection.flush()
                line = b"" if self.chance.random() < self.lost else self.connection.readline()
                if line.endswith(b"\n"):
                    reply = json.loads(line)
                    if not isinstance(reply, dict) or reply.get("error") != "StoreError":
                        self.replies += 1
                        if method == "rank" and not again:
                            self.slowest = max(self.slowest, time.monotonic() - started)
                        return reply, again
                    time.sleep(0.1)  # the store is away
            except OSError:
                pass
            if self.connection is not None:
                again = True
                self.unanswered += 1
                with contextlib.suppress(OSError):
                    self.connection.close()
                self.connection = None
            time.sleep(0.02)

    def run(self) -> None:
        try:
            while not self.stop.wait(self.pause):
                self.visit()
        except BaseException as error:
            self.error = error

    def visit(self) -> None:
        """One user: a list, some clicks, and how it ends."""
        chance = self.chance
        query = chance.choice(list(QUERIES)[-2 - self.learned :])  # the others come later
        items = QUERIES[query][:]
        chance.shuffle(items)
        id = f"{self.name}-{len(self.impressions)}"
        impression = self.impressions[id] = Impression(query, items)
        reply = self.ask_for(id)
        impression.shown, impression.source = reply[2], reply[5]
        if impression.source == "fallback":
            assert reply[0] != id, f"{id}: a fallback must have an id of its own"
            assert impression.shown == items[:POSITIONS]
            time.sleep(0.05)  # or there would be hardly anything else in an outage
            return
        assert impression.source == "policy", reply
        if chance.random() < 0.3:
            self.check_list(id)
        chosen = [item for item in impression.shown if chance.random() < 0.5]
        self.click(id, [item for item in chosen for _ in range(chance.choice([1, 1, 2]))])
        if query == EXPIRING:
            return
        if chance.random() < 0.2:
            self.click(id, chosen)  # all of it again
        impression.outcome = "void" if chance.random() < 0.2 else "settled"
        self.check_end(id)
        self.learned += impression.outcome == "settled"
        if chance.random() < 0.3:
            for item in impression.shown:
                reply, again = self.ask("click", id=id, item=item, event_id=f"{id}/{item}/late")
                assert reply[0] == "late" or (again and reply[0] == "duplicate"), reply
                impression.late.add(f"{id}/{item}/late")

    def ask_for(self, id: str) -> Any:
        query, items = self.impressions[id].query, self.impressions[id].items
        return self.ask("rank", query=query, items=items, id=id, features=[[ord(i[-1])] for i in items])[0]

    def click(self, id: str, items: list[str]) -> None:
        impression = self.impressions[id]
        events = [{"id": id, "item": item, "event_id": f"{id}/{item}"} for item in items]
        reply, again = self.ask("events", events=events)
        for item, (verdict, *_) in zip(items, reply, strict=True):
            if verdict == "accepted":
                impression.clicked.add(item)
            elif verdict == "late":
                assert impression.query == EXPIRING, reply
                impression.late.add(f"{id}/{item}")
            else:
                assert verdict == "duplicate", reply
                known = item in impression.clicked or f"{id}/{item}" in impression.late
                assert known or again, f"{id}: a click on {item} was never sent before"
                if not known:  # what got no reply had been done
                    (impression.doubtful if impression.query == EXPIRING else impression.clicked).add(item)

    def check_list(self, id: str) -> None:
        impression = self.impressions[id]
        reply: Any = [None] * 5 + ["fallback"]
        while reply[5] == "fallback":  # the store is away
            reply = self.ask_for(id)
        assert reply[2] == impression.shown, f"{id} was {impression.shown}, and is {reply[2]} now"

    def check_end(self, id: str) -> None:
        """Settle or void, for the first time or again; and no click that was acknowledged is missing."""
        impression = self.impressions[id]
        reply, _ = self.ask("settle" if impression.outcome == "settled" else "void", id=id)
        assert reply["outcome"] == impression.outcome, f"{id} is to be {impression.outcome}, found {reply}"
        found = set(reply["clicked"])
        assert impression.clicked <= found <= impression.clicked | impression.doubtful, (
            f"{id}: clicks on {impression.clicked} were accepted (perhaps {impression.doubtful}), found {found}"
        )
        impression.clicked, impression.doubtful = found, set()


# --- the checker --------------------------------------------------------------------------------------------


def check(clients: list[Client]) -> None:
    """Ask for everything again, and count."""
    seen: dict[str, Counter[str]] = {query: Counter() for query in QUERIES}
    observed: dict[str, Counter[str]] = {query: Counter() for query in QUERIES}
    credit: dict[str, Counter[str]] = {query: Counter() for query in QUERIES}
    for client in clients:
        for id, impression in client.impressions.items():
            if impression.source == "fallback":
                reply, _ = client.ask("settle", id=id)
                assert reply.get("error") in ("Unknown", "Conflict"), (
                    f"{id} was not shown, and is learned: {reply}"
                )
                if reply["error"] == "Conflict":  # it was stored all the same, and is void
                    seen[impression.query].update(["impressions", "void"])
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
                assert {verdict for verdict, *_ in reply} == {"duplicate"}, (
                    f"{id}: an event was lost: {reply}"
                )
            count = seen[impression.query]
            count["impressions"] += 1
            count[impression.outcome] += 1
            count["late"] += len(impression.late)
            if impression.outcome == "settled":
                count["clicks"] += len(impression.clicked)
                observed[impression.query].update(impression.shown)
                credit[impression.query].update(impression.clicked)
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
