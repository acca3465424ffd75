"""Rewards beyond clicks: what is bought rises, what is only clicked sinks, and every event counts once."""

import json
import random

import pytest

from clickbandit import InputError
from clickbandit.live import Client, Conflict, Event, engine, views
from clickbandit.live.export import rows_of
from clickbandit.live.rewards import Rewards, parse_rewards
from clickbandit.live.settings import RankerSettings
from clickbandit.live.stores import open_reader
from live.conftest import only_sqlite

ITEMS = list("ABCDE")
HOUR, DAY = 3600, 86_400
SHOP = {"rewards": "click=1,purchase=10", "window": "30m", "conversion_window": "3d"}
WORTH = Rewards({"click": 1.0, "purchase": 10.0}, 11.0)


def about(clicks, start="visit"):
    """The id of an impression that is about clicks, or about other events."""
    return next(id for k in range(1000) if WORTH.is_about_clicks(id := f"{start}-{k}") == clicks)


def shop(ranker, clock, days, visits, seed=1):
    """People who click A most and never buy it, and buy half of the other things that they click, a day later."""
    chance = random.Random(seed)
    attraction = dict(zip(ITEMS, (0.9, 0.5, 0.3, 0.2, 0.1), strict=True))
    bought = []
    for _ in range(days):
        events, bought = bought, []
        for _ in range(visits):
            shown = ranker.rank("shoes", ITEMS, id=f"visit-{chance.random()}")
            clicked = [item for item in shown.items if chance.random() < attraction[item]]
            events += [Event(shown.id, item) for item in clicked]
            paid = [item for item in clicked if item != "A" and chance.random() < 0.5]
            bought += [Event(shown.id, item, action="purchase") for item in paid]
        ranker.events(events)
        clock.now += DAY


@only_sqlite
@pytest.mark.parametrize("policy", ["click-ts", "cascade-kl-ucb:feedback=full", "toprank"])
def test_what_is_clicked_most_and_never_bought_sinks(open_ranker, clock, policy):
    """And replaying the log gives what is in use, also in another process that goes on from there."""
    with open_ranker(policy=policy, **SHOP) as ranker:
        shop(ranker, clock, days=4, visits=60)
    ranker = open_ranker(policy=policy, **SHOP)
    assert ranker.verify("shoes")
    shop(ranker, clock, days=5, visits=60, seed=2)
    assert ranker.verify("shoes")
    best = ranker.query("shoes").best
    assert best[0] == "B"
    assert "A" not in best[:2]


@only_sqlite
@pytest.mark.parametrize("policy", ["click-ts", "cascade-kl-ucb:feedback=full", "toprank"])
def test_without_rewards_it_stays_on_top(open_ranker, clock, policy):
    ranker = open_ranker(policy=policy, window="30m")
    shop(ranker, clock, days=9, visits=60)
    assert ranker.query("shoes").best[0] == "A"
    shown = ranker.rank("shoes", ITEMS)
    (verdict,) = ranker.events([Event(shown.id, shown.items[0], action="purchase")])
    assert verdict.verdict == "invalid"
    assert "one of the rewards (none are set), found 'purchase'" in verdict.reason


def test_late_conversions_count_once(open_ranker, clock):
    """Whatever their event ids, before and after a restart, and not after their window."""
    ranker = open_ranker(**SHOP)
    shown = ranker.rank("shoes", ITEMS, id="visit")
    first, second, third = shown.items
    paid = [
        Event("visit", first, "e1", action="purchase"),
        Event("visit", second, action="purchase", amount=0.5),
        Event("visit", second, "e2", action="purchase"),
    ]
    ranker.click("visit", first)
    clock.now += 2 * DAY

    def verdicts(events):
        return [verdict.verdict for verdict in ranker.events(events)]

    assert verdicts([Event("visit", second), *paid[:2]]) == ["late", "accepted", "accepted"]
    assert verdicts(paid) == ["duplicate", "duplicate", "accepted"]
    ranker.close()
    ranker = open_ranker(**SHOP)
    assert verdicts(paid) == ["duplicate"] * 3
    assert ranker.query("shoes").summary.reward == 0
    clock.now += DAY
    late = [Event("visit", third, action="purchase"), Event("visit", first, "e3", action="purchase")]
    assert verdicts(late) == ["late", "late"]
    summary = ranker.query("shoes").summary
    assert (summary.settled, summary.clicks, summary.reward, summary.late) == (1, 1, 26, 3)
    assert verdicts(paid) == ["duplicate"] * 3
    assert ranker.stats().reward == 26
    assert ranker.verify("shoes")


def test_clicks_are_learned_at_once_and_the_rest_when_it_is_known(open_ranker, clock):
    ranker = open_ranker(policy="cascade-kl-ucb:feedback=full", **SHOP)
    clicks, others = about(True), about(False)
    for id in (clicks, others):
        shown = ranker.rank("shoes", ITEMS, id=id)
        ranker.events([Event(id, shown.items[0]), Event(id, shown.items[0], action="purchase")])
        ranker.events([Event(id, shown.items[1])])
    clock.now += HOUR
    assert ranker.stats().learned == 1
    found = {item["item"]: item["clicks"] for item in ranker.query("shoes").learned["items"]}
    assert sum(found.values()) == 2  # of the one that is about clicks
    clock.now += 3 * DAY
    assert (ranker.stats().learned, ranker.stats().settled) == (2, 2)
    found = {item["item"]: item["clicks"] for item in ranker.query("shoes").learned["items"]}
    assert sum(found.values()) == 3  # and the purchase of the other, not its clicks
    assert ranker.verify("shoes")


@only_sqlite
@pytest.mark.parametrize("wait", [0, HOUR, 4 * DAY])
def test_a_user_is_forgotten_at_any_time(open_ranker, clock, sql, wait):
    """Before the window ends, while other events are waited for, and after that."""
    ranker = open_ranker(policy="cascade-kl-ucb", **SHOP)
    ranker.click(about(True), ranker.rank("shoes", ITEMS, id=about(True), user="me").items[0])
    clock.now += min(wait, HOUR)
    ranker.stats()
    clock.now += wait - min(wait, HOUR)
    assert ranker.forget("me") == 1
    assert [sql(f"select * from {table}") for table in ("impressions", "events", "log")] == [[], [], []]
    assert ranker.verify("shoes")


def test_no_list_is_certain_while_purchases_are_outstanding(open_ranker, clock):
    """A list of one item is final from the first; also after others had settled, and the query was reset."""
    ranker = open_ranker(policy="batchrank", positions=1, **SHOP)
    for _ in range(2):
        ranker.reset("shoes")
        for k in range(30):
            ranker.rank("shoes", ["A"], id=about(True, f"{clock.now}-{k}"))
        clock.now += HOUR
        ranker.stats()
        for settled in (False, True):
            detail, (listed,) = ranker.query("shoes"), ranker.queries(include="best").queries
            assert detail.summary.learned == 30
            assert (detail.freezing.ready, listed.best) == (settled, ["A"])
            assert listed.certainty == (1 if settled else None)
            assert ranker.stats().sure == settled
            clock.now += 3 * DAY


@only_sqlite
def test_clicks_that_are_learned_from_and_not_yet_counted_are_clicks(open_ranker, clock, monkeypatch):
    monkeypatch.setattr(views, "SILENT_AFTER", 10)
    ranker = open_ranker(**SHOP)
    for k in range(10):
        id = about(True, f"{k}")
        ranker.click(id, ranker.rank("shoes", ITEMS, id=id).items[0])
    clock.now += HOUR
    ranker.stats()
    summary = ranker.query("shoes").summary
    assert (summary.learned, summary.clicks, summary.state) == (10, 0, "exploring")


@only_sqlite
def test_what_is_settled_by_hand_waits_for_nothing_and_void_comes_too_late(open_ranker, clock):
    ranker = open_ranker(**SHOP)
    for id in ("one", "two"):
        shown = ranker.rank("shoes", ITEMS, id=id)
        ranker.events([Event(id, shown.items[0], action="purchase")])
    assert ranker.settle("one").outcome == "settled"
    assert ranker.stats().reward == 10
    clock.now += HOUR
    with pytest.raises(Conflict, match="is settled already"):
        ranker.void("two")
    (verdict,) = ranker.events([Event("two", shown.items[1], action="purchase")])
    assert verdict.verdict == "accepted"
    clock.now += 3 * DAY
    assert ranker.stats().reward == 30


@only_sqlite
@pytest.mark.parametrize("wait", [0, HOUR])
def test_what_was_accepted_counts_though_rewards_are_switched_off(url, open_ranker, clock, wait):
    """A click counts for what it was worth when its window ended, or else for one."""
    ranker = open_ranker(**{**SHOP, "rewards": "click=2,purchase=10"})
    shown = ranker.rank("shoes", ITEMS, id="visit")
    quiet = ranker.rank("shoes", ITEMS, id="other")
    ranker.events([Event("visit", shown.items[0]), Event("visit", shown.items[1], action="purchase")])
    clock.now += wait
    ranker.stats()
    ranker.close()
    ranker = open_ranker(window="30m")
    clock.now += 4 * DAY
    click = 2 if wait else 1
    assert ranker.stats().reward == 10 + click
    reader = open_reader(url)
    rows = {row["impression"]: (row["reward"], row["rewards"]) for row in rows_of(reader.decisions(0, 10))}
    reader.close()
    assert rows == {"visit": (10 + click, [click, 10, 0]), quiet.id: (0, [0, 0, 0])}
    assert ranker.query("shoes").summary.learned == 2


@only_sqlite
def test_lateness_goes_by_the_clock_and_not_by_the_backlog(open_ranker, clock, monkeypatch):
    monkeypatch.setattr(engine, "_MAX_DUE", 1)
    ranker = open_ranker(**{**SHOP, "rewards": "purchase=1"})
    lists = [ranker.rank("shoes", ITEMS) for _ in range(8)]
    clock.now += HOUR
    ranker.stats()
    clock.now += 3 * DAY
    (verdict,) = ranker.events([Event(lists[-1].id, lists[-1].items[0], action="purchase")])
    assert verdict.verdict == "late"
    assert ranker.stats().reward == 0
    shown = ranker.rank("shoes", ITEMS)
    ranker.events([Event(shown.id, shown.items[0]), Event(shown.id, shown.items[0], action="purchase")])
    ranker.settle(shown.id)
    assert (ranker.stats().clicks, ranker.stats().reward) == (1, 1)  # a click alone is worth nothing


def test_what_a_policy_is_told_has_the_rewards_probability():
    worth = parse_rewards("click=1,add_to_cart=3,purchase=10", 20.0)
    ids, items, earned = [f"i{k}" for k in range(20_000)], ["A", "B", "C"], [0.0, 3.0, 19.0]
    told = [7 if worth.is_about_clicks(id) else worth.draw(id, items, earned) for id in ids]
    for k, other in enumerate(earned):
        chance = (1 + other) / 20
        found = sum(mask >> k & 1 for mask in told) / len(told)
        assert abs(found - chance) < 4 * (chance * (1 - chance) / len(told)) ** 0.5 + 1e-9
    assert told == [7 if worth.is_about_clicks(id) else worth.draw(id, items, earned) for id in ids]
    both = sum(mask & 3 == 3 for mask in told) / len(told)
    assert abs(both - 1 / 20) < 0.01  # about clicks: else A earned nothing


def test_export_and_comparison_are_of_rewards(url, open_ranker, clock):
    ranker = open_ranker(holdout=0.5, rewards="click=1,purchase=2", max_reward=50.0)
    sides = {"policy": [], "holdout": []}
    for k in range(120):
        shown = ranker.rank("shoes", ITEMS, id=f"i{k}")
        events = [Event(shown.id, shown.items[0])]
        if k % 3 == 0:
            events.append(Event(shown.id, shown.items[1], action="purchase", amount=1.5 + k % 2))
        ranker.events(events)
        sides[shown.source].append(1 + (k % 3 == 0) * 2 * (1.5 + k % 2))
    clock.now += HOUR
    holdout = ranker.stats().holdout
    for arm, side in ((holdout.treated, "policy"), (holdout.held_out, "holdout")):
        assert (arm.impressions, arm.reward) == (len(sides[side]), sum(sides[side]))
        assert arm.per_impression.low < sum(sides[side]) / len(sides[side]) < arm.per_impression.high
    reader = open_reader(url)
    rows = {row["impression"]: row for row in rows_of(reader.decisions(0, 1000))}
    reader.close()
    assert (rows["i0"]["clicks"], rows["i0"]["rewards"], rows["i0"]["reward"]) == ([1, 0, 0], [1, 3, 0], 4)
    assert (rows["i1"]["rewards"], rows["i1"]["reward"]) == ([1, 0, 0], 1)
    assert (
        sum(row["reward"] for row in rows.values()) == ranker.stats().reward == sum(map(sum, sides.values()))
    )


def test_over_http_and_as_ubi(open_service):
    service = open_service({"rewards": "click=1,purchase=10"})
    items = [item["id"] for item in service.rank(id="visit")["items"]]
    sent = [
        {"id": "visit", "item": items[0], "action": "purchase", "amount": 2},
        {"id": "visit", "item": items[0], "action": "view"},
        {"id": "visit", "item": items[0], "action": "purchase", "amount": -1, "event_id": "x"},
        {
            "action_name": "purchase",
            "query_id": "visit",
            "event_attributes": {"object": {"object_id": items[1]}},
        },
    ]
    results = service.post("/v1/events", {"events": sent}).json["results"]
    assert [one["verdict"] for one in results] == ["accepted", "invalid", "invalid", "accepted"]
    assert "(click, purchase), found 'view'" in results[1]["reason"]
    assert "amount must be a number from 0" in results[2]["reason"]
    with Client(service.url) as client:
        event = Event("visit", items[2], action="purchase", amount=3)
        assert [one.verdict for one in client.events([event, event])] == ["accepted", "duplicate"]
        client.settle("visit")
        assert client.stats().reward == 60
    assert service.get("/v1/stats").json["rewards"] == "click=1,purchase=10"
    assert json.loads(service.get("/v1/export").body)["rewards"] == [20, 10, 30]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rewards": "click"}, "a number from 0 for each action once"),
        ({"rewards": "click=1,click=2"}, "found 'click=2'"),
        ({"rewards": "click=-1"}, "found 'click=-1'"),
        ({"rewards": "click=0"}, "max_reward must be more"),
        ({"rewards": "click=3,purchase=5", "max_reward": 3.0}, "more than a click is worth, 3, found 3"),
        ({"max_reward": 3.0}, "give rewards too"),
        ({"conversion_window": "3d"}, "events other than clicks"),
        ({"rewards": "click=1", "conversion_window": "3d"}, "events other than clicks"),
        ({**SHOP, "conversion_window": "1m"}, "at least the window, 30m, found 1m"),
        ({**SHOP, "conversion_window": "30d"}, "retention must be at least as long"),
    ],
)
def test_settings_that_cannot_be(given, sentence):
    with pytest.raises(InputError, match=sentence.replace("(", r"\(")):
        RankerSettings(**given)
