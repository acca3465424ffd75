"""The demo's people: they click as their click model says, and are the same before every policy."""

import asyncio
import random
from collections import Counter
from typing import NamedTuple

import pytest

from clickbandit.live.demo.crowd import Crowd, DemoArm, Person
from clickbandit.live.demo.messages import DemoSettings
from clickbandit.live.demo.queries import ATTRACTIONS, EXAMINATION, POSITIONS, QUERIES
from clickbandit.live.http.metrics import Metrics

PEOPLE = 20_000


def test_the_shop():
    assert len(QUERIES) == 20
    for query in QUERIES:
        assert len(set(query.items)) == len(query.items) == len(query.attraction)
        assert sorted(query.offered) == sorted(query.items)
        assert list(query.attraction) == sorted(query.attraction, reverse=True)
    assert all(len(attraction) > POSITIONS for attraction in ATTRACTIONS)


@pytest.mark.parametrize("model", ["CM", "PBM"])
def test_people_click_as_their_model_says(model):
    query = QUERIES[0]
    shown = [query.items[k] for k in (2, 0, 4, 1)]
    attraction = [query.attraction[k] for k in (2, 0, 4, 1)]
    draw = random.Random(1)
    counts: Counter[str] = Counter()
    for _ in range(PEOPLE):
        clicked = Person(draw, query, model).clicks(shown)
        assert len(clicked) <= (1 if model == "CM" else POSITIONS)
        counts.update(clicked)
    examined = 1.0
    for k, item in enumerate(shown):
        if model == "PBM":
            examined = EXAMINATION[k]
        chance = examined * attraction[k]
        spread = (chance * (1 - chance) / PEOPLE) ** 0.5
        assert counts[item] / PEOPLE == pytest.approx(chance, abs=4.5 * spread)
        examined *= 1 - attraction[k]


class Shown(NamedTuple):
    id: str
    items: tuple[str, ...]
    source: str = "policy"


class Lists:
    """A ranker that shows the best list to everyone, and keeps what it is told."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.events_seen: list[tuple[str, str, str]] = []

    async def rank(self, query, items):
        self.shown.append(query)
        best = next(one.items for one in QUERIES if query.startswith(one.name))
        return Shown(f"{query} {self.shown.count(query)}", best[:POSITIONS])

    async def events(self, events):
        self.events_seen += [(event.id, event.item, event.event_id) for event in events]
        return []


def come(seconds=0.7, **settings):
    """A crowd before two policies that show the same lists."""
    ranker = Lists()
    crowd = Crowd(ranker, Metrics(), [DemoArm("one", ""), DemoArm("other", " (other)")])
    crowd.settings = DemoSettings(**{"speed": 300, "delay": 0, **settings})

    async def run():
        task = asyncio.create_task(crowd.run())
        await asyncio.sleep(seconds)
        task.cancel()

    asyncio.run(run())
    assert ranker.shown
    return crowd, ranker


def test_the_same_people_come_before_every_policy():
    for model in ("CM", "PBM"):
        crowd, _ = come(model=model)
        one, other = crowd.arms
        assert one.impressions == other.impressions == crowd.best.impressions >= 1
        assert one.clicks == other.clicks == crowd.best.clicks
        assert one.clicks > 0


def test_clicks_are_lost_repeated_and_late():
    _, ranker = come(lost=1)
    assert ranker.events_seen == []
    _, ranker = come(repeated=1)
    assert set(Counter(ranker.events_seen).values()) == {2}
    crowd, ranker = come(delay=30)
    assert len(ranker.events_seen) < sum(arm.clicks for arm in crowd.arms) / 4
