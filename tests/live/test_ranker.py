"""The ranker keeps its promises: impressions settle once, repeats change nothing, and nothing is lost."""

import asyncio
import itertools
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from clickbandit import InputError, PositionBasedModel, Problem, Run
from clickbandit.live import AsyncRanker, Conflict, Event, Ranker, StoreError, Unknown, engine
from clickbandit.live.values import Closed, LimitReached
from clickbandit.randomness import generators
from live.conftest import only_sqlite

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
    run = Run(Problem("batchrank", model, positions=3, horizon=20, query="shoes", method="step"), seed=7)
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
    assert ranker.query("shoes").best == [ITEMS[item] for item in run.best()]
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


# --- settlement ---------------------------------------------------------------------------------------------


def test_an_impression_settles_when_its_window_is_over(open_ranker, clock):
    ranker = open_ranker()
    shown = ranker.rank("shoes", ITEMS)
    clock.now += WINDOW - 0.001
    assert ranker.click(shown.id, shown.items[0]).verdict == "accepted"
    assert ranker.query("shoes").summary.pending == 1
    clock.now += 0.001
    assert ranker.click(shown.id, shown.items[1]).verdict == "late"
    assert ranker.click(shown.id, shown.items[1]).verdict == "duplicate"
    summary = ranker.query("shoes").summary
    assert (summary.settled, summary.learned, summary.clicks, summary.late) == (1, 1, 1, 1)
    assert ranker.settle(shown.id).clicked == shown.items[:1]
    assert ranker.query("shoes").summary.learned == 1


def test_what_is_due_settles_without_anyone_asking(url, sql):
    with Ranker(url, policy="random", window=0.1) as ranker:
        shown = ranker.rank("shoes", ITEMS)
        for _ in range(100):
            ((outcome,),) = sql("select outcome from impressions")
            if outcome == 1:
                break
            import time

            time.sleep(0.05)
        assert outcome == 1
        assert ranker.click(shown.id, shown.items[0]).verdict == "late"


def test_many_that_are_due_at_once(open_ranker, clock):
    ranker = open_ranker()
    for i in range(1200):
        ranker.rank(f"q{i % 7}", ITEMS)
    clock.now += WINDOW
    assert ranker.stats().settled == 1200
    assert all(ranker.verify(f"q{i}") for i in range(7))


def test_lateness_goes_by_the_clock_and_not_by_the_backlog(open_ranker, clock, monkeypatch):
    monkeypatch.setattr(engine, "_MAX_DUE", 1)
    ranker = open_ranker()
    lists = [ranker.rank("shoes", ITEMS) for _ in range(20)]
    clock.now += WINDOW
    assert ranker.click(lists[-1].id, lists[-1].items[0]).verdict == "late"
    with pytest.raises(Conflict, match="is settled already"):
        ranker.void(lists[-1].id)
    assert ranker.stats().settled == 20


def test_void_is_not_learned_from(open_ranker):
    ranker = open_ranker()
    shown = ranker.rank("shoes", ITEMS)
    ranker.click(shown.id, shown.items[0])
    assert ranker.void(shown.id).outcome == "void"
    assert ranker.void(shown.id).outcome == "void"
    with pytest.raises(Conflict, match="is void already"):
        ranker.settle(shown.id)
    late = ranker.click(shown.id, shown.items[1])
    assert (late.verdict, late.reason) == ("late", "the impression is void")
    summary = ranker.query("shoes").summary
    assert (summary.voided, summary.settled, summary.learned, summary.clicks) == (1, 0, 0, 0)


def test_void_gives_the_place_back(open_ranker):
    """BatchRank shows what a void list showed once more, so that all items are observed equally often."""
    ranker = open_ranker(policy="batchrank", positions=2, horizon=1000)
    first = ranker.rank("shoes", list("ABCD"))
    ranker.void(first.id)
    seen = [item for _ in range(2) for item in ranker.rank("shoes", list("ABCD")).items]
    assert sorted(seen) == list("ABCD")


def test_settled_is_not_void(open_ranker, clock):
    ranker = open_ranker()
    shown = ranker.rank("shoes", ITEMS)
    ranker.settle(shown.id)
    with pytest.raises(Conflict, match="is settled already"):
        ranker.void(shown.id)
    shown = ranker.rank("shoes", ITEMS)
    clock.now += WINDOW
    with pytest.raises(Conflict, match="is settled already"):
        ranker.void(shown.id)


@pytest.mark.parametrize("method", ["settle", "void"])
def test_an_impression_that_never_was(open_ranker, method):
    with pytest.raises(Unknown, match="no impression 'x'"):
        getattr(open_ranker(), method)("x")


# --- queries ------------------------------------------------------------------------------------------------


def test_a_query_that_never_was(open_ranker):
    ranker = open_ranker()
    for method in (ranker.query, ranker.freeze, ranker.unfreeze, ranker.verify):
        with pytest.raises(Unknown, match="no query 'shoes'"):
            method("shoes")


def test_queries_by_the_page(open_ranker):
    ranker = open_ranker()
    for n, name in enumerate(["red shoes", "Blue Shoes", "hats", "red hats"]):
        for _ in range(n + 1):
            ranker.rank(name, ITEMS)

    def names(**page):
        return [entry.query for entry in ranker.queries(**page).queries]

    assert names() == ["Blue Shoes", "hats", "red hats", "red shoes"]
    assert names(search="shoes") == ["Blue Shoes", "red shoes"]
    assert names(search="ED") == ["red hats", "red shoes"]
    assert names(search="%") == []
    assert names(sort="impressions") == ["red shoes", "Blue Shoes", "hats", "red hats"]
    assert names(sort="impressions", descending=True, limit=2) == ["red hats", "hats"]
    assert names(sort="impressions", descending=True, limit=2, offset=2) == ["Blue Shoes", "red shoes"]
    assert ranker.queries(search="red", limit=1).total == 2
    with pytest.raises(InputError, match="sort must be"):
        ranker.queries(sort="policy")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="1 to 1,000"):
        ranker.queries(limit=0)


def test_a_frozen_query_shows_its_best_list_and_does_not_learn(open_ranker):
    ranker = open_ranker(policy="cascade-kl-ucb")
    for _ in range(30):
        shown = ranker.rank("shoes", ITEMS)
        for item in shown.items:
            if item in "CE":
                ranker.click(shown.id, item)
        ranker.settle(shown.id)
    waiting = ranker.rank("shoes", ITEMS)
    best = ranker.query("shoes").best
    assert set(best[:2]) == set("CE")
    assert ranker.freeze("shoes").frozen
    learned = ranker.query("shoes").summary.learned
    for _ in range(5):
        shown = ranker.rank("shoes", ITEMS)
        assert (shown.source, list(shown.items), set(shown.propensities)) == ("frozen", best, {1.0})
        ranker.settle(shown.id)
    assert ranker.query("shoes").summary.learned == learned
    assert list(ranker.rank("shoes", [item for item in ITEMS if item != best[0]]).items[:2]) == best[1:]
    ranker.settle(waiting.id)  # was shown before, and is learned from
    assert ranker.query("shoes").summary.learned == learned + 1
    assert ranker.query("shoes").best == best
    assert not ranker.unfreeze("shoes").frozen
    assert ranker.rank("shoes", ITEMS).source == "policy"
    assert ranker.verify("shoes")


def test_reset_starts_afresh(open_ranker, clock):
    ranker = open_ranker(policy="cascade-kl-ucb")
    before = [ranker.rank("shoes", ITEMS) for _ in range(3)]
    ranker.settle(before[0].id)
    ranker.freeze("shoes")
    summary = ranker.reset("shoes", policy="random", positions=2, horizon=100, window="1m")
    assert (summary.policy, summary.positions, summary.horizon, summary.learned) == ("random", 2, 100, 0)
    assert not summary.frozen
    ranker.settle(before[1].id)  # of the old learner
    assert ranker.query("shoes").summary.learned == 0
    shown = ranker.rank("shoes", ITEMS)
    assert len(shown.items) == 2
    assert shown.expires_at == datetime.fromtimestamp(clock.now + 60, UTC)
    ranker.settle(shown.id)
    detail = ranker.query("shoes")
    assert (detail.summary.learned, detail.summary.settled, detail.generation) == (1, 3, 2)
    assert ranker.verify("shoes")
    assert ranker.reset("boots", policy="ranked-exp3").policy == "ranked-exp3"  # before its first use
    assert ranker.rank("boots", ITEMS).policy == "ranked-exp3"
    ranker.close()
    assert open_ranker().query("shoes").summary.policy == "random"


def test_a_query_keeps_the_settings_that_it_started_with(open_ranker):
    ranker = open_ranker()
    ranker.rank("shoes", ITEMS)
    ranker.close()
    ranker = open_ranker(policy="cascade-kl-ucb", positions=2, horizon=50)
    assert (ranker.rank("shoes", ITEMS).policy, len(ranker.rank("shoes", ITEMS).items)) == ("random", 3)
    assert (ranker.rank("boots", ITEMS).policy, len(ranker.rank("boots", ITEMS).items)) == (
        "cascade-kl-ucb",
        2,
    )


def test_learning_goes_on_past_the_horizon(open_ranker):
    ranker = open_ranker(horizon=5)
    for n in range(7):
        ranker.settle(ranker.rank("shoes", ITEMS).id)
        summary = ranker.query("shoes").summary
        assert (summary.learned, summary.past_horizon) == (n + 1, n + 1 > 5)
    assert ranker.stats().past_horizon == 1


def test_the_number_of_queries_is_limited(open_ranker):
    ranker = open_ranker(max_queries=2)
    for name in ("a", "b"):
        ranker.rank(name, ITEMS)
    with pytest.raises(LimitReached, match="'c' would be a new query"):
        ranker.rank("c", ITEMS)
    with pytest.raises(LimitReached, match="'c' would be a new query"):
        ranker.reset("c")
    ranker.rank("a", ITEMS)
    assert ranker.stats().queries == 2


# --- settings, stores, closing ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": "soon"}, "window must be seconds or text"),
        ({"window": "8d"}, "retention must be at least as long"),
        ({"positions": 51}, "from 1 to 50"),
        ({"horizon": 4}, "horizon must be"),
        ({"holdout": 1.5}, "holdout must be a share"),
        ({"learners": 0}, "learners must be at least 1"),
        ({"policy": "optimal"}, "only a simulation knows"),
        ({"policy": "batchrnk"}, "did you mean batchrank"),
    ],
)
def test_wrong_settings(open_ranker, settings, message):
    with pytest.raises(InputError, match=message):
        open_ranker(**settings)


def test_a_store_must_be_known():
    with pytest.raises(InputError, match=r"a store must be sqlite:///FILE.*found mysql:"):
        Ranker("mysql://localhost/clicks")
    with pytest.raises(InputError, match=r"a store must be a URL.*found 'clicks.db'"):
        Ranker("clicks.db")


@only_sqlite
def test_a_file_of_something_else_is_refused(open_ranker, folder):
    with sqlite3.connect(folder / "clicks.db") as connection:
        connection.execute("create table recipes (name text)")
    with pytest.raises(InputError, match="found other tables"):
        open_ranker()
    (folder / "clicks.db").write_text(
        "no database at all, but a text that is long enough to be read as one" * 9
    )
    with pytest.raises(InputError, match="file is not a database"):
        open_ranker()


@only_sqlite
def test_a_second_process_is_refused(open_ranker, url):
    open_ranker()
    code = f"from clickbandit.live import Ranker; Ranker({url!r}, policy='random')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "is in use by process" in done.stderr
    with pytest.raises(InputError, match="is in use by process"):
        Ranker(url, policy="random")


def test_nothing_is_done_after_closing(open_ranker):
    ranker = open_ranker()
    ranker.rank("shoes", ITEMS)
    ranker.close()
    ranker.close()
    with pytest.raises(Closed):
        ranker.rank("shoes", ITEMS)
    with pytest.raises(StoreError):
        ranker.stats()


def test_a_program_that_never_closes_its_ranker_ends_and_loses_nothing(url):
    program = f"""
import threading
from clickbandit.live import Ranker
ranker = Ranker({url!r}, policy="random", positions=3)
def visit(n):
    for k in range(10):
        shown = ranker.rank("shoes", list("ABCDEF"), id=f"{{n}}-{{k}}")
        assert ranker.click(shown.id, shown.items[0], event_id=shown.id).verdict == "accepted"
threads = [threading.Thread(target=visit, args=[n]) for n in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert ranker.stats().impressions == 30
print("done", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "done\n"
        assert (process.wait(5), process.stderr.read()) == (0, "")
    with Ranker(url, policy="random", positions=3) as ranker:
        lists = [ranker.rank("shoes", ITEMS, id=f"{n}-{k}") for n in range(3) for k in range(10)]
        assert ranker.query("shoes").summary.impressions == 30
        assert {ranker.click(s.id, s.items[0], event_id=s.id).verdict for s in lists} == {"duplicate"}
        assert ranker.verify("shoes")


def test_async(url, clock):
    async def use() -> None:
        async with AsyncRanker(url, policy="random", positions=3, clock=clock) as ranker:
            lists = await asyncio.gather(*[ranker.rank("shoes", ITEMS) for _ in range(50)])
            assert len({shown.id for shown in lists}) == 50
            found = await ranker.events([Event(shown.id, shown.items[0]) for shown in lists])
            assert verdicts(found) == ["accepted"] * 50
            assert (await ranker.click(lists[0].id, lists[0].items[0])).verdict == "duplicate"
            assert (await ranker.settle(lists[0].id)).clicked == lists[0].items[:1]
            assert (await ranker.void(lists[1].id)).outcome == "void"
            with pytest.raises(Conflict):
                await ranker.void(lists[0].id)
            clock.now += WINDOW
            stats = await ranker.stats()
            assert (stats.settled, stats.voided, stats.clicks) == (49, 1, 49)
            assert stats.batches < 30  # many lists were committed together
            assert (await ranker.queries()).total == 1
            assert (await ranker.freeze("shoes")).frozen
            assert not (await ranker.unfreeze("shoes")).frozen
            assert (await ranker.reset("shoes")).learned == 0
            assert (await ranker.query("shoes")).generation == 2
            assert await ranker.verify("shoes")

    asyncio.run(use())
