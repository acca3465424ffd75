"""The clients of `kill`: what they ask, and what they were told."""

import contextlib
import json
import random
import socket
import threading
import time
from typing import Any

from tests.live.kill_serve import EXPIRING, POSITIONS

QUERIES = {f"query {n}": [f"{n}-{item}" for item in "ABCDEF"[: 2 + n]] for n in range(5)}


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
        assert reply.get("outcome") == impression.outcome, (
            f"{id} is to be {impression.outcome}, found {reply}"
        )
        found = set(reply["clicked"])
        assert impression.clicked <= found <= impression.clicked | impression.doubtful, (
            f"{id}: clicks on {impression.clicked} were accepted (perhaps {impression.doubtful}), found {found}"
        )
        impression.clicked, impression.doubtful = found, set()
