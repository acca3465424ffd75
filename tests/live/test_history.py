"""What the page is made of, on both stores: states, histories, how late clicks come, and the streams."""

import itertools

import pytest

from clickbandit.live import Event, Unknown, history, methods
from clickbandit.live.history import LOOK_AGAIN, MAX_FRAMES, MAX_POINTS, History, LearnerReport
from clickbandit.live.learner import Learner
from clickbandit.live.stores.rows import DIVIDED, FINISHED, SILENT_AFTER, STUCK_AFTER, UNDIVIDED, QueryRow
from clickbandit.live.stores.sql_reader import STATE
from clickbandit.live.values import Delays
from clickbandit.live.views import state
from live.conftest import only_postgres, only_sqlite
from live.serving import until

ITEMS = tuple("ABCDE")
ATTRACTS = {"A": 1, "B": 1}
"""Clicked whenever they are shown."""


def learn(ranker, query="shoes", n=1, attracts=tuple(ATTRACTS)):
    """Impressions that settle at once."""
    for _ in range(n):
        shown = ranker.rank(query, ITEMS)
        ranker.events([Event(shown.id, item) for item in shown.items if item in attracts])
        ranker.settle(shown.id)


def until_divided(ranker, query="shoes", attracts=tuple(ATTRACTS)):
    """Let it learn until it splits or eliminates, and a moment longer: it is not looked at after every impression."""
    for _ in range(1000):
        learn(ranker, query, 1, attracts)
        learned = ranker.query(query).learned
        if len(learned["groups"]) > 1 or any(item["eliminated"] for item in learned["items"]):
            learn(ranker, query, LOOK_AGAIN // 2, attracts)
            return
    raise AssertionError("it never came to that")


def test_a_query_without_items_has_nothing_to_say(open_ranker, caplog):
    ranker = open_ranker()
    ranker.reset("new")
    ranker.freeze("new")
    assert not caplog.records


def batches(frame):
    return [(group["first"], group["last"], sorted(group["items"])) for group in frame.groups]


def test_a_split_and_an_elimination_are_remembered(open_ranker, clock):
    """With three positions and two items that are clicked, the first test splits these off; C, D and E then fight
    for one position, and stay."""
    ranker = open_ranker(policy="batchrank", horizon=10)
    learn(ranker)
    assert ranker.query("shoes").summary.state == "exploring"
    (first,) = ranker.history("shoes").frames
    assert (first.learned, first.generation, batches(first)) == (0, 1, [(1, 3, list("ABCDE"))])
    clock.now += 60
    until_divided(ranker)
    summary = ranker.query("shoes").summary
    assert summary.state == "splitting"
    frame = ranker.history("shoes").frames[-1]
    assert batches(frame) == [(1, 2, list("AB")), (3, 3, list("CDE"))]
    assert frame.at.timestamp() == clock.now
    assert 0 < summary.learned - frame.learned <= LOOK_AGAIN
    assert frame.learned >= first.learned + 37 * 5 / 3  # 16 log 10 of each of five items at three positions

    # a query of its own, whose three clicked items keep their places while the others go
    until_divided(ranker, "hats", attracts="ABC")
    found = ranker.history("hats")
    assert found.frames[-1].eliminated == ["D", "E"]
    assert batches(found.frames[-1]) == [(1, 3, list("ABC"))]
    assert set(found.evidence) == {"D", "E"}
    for evidence in found.evidence.values():
        assert evidence["clicks"] == 0 == evidence["estimate"] == evidence["low"]
        assert evidence["worse_than"] == 3
        assert 0 < evidence["high"] < 0.5 < evidence["observed"]
        assert evidence["learned"] == found.frames[-1].learned

    # what is remembered of an item that is out does not change, and all of it survives
    evidence, frames = found.evidence, found.frames
    learn(ranker, "hats", 50, "ABC")
    ranker.freeze("hats")
    ranker.close()
    found = open_ranker(policy="batchrank", horizon=10).history("hats")
    assert found.evidence == evidence
    assert found.frames[: len(frames)] == frames
    assert len(found.frames) > len(frames)


@only_postgres
def test_many_rankers_write_one_history(open_ranker):
    """Each sees a change when it next looks, and only the first writes it."""
    rankers = [open_ranker(policy="batchrank", horizon=10) for _ in range(2)]
    for k in range(150):
        learn(rankers[k % 2])
    frames = rankers[0].history("shoes").frames
    assert len({len(frame.groups) for frame in frames}) > 1
    for before, frame in itertools.pairwise(frames):
        assert frame.groups != before.groups
        assert frame.learned > before.learned


def test_freezing_and_starting_afresh_are_remembered(open_ranker):
    ranker = open_ranker(policy="batchrank", horizon=10)
    learn(ranker, n=3)
    ranker.freeze("shoes")
    assert ranker.query("shoes").summary.state == "frozen"
    learn(ranker, n=300)  # by far enough to be stuck, were it not frozen
    ranker.unfreeze("shoes")
    ranker.reset("shoes")
    learn(ranker)
    found = [(frame.generation, frame.frozen, frame.learned) for frame in ranker.history("shoes").frames]
    assert found == [(1, False, 0), (1, True, 3), (1, False, 3), (2, False, 0)]
    assert ranker.query("shoes").summary.state == "exploring"


def test_clicks_are_counted_now_and_then(open_ranker, clock):
    ranker = open_ranker(policy="random")
    for _ in range(8):
        learn(ranker, n=50, attracts="A")
        clock.now += 1
    points = ranker.history("shoes").points
    assert (points[0].settled, points[0].reward) == (0, 0)
    assert len(points) == 4  # then every 256 records, of which an impression makes two
    for before, point in itertools.pairwise(points):
        assert point.at > before.at
        assert point.settled - before.settled == pytest.approx(128, abs=1)
        clicks = point.reward - before.reward
        assert clicks / 128 == pytest.approx(3 / 5, abs=0.15)  # A is one of the three that are shown of five


def test_the_last_impressions(open_ranker, clock):
    ranker = open_ranker()
    for k in range(20):
        clock.now += 1
        shown = ranker.rank("shoes", ITEMS, id=f"i{k}")
        ranker.rank("hats", ITEMS)
        ranker.click(shown.id, shown.items[1])
    ranker.settle("i19")
    ranker.void("i18")
    recent = ranker.history("shoes").impressions
    assert [impression.id for impression in recent] == [f"i{k}" for k in range(19, 7, -1)]
    assert [impression.outcome for impression in recent[:3]] == ["settled", "void", "pending"]
    assert recent[0].clicked == [recent[0].items[1]]
    assert recent[0].at.timestamp() == clock.now
    with pytest.raises(Unknown, match="no query 'x'"):
        ranker.history("x")


def test_late_clicks_suggest_a_window(open_ranker, clock, monkeypatch):
    monkeypatch.setattr(methods, "MAX_SCANNED", 1000)
    ranker = open_ranker(window="10s")
    assert ranker.operations().delays is None
    for k in range(100):
        shown = ranker.rank("shoes", ITEMS)
        clock.now += 2 if k < 60 else 47
        ranker.click(shown.id, shown.items[0])
    delays = ranker.operations().delays
    assert delays == Delays(100, 40, 2.0, 47.0, 60)
    for _ in range(1000 // 100):
        shown = ranker.rank("shoes", ITEMS)
        clock.now += 1
        ranker.events([Event(shown.id, shown.items[0], f"{shown.id} {k}") for k in range(100)])
    delays = ranker.operations().delays
    assert delays == Delays(1000, 0, 1.0, 1.0, None)  # what is long ago does not count


@only_sqlite
def test_purchases_suggest_no_window(open_ranker, clock):
    """Neither those in time nor those that are late; clicks that are late do."""
    ranker = open_ranker(window="10s", rewards="click=1,purchase=9", conversion_window="1h")
    for k in range(30):
        shown = ranker.rank("shoes", ITEMS)
        clock.now += 2
        ranker.click(shown.id, shown.items[0])
        clock.now += 600 if k % 2 else 6000
        ranker.events([Event(shown.id, shown.items[0], action="purchase")])
    assert ranker.operations().delays == Delays(30, 0, 2.0, 2.0, None)
    ranker.click(shown.id, shown.items[1])
    assert ranker.operations().delays == Delays(31, 1, 2.0, 602.0, 900)


def test_what_is_pruned_is_counted(open_ranker, clock):
    ranker = open_ranker(retention="1h")
    learn(ranker, n=20)
    first = ranker.operations()
    assert first.oldest_at.timestamp() == clock.now
    assert (first.window, first.retention) == (1800, 3600)
    clock.now += 7200
    learn(ranker)
    until(lambda: ranker.operations().pruned >= 20)
    assert ranker.operations().oldest_at.timestamp() == clock.now


# --- states -------------------------------------------------------------------------------------------------


@only_sqlite
def test_a_query_is_stuck_when_nothing_is_learned(open_ranker):
    ranker = open_ranker(policy="batchrank")
    for k in range(STUCK_AFTER):
        assert ranker.query("shoes").summary.state == "exploring" if k else True
        ranker.void(ranker.rank("shoes", ITEMS).id)
    assert ranker.query("shoes").summary.state == "stuck"
    learn(ranker)
    assert ranker.query("shoes").summary.state == "exploring"
    learn(ranker, "hats", SILENT_AFTER, attracts=())
    assert ranker.query("hats").summary.state == "stuck"
    assert ranker.queries(state="stuck").queries == [ranker.query("hats").summary]
    assert ranker.stats().states == {"exploring": 1, "stuck": 1}


def test_the_store_and_python_agree_on_states(open_ranker, sql):
    """Of every combination that makes a difference."""
    ranker = open_ranker()
    choices = itertools.product(
        (None, "[]"),
        (UNDIVIDED, DIVIDED, FINISHED),
        (STUCK_AFTER - 1, STUCK_AFTER),
        (
            (SILENT_AFTER - 1, 9999, 0),
            (SILENT_AFTER, SILENT_AFTER, 0),
            (9999, SILENT_AFTER - 1, 0),
            (9999, 9999, 1),
        ),
    )
    rows = []
    for k, (frozen, progress, idle, (learned, settled, clicks)) in enumerate(choices):
        row = QueryRow(k, f"q{k:02}", "random", 3, 10, None, 0, frozen=frozen, learned=learned, clicks=clicks)
        row.progress, row.idle, row.settled = progress, idle, settled
        rows.append(row)
    names = {row.name: row for row in rows}
    with_ = ", ".join(
        f"({row.id}, {'null' if row.frozen is None else repr(row.frozen)}, {row.progress}, {row.idle}, "
        f"{row.learned}, {row.settled}, {row.clicks})"
        for row in rows
    )
    found = sql(
        f"with made (id, frozen, progress, idle, learned, settled, clicks) as (values {with_}) "
        f"select id, {STATE} from made"
    )
    assert dict(found) == {row.id: state(row) for row in rows}
    assert set(dict(found).values()) == {"exploring", "splitting", "settled", "frozen", "stuck"}
    assert len(names) == 48
    assert ranker.queries(state="settled").total == 0


def test_queries_by_state(open_ranker):
    ranker = open_ranker(policy="batchrank", horizon=10)
    for k in range(6):
        ranker.rank(f"query {k}", ITEMS if k < 4 else ["only one"])
    ranker.freeze("query 1")
    names = {
        wanted: [one.query for one in ranker.queries(state=wanted, sort="query").queries]
        for wanted in ("exploring", "frozen", "settled", "splitting")
    }
    assert names == {
        "exploring": ["query 0", "query 2", "query 3"],
        "frozen": ["query 1"],
        "settled": ["query 4", "query 5"],
        "splitting": [],
    }
    page = ranker.queries(state="exploring", search="2")
    assert (page.total, page.queries[0].query) == (1, "query 2")
    with pytest.raises(ValueError, match="state must be exploring, "):
        ranker.queries(state="lost")


# --- it stays small, and costs little -----------------------------------------------------------------------


def test_a_history_is_bounded():
    row = QueryRow(1, "q", "batchrank", 3, 10, None, 0)
    document = History()
    for k in range(300):
        look = object.__new__(LearnerReport)
        look.generation, look.frozen, look.now, look.learned = 1, False, k, k
        names = [f"item {(k + j) % 400} with a long name" for j in range(300)]
        look.groups = [{"first": 1, "last": 3, "items": names}]
        look.items = {name: {"item": name, "eliminated": True, "low": 0.0, "high": 0.1} for name in names}
        look.eliminated = names
        assert document.add(look)
        assert not document.add(look)
        row.settled = k
        document.count(row, k)
    assert len(document.to_bytes()) < 3 * history.MAX_BYTES
    assert 1 <= len(document.frames) <= MAX_FRAMES
    assert document.frames[-1]["learned"] == 299
    assert document.points[0] == [0, 0, 0]
    assert document.points[-1] == [299, 299, 0]
    assert len(document.points) <= MAX_POINTS
    assert History(document.to_bytes()).frames == document.frames


@only_sqlite
def test_looking_is_rare(open_ranker, monkeypatch):
    """A policy says for how long nothing can change, and is not asked before."""
    ranker = open_ranker(policy="batchrank", horizon=10**6)
    looks = 0
    describe = Learner.describe

    def counted(self):
        nonlocal looks
        looks += 1
        return describe(self)

    monkeypatch.setattr(Learner, "describe", counted)
    learn(ranker, n=1000)
    assert looks <= 1000 / 10  # it would be one for each impression that is settled
    assert ranker.verify("shoes")


@only_sqlite
def test_a_policy_that_cannot_say_what_it_learned_goes_on(open_ranker, monkeypatch):
    ranker = open_ranker(policy="batchrank")
    monkeypatch.setattr(Learner, "describe", lambda self: 1 / 0)
    learn(ranker, n=5)
    assert ranker.history("shoes").frames == []
    assert ranker.stats().settled == 5
