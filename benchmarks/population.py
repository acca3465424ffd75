"""Users behind HTTP: does the service learn from them what the simulator says that it should?

    python -m benchmarks.population                          # all six; two hours or three
    python -m benchmarks.population --only click-ts:PBM      # one of them

A `clickbandit serve` of its own is asked for lists for the users of a PBM (query 297115) and of a CM (query 49111), ten
items, five positions, horizon 1M, with ClickTS, BatchRank and TopRank. What happens to them:

- Delays: a click arrives half a second later on average, in any order, in batches of 100, mixed with those of others.
  An impression settles when its window of three seconds ends.
- Repeats: a click in twenty arrives twice.
- Losses: for one list in fifty and one batch of clicks in twenty the answer is lost, so the request is sent again. One
  impression in thirty was never shown: it is made void, though clicks may come for it before and after.

A click itself is never lost for good: users whose clicks get lost are other users, for the simulator too. Nor does any
come after the window, which the service's verdicts show; if the machine stalls and some do, that is said.

`--runs` populations of each kind (each has a query of its own, so other draws) are watched for `--compare`
impressions, void ones aside; the mean of their expected regret is held against the mean of 120 simulated runs of the
same policy and horizon, which learn as late: the store says after which lists each population's were learned from, and
the simulated runs take their turns with these (`benchmarks.lateness`). An average delay would not do: before anything
is settled the service makes lists faster, so more of them are made blindly than wait later on. The first population of
each kind goes on to `--impressions`, and then the list that the service thinks best must be one with the most expected
clicks.
"""

import argparse
import asyncio
import heapq
import json
import math
import os
import random
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.lateness import Lateness, lateness, regret_of
from benchmarks.live import BATCH, Request, connect, post, server
from clickbandit import ClickModel, best_list, load_queries
from clickbandit.compiling.kernel import FloatArray
from clickbandit.live import Client
from clickbandit.live.algorithm import Algorithms
from clickbandit.terminal import print_table

POLICIES = ("click-ts", "batchrank", "toprank")
QUERIES = {"PBM": "297115", "CM": "49111"}

CONNECTIONS = 128
WINDOW = 3.0
DELAY = 0.5
LONGEST_DELAY = 1.5
REPEATED = 1 / 20
LIST_LOST = 1 / 50
ANSWER_LOST = 1 / 20
NEVER_SHOWN = 1 / 30
SIMULATED_RUNS = 120
TOLERANCE = 0.1
MAX_WAITING = 1_000_000
"""Impressions of a query that wait to settle; with fewer of them the delay varies less."""
_WAIT = 0.2
"""Seconds that a click waits for its batch to become full, at most."""
_PAUSE = 0.02
"""Seconds until the next look when there is nothing to send."""


class Kind(NamedTuple):
    """A policy, and the users that it meets."""

    policy: str
    query: str
    model: ClickModel
    items: Sequence[str]
    positions: int
    horizon: int


class Population:
    """The users of one query of the service, and what they have seen."""

    def __init__(self, kind: Kind, run: int, impressions: int, compare: int) -> None:
        self.kind = kind
        self.name = f"{kind.policy}, {kind.model.name} of {kind.query}, run {run}"
        self.impressions = impressions
        self.compare = compare
        self.asked = self.shown = 0
        """Impressions that are not void."""
        self.regret = 0.0
        self.compared_regret = 0.0
        self.clicks = 0
        self.waiting: deque[float] = deque()
        """When the impressions were shown that have not settled."""
        self.best: list[str] = []
        self._number = {item: k for k, item in enumerate(kind.items)}
        self._best = best_list(kind.model, kind.positions)[1]
        self._regrets: dict[tuple[int, ...], float] = {}
        self.chance = random.Random(self.name)

    def has_room(self, now: float) -> bool:
        """Whether one more impression may wait."""
        while self.waiting and self.waiting[0] < now - WINDOW:
            self.waiting.popleft()
        return len(self.waiting) < MAX_WAITING

    def see(self, items: Sequence[str], now: float) -> None:
        """A list was shown to a user who will count."""
        self.regret += self.regret_of(items)
        self.shown += 1
        if self.shown <= self.compare:
            self.compared_regret = self.regret
        self.waiting.append(now)

    def regret_of(self, items: Sequence[str]) -> float:
        ranking = tuple(self._number[item] for item in items)
        if ranking not in self._regrets:
            self._regrets[ranking] = self._best - self.kind.model.reward(ranking)
        return self._regrets[ranking]

    def choose(self, items: Sequence[str]) -> list[str]:
        """What a user clicks: from the definitions of the two models, not by the library's code."""
        model: Any = self.kind.model
        chance = self.chance.random
        clicked = []
        for k, item in enumerate(items):
            attraction = model.attraction[self._number[item]]
            if model.name == "PBM":
                if chance() < attraction and chance() < model.examination[k]:
                    clicked.append(item)
            elif chance() < attraction:
                return [item]
        return clicked


class Traffic:
    """What to send next, for all populations in turn."""

    def __init__(self, populations: Sequence[Population], chance: random.Random) -> None:
        self.verdicts: Counter[str] = Counter()
        """By what is to be expected of an impression: "shown late" there should be none."""
        self._chance = chance
        self._to_show = deque(populations)
        self._arriving: list[tuple[float, int, str, bytes]] = []
        self._batch: list[bytes] = []
        self._batch_since = 0.0
        self._voids: list[tuple[float, str]] = []
        self._void: set[str] = set()
        self._impressions = 0
        self._events = 0

    def work(self) -> Request | None:
        """The next request; None if there is nothing to do at this moment."""
        now = time.perf_counter()
        while self._arriving and self._arriving[0][0] <= now:
            self._batch.append(heapq.heappop(self._arriving)[3])
            self._batch_since = self._batch_since or now
        if len(self._batch) >= BATCH or (self._batch and now > self._batch_since + _WAIT):
            return self._send_batch()
        if self._voids and self._voids[0][0] <= now:
            id = heapq.heappop(self._voids)[1]
            return Request(post(f"/v1/impressions/{id}/void", b""), lambda answer, seconds: None)
        for _ in range(len(self._to_show)):
            population = self._to_show[0]
            self._to_show.rotate(-1)
            if population.has_room(now):
                return self._rank(population)
        return None

    @property
    def is_over(self) -> bool:
        return not (self._to_show or self._arriving or self._batch or self._voids)

    def _rank(self, population: Population) -> Request:
        self._impressions += 1
        id = f"i{self._impressions}"
        body = {"query": population.name, "items": population.kind.items, "id": id}
        request = post("/v1/rank", json.dumps(body).encode())
        # decided before the list is known, so that the lists which count are no choice among lists
        never_shown = self._chance.random() < NEVER_SHOWN
        if never_shown:
            self._void.add(id)
        else:
            population.asked += 1
            if population.asked == population.impressions:
                self._to_show.remove(population)
        first: list[bytes] = []

        def shown(answer: bytes, seconds: float) -> Request | None:
            if not first and self._chance.random() < LIST_LOST:
                first.append(answer)
                return Request(request, shown)
            assert not first or first[0] == answer, (first, answer)
            self._visit(population, id, [item["id"] for item in json.loads(answer)["items"]])
            return None

        return Request(request, shown)

    def _visit(self, population: Population, id: str, items: list[str]) -> None:
        now = time.perf_counter()
        chance = self._chance
        clicked = population.choose(items)
        if id in self._void:
            heapq.heappush(self._voids, (now + min(chance.expovariate(1 / DELAY), LONGEST_DELAY), id))
        else:
            population.see(items, now)
            population.clicks += len(clicked)
        for item in clicked:
            event = json.dumps({"id": id, "item": item, "event_id": f"{id}/{item}"}).encode()
            for _ in range(2 if chance.random() < REPEATED else 1):
                self._events += 1
                arrives = now + min(chance.expovariate(1 / DELAY), LONGEST_DELAY)
                heapq.heappush(self._arriving, (arrives, self._events, id, event))

    def _send_batch(self) -> Request:
        request = post("/v1/events", b'{"events":[%b]}' % b",".join(self._batch[:BATCH]))
        del self._batch[:BATCH]
        self._batch_since = time.perf_counter() if self._batch else 0.0
        again = self._chance.random() < ANSWER_LOST

        def judged(answer: bytes, seconds: float) -> Request | None:
            nonlocal again
            for result in json.loads(answer)["results"]:
                void = result["event_id"].partition("/")[0] in self._void
                self.verdicts[f"{'void' if void else 'shown'} {result['verdict']}"] += 1
            if again:
                again = False
                return Request(request, judged)
            return None

        return Request(request, judged)


class Outcome(NamedTuple):
    """How one kind fared."""

    kind: Kind
    regret: list[float]
    """Of each population, over the impressions compared."""
    late: list[Lateness]
    """Of each population, when what was learned meanwhile."""
    best: list[str]
    """The list that the service thinks best in the end, for the population that went on."""
    reached: bool
    """Whether there is no better one."""


def run(
    kinds: Sequence[Kind], *, runs: int, impressions: int, compare: int, folder: Path
) -> tuple[list[Outcome], "Counter[str]"]:
    """Serve populations of these kinds, all at the same time, until all have seen enough."""
    populations = [
        Population(kind, number, compare if number else max(impressions, compare), compare)
        for number in range(runs)
        for kind in kinds
    ]
    settings = ("--window", f"{WINDOW:g}s", "--retention", "1d", "--no-log-requests", "--prior", "none")
    with (
        server(folder, settings) as (_, port),
        Client(f"http://127.0.0.1:{port}", timeout=30) as client,
    ):
        for population in populations:
            kind = population.kind
            client.reset(population.name, policy=kind.policy, positions=kind.positions, horizon=kind.horizon)
        traffic = Traffic(populations, random.Random(1))
        asyncio.run(_send(traffic, port))
        time.sleep(WINDOW)
        for population in populations:
            found = client.query(population.name)
            assert found.summary.learned == population.shown, f"{population.name}: {found.summary}"
            if not traffic.verdicts["shown late"]:
                assert found.summary.clicks == population.clicks, f"{population.name}: {found.summary}"
            assert client.verify(population.name), f"{population.name}: the log gives another state"
            population.best = found.best
    outcomes = []
    for kind in kinds:
        own = [population for population in populations if population.kind is kind]
        outcomes.append(
            Outcome(
                kind,
                [population.compared_regret for population in own],
                [lateness(folder / "clickbandit.db", one.name).until(compare) for one in own],
                own[0].best,
                abs(own[0].regret_of(own[0].best)) < 1e-9,
            )
        )
    return outcomes, traffic.verdicts


async def _send(traffic: Traffic, port: int) -> None:
    connections = await connect(port, CONNECTIONS)
    while not traffic.is_over:
        await asyncio.gather(*(connection.run(traffic.work) for connection in connections))
        await asyncio.sleep(_PAUSE)
    for connection in connections:
        connection.transport.close()


def simulated(kind: Kind, late: Sequence[Lateness]) -> FloatArray:
    """The regret of simulated runs that learn as late."""
    algorithm = Algorithms().add(kind.policy)
    return np.array(
        [
            regret_of(algorithm, kind.model, kind.positions, kind.horizon, late[run % len(late)], run)
            for run in range(SIMULATED_RUNS)
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [f"{policy}:{model}" for policy in POLICIES for model in QUERIES]
    parser.add_argument("--only", action="append", choices=names, help="only this policy and model")
    parser.add_argument("--runs", type=int, default=16, help="populations of each kind")
    parser.add_argument("--compare", type=float, default=5e4, help="impressions whose regret is compared")
    parser.add_argument("--impressions", type=float, default=1e6, help="of the first population of each kind")
    given = parser.parse_args()
    folder = os.environ.get("CLICKBANDIT_SHARED", "shared")
    queries = {query.query: query for query in load_queries(Path(folder) / "queries" / "yandex-10.json")}
    kinds = []
    for name in given.only or names:
        policy, _, model = name.partition(":")
        query = queries[QUERIES[model]]
        kinds.append(Kind(policy, query.query, query.model(model), query.items, 5, 1_000_000))
    compare, impressions = int(given.compare), int(given.impressions)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as store:
        outcomes, verdicts = run(
            kinds, runs=given.runs, impressions=impressions, compare=compare, folder=Path(store)
        )
    seconds = time.perf_counter() - started
    rows = []
    fine = True
    for kind, regret, late, best, reached in outcomes:
        expected = simulated(kind, late)
        ratio = float(np.mean(regret) / expected.mean())
        error = math.hypot(expected.std(ddof=1) / math.sqrt(given.runs), expected.std() / SIMULATED_RUNS**0.5)
        rows.append(
            {
                "policy": kind.policy,
                "model": kind.model.name,
                "waiting": round(float(np.mean([one.waiting.mean() for one in late]))),
                "at first": round(float(np.mean([one.blind for one in late]))),
                "regret": round(float(np.mean(regret))),
                "simulated": round(float(expected.mean())),
                "ratio": f"{ratio:.3f}",
                "standard error": f"{error / expected.mean():.3f}",
                "best list": " ".join(best) if reached else "not reached",
            }
        )
        fine = fine and reached and abs(ratio - 1) < TOLERANCE
    print(
        f"{given.runs} runs of {compare:,} impressions, one of {impressions:,}, in {seconds / 60:.0f} minutes"
    )
    print_table(rows)
    print("clicks:", ", ".join(f"{name} {n:,}" for name, n in sorted(verdicts.items())))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
