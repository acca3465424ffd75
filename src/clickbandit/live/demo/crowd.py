"""Simulated people: they ask for lists and click on what they like, late, twice or never, as it is set.

A person who is shown lists by two policies is the same for both: what attracts them and how far down they look is
drawn once, so that only the lists make the difference.
"""

import asyncio
import heapq
import itertools
import random
import time
from collections import deque
from collections.abc import Sequence

from clickbandit.live.async_ranker import AsyncRanker
from clickbandit.live.demo.messages import ArmState, DemoSettings
from clickbandit.live.demo.queries import EXAMINATION, POSITIONS, QUERIES, DemoQuery
from clickbandit.live.http.metrics import Metrics
from clickbandit.live.values import Event, StoreError

_TICK = 0.1
"""Seconds; those who come in one of them are served together."""
_MAX_SECONDS = 180
"""That are shown."""


class Person:
    """Someone with a query: what attracts them, and how far down they look."""

    def __init__(self, draw: random.Random, query: DemoQuery, model: str) -> None:
        self.query = query
        self.model = model
        self._attracted = {
            item: draw.random() < chance for item, chance in zip(query.items, query.attraction, strict=True)
        }
        self._examined = [draw.random() < chance for chance in EXAMINATION]

    def clicks(self, shown: Sequence[str]) -> list[str]:
        """What they click in a list."""
        if self.model == "CM":
            return [item for item in shown if self._attracted[item]][:1]
        seen = zip(shown, self._examined, strict=False)
        return [item for item, examined in seen if examined and self._attracted[item]]


class DemoArm:
    """One policy and its clicks."""

    def __init__(self, policy: str, suffix: str) -> None:
        self.policy = policy
        self.suffix = suffix
        """After the names of its queries."""
        self.impressions = 0
        self.clicks = 0
        self.seconds: deque[tuple[int, int]] = deque(maxlen=_MAX_SECONDS)
        """Impressions and clicks in each second."""
        self._this = [0, 0]

    def count(self, clicks: int) -> None:
        self.impressions += 1
        self.clicks += clicks
        self._this[0] += 1
        self._this[1] += clicks

    def next_second(self) -> None:
        self.seconds.append((self._this[0], self._this[1]))
        self._this = [0, 0]

    def state(self) -> ArmState:
        return ArmState(self.policy, self.suffix, self.impressions, self.clicks, list(self.seconds))


class Crowd:
    """Keeps coming until it is told to stop."""

    def __init__(self, ranker: AsyncRanker, metrics: Metrics, arms: Sequence[DemoArm], seed: int = 0) -> None:
        self.settings = DemoSettings()
        self.arms = list(arms)
        self.best = DemoArm("the best lists", "")
        """What clicks there would be if everyone saw what they like most on top."""
        self._ranker = ranker
        self._metrics = metrics
        self._random = random.Random(seed)
        self._weights = [query.traffic for query in QUERIES]
        self._clicks: list[tuple[float, int, Event]] = []
        """Those on their way: when they arrive, and a number that keeps them in order."""
        self._numbers = itertools.count()

    async def run(self) -> None:
        owed = 0.0
        second = then = time.monotonic()
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            owed = min(owed + self.settings.speed * (now - then), self.settings.speed)
            then = now
            people = self._random.choices(QUERIES, self._weights, k=int(owed))
            owed -= len(people)
            try:
                await asyncio.gather(*(self._visit(query, now) for query in people), self._arrive(now))
            except StoreError:  # the page says so: those who came got nothing
                continue
            if now - second >= 1:
                second = now
                for arm in (*self.arms, self.best):
                    arm.next_second()

    async def _visit(self, query: DemoQuery, now: float) -> None:
        person = Person(self._random, query, self.settings.model)
        luck = random.Random(self._random.random())
        counts = []
        for arm in self.arms:
            started = time.perf_counter()
            shown = await self._ranker.rank(query.name + arm.suffix, query.offered)
            self._metrics.answered("/v1/rank", 200, time.perf_counter() - started)
            self._metrics.listed(shown)
            clicked = person.clicks(shown.items)
            counts.append(len(clicked))
            state = luck.getstate()
            for item in clicked:
                self._send(shown.id, item, luck, now)
            luck.setstate(state)  # the same luck with clicks before every policy
        counts.append(len(person.clicks(query.items[:POSITIONS])))
        for arm, clicks in zip((*self.arms, self.best), counts, strict=True):  # together: they are compared
            arm.count(clicks)

    def _send(self, id: str, item: str, luck: random.Random, now: float) -> None:
        number = next(self._numbers)
        event = Event(id, item, f"click {number}")
        lost, repeated = luck.random() < self.settings.lost, luck.random() < self.settings.repeated
        for _ in range(0 if lost else 2 if repeated else 1):
            delay = luck.expovariate(1 / self.settings.delay) if self.settings.delay > 0 else 0.0
            heapq.heappush(self._clicks, (now + delay, next(self._numbers), event))

    async def _arrive(self, now: float) -> None:
        events = []
        while self._clicks and self._clicks[0][0] <= now:
            events.append(heapq.heappop(self._clicks)[2])
        if events:
            started = time.perf_counter()
            verdicts = await self._ranker.events(events)
            self._metrics.answered("/v1/events", 200, time.perf_counter() - started)
            self._metrics.judged(verdicts)
