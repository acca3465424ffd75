"""Lists and clicks: repeats change nothing, and what is wrong with one is explained and spoils no other."""

import itertools
import random
from datetime import UTC, datetime

import pytest

from clickbandit import InputError, PositionBasedModel, Problem, Run
from clickbandit.live import Conflict, Event, Unknown
from clickbandit.randomness import generators
from naive.recorded import Recorded

ITEMS = list("ABCDEF")
WINDOW = 1800


def verdicts(found):
    return [verdict.verdict for verdict in found]


# --- rank ---------------------------------------------------------------------------------------------------


def test_a_list_is_made_of_the_items(open_ranker, clock):
    shown = open_ranker().rank("shoes", ITEMS)
    assert len(set(shown.items)) == 3
    assert set(shown.items) <= set(ITEMS)
    assert shown.query == "shoes"
    assert shown.policy == "random"
    assert shown.source == "policy"
    assert shown.expires_at == datetime.fromtimestamp(clock.now + WINDOW, UTC)


def test_lists_are_the_simulators_seed_for_seed(open_ranker):
    model = PositionBasedModel(attraction=[0.1, 0.9, 0.3, 0.02, 0.6, 0.5], examination=[1, 0.7, 0.4])
    users = Recorded(model)
    run = Run(Problem("batchrank", users, positions=3, horizon=20, query="shoes", method="step"), seed=7)
    run.rng, _ = generators(7, "shoes", "live", "batchrank", 0)
    ranker = open_ranker(policy="batchrank", horizon=20, seed=7)
    for step in range(400):
        run.advance(1)
        shown = ranker.rank("shoes", ITEMS)
        assert shown.items == tuple(ITEMS[item] for item in run.slots.rankings[0]), step
        ranker.events(
            [
                Event(shown.id, item)
                for item, click in zip(shown.items, run.slots.clicks[0], strict=True)
                if click
            ]
        )
        ranker.settle(shown.id)
    assert ranker.query("shoes").best == [ITEMS[run.numbering.index(item)] for item in run.best()]
    assert run.state.stage.max() > 0  # the first stage is over


def test_the_same_id_again_gives_the_same_list(open_ranker):
    ranker = open_ranker()
    first = ranker.rank("shoes", ITEMS, id="x")
    for _ in range(5):
        assert ranker.rank("shoes", ITEMS, id="x") == first
    assert ranker.query("shoes").summary.impressions == 1
    ranker.settle("x")
    assert ranker.rank("shoes", ITEMS, id="x") == first
    ranker.close()
    assert open_ranker().rank("shoes", ITEMS, id="x") == first


@pytest.mark.parametrize(
    "other",
    [
        {"query": "boots"},
        {"items": ITEMS[::-1]},
        {"items": ITEMS[:5]},
        {"positions": 3},
        {"pinned": {"A": 1}},
        {"excluded": ["B"]},
    ],
)
def test_the_same_id_with_another_request_is_a_conflict(open_ranker, other):
    ranker = open_ranker()
    ranker.rank("shoes", ITEMS, id="x")
    request = {"query": "shoes", "items": ITEMS, "id": "x", **other}
    with pytest.raises(Conflict, match="another request"):
        ranker.rank(**request)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"items": "ABC"}, "must be a list of names"),
        ({"items": ["A", "A"]}, "must be different, found 'A' twice"),
        ({"items": ["A", ""]}, "from 1 to 200 characters"),
        ({"items": ["A", 5]}, "must be text, found int"),
        ({"items": ["A", "x" * 201]}, "found 201"),
        ({"items": ["A", "\ud800"]}, "Unicode text"),
        ({"items": ["A", "B\0C"]}, "without zero characters"),
        ({"items": [str(i) for i in range(1001)]}, "at most 1,000 items, found 1,001"),
        ({"positions": 0}, "from 1 to 50"),
        ({"positions": 51}, "from 1 to 50"),
        ({"positions": True}, "from 1 to 50"),
        ({"query": ""}, "query must have"),
        ({"query": "x" * 1001}, "query must have"),
        ({"query": "鞋" * 834}, "at most 2,500 bytes in UTF-8, found 2,502"),
        ({"id": 5}, "id must be text"),
        ({"pinned": {"Z": 1}}, "must be one of the items"),
        ({"pinned": {"A": 0}}, "from 1 to 50"),
        ({"pinned": {"A": 1, "B": 1}}, "positions of their own"),
        ({"pinned": {"A": 1}, "excluded": ["A"]}, "in both"),
        ({"excluded": [""]}, "an excluded item"),
    ],
)
def test_a_wrong_request_is_explained(open_ranker, request_, message):
    ranker = open_ranker()
    with pytest.raises(InputError, match=message):
        ranker.rank(**{"query": "shoes", "items": ITEMS, **request_})
    assert ranker.stats().queries == 0


def test_requests_at_the_limits_are_served(open_ranker):
    ranker = open_ranker()
    shown = ranker.rank("x" * 1000, [f"{i:0200}" for i in range(1000)], positions=50, id="y" * 200)
    assert len(shown.items) == 50
    assert verdicts(ranker.events([Event(shown.id, shown.items[49], "z" * 200)])) == ["accepted"]
    assert ranker.settle(shown.id).clicked == (shown.items[49],)


def test_names_of_the_most_bytes_are_served(open_ranker):
    """Drawn, because others would fit an index compressed."""
    chance = random.Random(1)
    query, id, item, user, event_id, action = (
        "".join(chr(chance.randrange(0x10000, 0x110000)) for _ in range(n))
        for n in (625, 200, 200, 200, 200, 100)
    )
    ranker = open_ranker(rewards=f"click=1,{action}=1", max_reward=2.0, holdout=0.5, holdout_by="user")
    ranker.reset(query)
    assert ranker.rank(query, [item], id=id, user=user).source != "fallback"
    events = [Event(id, item), Event(id, item, event_id), Event(id, item, action=action)]
    assert verdicts(ranker.events(events)) == ["accepted"] * 3
    assert verdicts(ranker.events(events)) == ["duplicate"] * 3
    assert ranker.settle(id).clicked == (item,)


def test_longer_names_are_refused_where_they_are_new(open_ranker):
    name = "鞋" * 834
    ranker = open_ranker()
    with pytest.raises(InputError, match="at most 2,500 bytes"):
        ranker.reset(name)
    for operation in (ranker.query, ranker.delete):  # an earlier version may have made it
        with pytest.raises(Unknown):
            operation(name)


def test_empty_and_short_lists(open_ranker):
    ranker = open_ranker()
    assert ranker.rank("none", []).items == ()
    assert ranker.rank("one", ["A"]).items == ("A",)
    assert sorted(ranker.rank("two", ["A", "B"]).items) == ["A", "B"]
    for query in ("none", "one", "two"):
        assert ranker.query(query).summary.impressions == 1


def test_positions_belong_to_the_query(open_ranker):
    ranker = open_ranker()
    assert len(ranker.rank("shoes", ITEMS, positions=2).items) == 2
    assert len(ranker.rank("shoes", ITEMS).items) == 2
    with pytest.raises(Conflict, match="has 2 positions, found 3"):
        ranker.rank("shoes", ITEMS, positions=3)
    ranker.reset("shoes", positions=3)
    assert len(ranker.rank("shoes", ITEMS, positions=3).items) == 3


# --- clicks -------------------------------------------------------------------------------------------------


def test_a_click_is_accepted_once(open_ranker):
    ranker = open_ranker()
    shown = ranker.rank("shoes", ITEMS)
    assert ranker.click(shown.id, shown.items[0]).verdict == "accepted"
    assert ranker.click(shown.id, shown.items[0]).verdict == "duplicate"
    assert ranker.click(shown.id, shown.items[0], event_id="e1").verdict == "accepted"  # another event
    assert ranker.click(shown.id, shown.items[0], event_id="e1").verdict == "duplicate"
    assert ranker.click(shown.id, shown.items[1], event_id="e1").verdict == "duplicate"
    settled = ranker.settle(shown.id)
    assert settled.clicked == shown.items[:1]
    assert ranker.query("shoes").summary.clicks == 1


def test_one_bad_event_spoils_nothing(open_ranker):
    ranker = open_ranker()
    shown = ranker.rank("shoes", ITEMS)
    absent = next(item for item in ITEMS if item not in shown.items)
    found = ranker.events(
        [
            Event(shown.id, shown.items[0], "e1"),
            {"id": shown.id, "item": absent, "event_id": "e2"},
            {"id": "no such", "item": "A", "event_id": "e3"},
            {"id": shown.id, "item": shown.items[1], "event_id": "e1"},
            {"id": shown.id, "item": 7, "event_id": "e4"},
            {"id": shown.id, "item": "A", "colour": "red", "event_id": "e5"},
            {"id": shown.id, "item": shown.items[1], "event_id": "e6", "timestamp": "yesterday"},
            {"id": shown.id, "item": shown.items[1], "event_id": "e7", "timestamp": "2024-05-01T12:00:00"},
            5,
            {"id": shown.id, "item": shown.items[1], "event_id": "\x1fe"},
            {"id": shown.id, "item": shown.items[2], "event_id": "e8", "timestamp": "2024-05-01T12:00:00Z"},
        ]
    )
    assert verdicts(found) == [
        "accepted", "invalid", "unknown", "duplicate", *["invalid"] * 6, "accepted",
    ]  # fmt: skip
    assert [verdict.event_id for verdict in found[:8]] == ["e1", "e2", "e3", "e1", "e4", "e5", "e6", "e7"]
    assert all(verdict.reason for verdict in found if verdict.verdict in ("invalid", "unknown"))
    assert ranker.settle(shown.id).clicked == (shown.items[0], shown.items[2])
    assert ranker.stats().events == {"accepted": 2, "invalid": 7, "unknown": 1, "duplicate": 1}


def test_an_invalid_event_may_be_sent_again_in_order(open_ranker):
    ranker = open_ranker()
    assert ranker.click("x", "A", event_id="e").verdict == "unknown"
    shown = ranker.rank("shoes", ITEMS, id="x")
    assert ranker.click("x", shown.items[0], event_id="e").verdict == "accepted"


def test_any_order_and_repetition_of_clicks_gives_the_same(open_ranker, url):
    """Within the window: the learner's bytes, whatever happens to the events on the way."""
    ranker = open_ranker(policy="batchrank", horizon=100)
    results = set()
    for n, order in enumerate(itertools.permutations(range(3))):
        query = f"shoes {n}"
        ranker.reset(query)
        shown = ranker.rank(query, ITEMS, id=f"{n}")
        events = [Event(shown.id, shown.items[k], f"{n}-{k}") for k in (0, 2)]
        for k in order:
            if k < 2:
                ranker.events([events[k]] * (k + 1))
            else:
                ranker.rank(query, ITEMS, id=f"{n}")
        ranker.settle(shown.id)
        detail = ranker.query(query)
        clicked = {shown.items.index(item) for item in ranker.settle(shown.id).clicked}
        results.add((tuple(clicked), detail.summary.clicks, detail.summary.learned))
    assert results == {((0, 2), 2, 1)}


def test_events_in_one_call_are_limited(open_ranker):
    with pytest.raises(InputError, match="at most 10,000"):
        open_ranker().events([Event("x", "A")] * 10_001)


def test_an_event_with_a_number_that_is_too_long_to_be_said(open_ranker):
    ranker = open_ranker()
    shown = ranker.rank("shoes", list("ABCDEF"))
    good = {"id": shown.id, "item": shown.items[0]}
    found = ranker.events([{**good, "timestamp": 10**5000}, good, {"id": "\ud83d", "item": "A"}])
    assert [verdict.verdict for verdict in found] == ["invalid", "accepted", "invalid"]
