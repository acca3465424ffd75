"""An impression settles once, in time, and what is void is not learned from."""

from concurrent.futures import Future
from contextlib import closing

import pytest

from clickbandit.live import Conflict, Ranker, Unknown, engine
from clickbandit.live.answers import Operation, resolve
from clickbandit.live.requests import FlushRequest, rank_request
from clickbandit.live.stores.sqlite import SqliteStore
from live.serving import until

ITEMS = list("ABCDEF")
WINDOW = 1800


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


def test_lists_and_clicks_settle_what_is_due_every_75_ms(open_ranker, sql, clock, monkeypatch):
    """Whoever asks for anything else finds it settled at once."""
    monkeypatch.setattr(engine, "_IDLE", 60)

    def outcomes_at(milliseconds):
        clock.now = start + milliseconds / 1000
        shown = ranker.rank("others", ITEMS)
        outcomes = [outcome for (outcome,) in sql("select outcome from impressions order by number limit 3")]
        return shown, outcomes

    start, ranker = clock.now, open_ranker()
    lists = [outcomes_at(milliseconds)[0] for milliseconds in (0, 20, 80)]
    due = WINDOW * 1000
    assert outcomes_at(due)[1] == [1, 0, 0]
    assert outcomes_at(due + 74)[1] == [1, 0, 0]
    assert ranker.click(lists[1].id, lists[1].items[0]).verdict == "late"
    assert outcomes_at(due + 75)[1] == [1, 1, 0]
    assert outcomes_at(due + 80)[1] == [1, 1, 0]
    assert ranker.query("others").summary.settled == 3


@pytest.mark.parametrize("cheap", [True, False])
def test_where_it_costs_little_it_settles_after_the_answers(folder, clock, monkeypatch, cheap):
    """From 50 ms after the last look on; else those who come after 75 take it along."""
    monkeypatch.setattr(engine, "_IDLE", 60)
    store = SqliteStore(folder / "clicks.db")
    monkeypatch.setattr(store, "settles_between", cheap)
    with Ranker(store, policy="random", clock=clock) as ranker, closing(store._open()) as other:
        start, answered = clock.now, []

        def outcome():
            return other.rows("select outcome from impressions order by number limit 1")[0][0]

        def sink(results):
            answered.append(outcome())

        def ask_for_two(milliseconds):
            """Whether the first impression had settled when they were answered."""
            clock.now = start + milliseconds / 1000
            ids = (f"{milliseconds} {k}" for k in (1, 2))
            requests = [rank_request("shoes", ITEMS, None, id, None, (), "") for id in ids]
            n = len(answered) + 1
            ranker._core._engine.submit([Operation(one, None, sink) for one in requests])
            until(lambda: len(answered) == n)
            return answered[-1]

        ranker.rank("shoes", ITEMS)
        due = WINDOW * 1000
        assert ask_for_two(due - 10) == 0
        assert ask_for_two(due + 39) == 0
        assert outcome() == 0
        assert ask_for_two(due + 40) == 0
        if cheap:
            until(lambda: outcome() == 1)
        else:
            assert ask_for_two(due + 64) == 0
            assert outcome() == 0
            assert ask_for_two(due + 65) == 1


def test_what_is_due_settles_without_anyone_asking(url, sql):
    with Ranker(url, policy="random", window=0.1) as ranker:
        shown = ranker.rank("shoes", ITEMS)
        until(lambda: sql("select outcome from impressions") == [(1,)])
        assert ranker.click(shown.id, shown.items[0]).verdict == "late"


def test_many_that_are_due_at_once(open_ranker, clock, monkeypatch):
    monkeypatch.setattr(engine, "_MAX_DUE", 100)
    ranker = open_ranker()
    for i in range(240):
        ranker.rank(f"q{i % 7}", ITEMS)
    clock.now += WINDOW
    assert ranker.stats().settled == 240
    assert all(ranker.verify(f"q{i}") for i in range(7))


def test_who_waits_for_all_that_is_due_is_answered_when_the_ranker_closes(folder, clock, monkeypatch):
    monkeypatch.setattr(engine, "_MAX_DUE", 1)
    store = SqliteStore(folder / "clicks.db")
    ranker = Ranker(store, policy="random", positions=3, clock=clock)
    for _ in range(20):
        ranker.rank("shoes", ITEMS)
    its_engine, due = ranker._core._engine, store.due

    def due_while_closing(*args):
        until(lambda: its_engine._closing)
        return due(*args)

    monkeypatch.setattr(store, "due", due_while_closing)
    flushed: Future[None] = Future()
    clock.now += WINDOW
    its_engine.submit([Operation(FlushRequest(), flushed, resolve)])
    ranker.close()
    assert flushed.result(timeout=1) is None
    with Ranker(f"sqlite:///{folder}/clicks.db", policy="random", clock=clock) as again:
        assert again.stats(flush=False).settled == 20


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
