"""What lists are chosen from is stored once, whatever else requests say, and goes when nobody was shown it for long."""

import itertools
import sqlite3
import threading
import time
import tracemalloc
from contextlib import closing
from types import SimpleNamespace

from clickbandit.live import Ranker, pruning
from clickbandit.live.stores.contract import SLOTS, Changes, Part
from clickbandit.live.stores.rows import DAY, WEEK, ComparisonRow, OfferRow
from clickbandit.live.stores.sqlite import SqliteStore
from clickbandit.live.transaction import Transaction
from live.serving import until

ITEMS = list("ABCDEF")


def test_the_same_items_are_stored_once(open_ranker, sql):
    """Whatever is said of them, and whichever of them may not be shown."""
    ranker = open_ranker()
    shown = [ranker.rank("shoes", ITEMS, context=[float(n)], features=[[n]] * 6) for n in range(3)]
    shown += [ranker.rank("shoes", ITEMS), ranker.rank("shoes", ITEMS, excluded=["A"], pinned={"B": 2})]
    shown.append(ranker.rank("shoes", ITEMS, scores=[6, 5, 4, 3, 2, 1]))
    assert all(one.source in ("policy", "rules") for one in shown)
    chosen_from = sql("select offers.items from impressions join offers on offers.id = offer")
    assert chosen_from == [('["A", "B", "C", "D", "E", "F"]',)] * 6
    assert sql("select count(*) from offers") == [(1,)]
    ranker.rank("shoes", ITEMS[::-1])
    ranker.rank("hats", ITEMS)
    assert sql("select count(*) from offers") == [(3,)]


def test_an_offer_tells_whose_its_query_is(open_ranker, sql):
    """By which PostgreSQL gives each worker what is due of its own queries."""
    ranker = open_ranker(policy="random")
    for name in ("shoes", "hats", "grüne Hüte", *(f"user{k:05}@example.com" for k in range(60))):
        for items in (ITEMS, ITEMS[::-1]):
            ranker.rank(name, items)
    offers = sql("select offers.id, name from offers join queries on queries.id = query")
    assert len(offers) == 126
    assert min(offers)[0] < -(2**62)  # of 64 bits
    assert max(offers)[0] > 2**62
    for number in range(3):
        part = Part(number, 3)
        mine = [name for id, name in offers if id % SLOTS % part.of == part.number]
        assert sorted(mine) == sorted(name for _, name in offers if part.owner(name) == part.number) != []


def test_an_offer_that_is_known_takes_no_memory_for_the_name_of_its_query():
    """Whose slot is looked up by name, 5,000 of which are kept."""
    learners = SimpleNamespace(knows_offer=lambda id, now: True)
    transaction = SimpleNamespace(settings=SimpleNamespace(seed=0), _offers={}, learners=learners, now=0)

    def make(numbers):
        for n in numbers:
            row = SimpleNamespace(
                name=chr(0x20000 + n) * 1000, id=n, policy="random", positions=3, horizon=100
            )
            Transaction._offer(transaction, row, SimpleNamespace(offer=n.to_bytes(16, "big")))

    tracemalloc.start()
    make(range(5000))
    before, _ = tracemalloc.get_traced_memory()
    make(range(5000, 10_000))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 10e6  # the names are 20 MB


def steps_to_prune(store):
    """How much SQLite has to do to find that nothing is old."""
    steps = itertools.count()
    connection = store.database._connection
    connection.set_progress_handler(lambda: next(steps) and None, 10)
    assert store.prune(10 * WEEK, 1000) == 0
    connection.set_progress_handler(None, 0)
    return next(steps)


def test_what_is_in_use_is_not_looked_at_to_find_what_is_not(folder):
    store = SqliteStore(folder / "clicks.db")
    few = steps_to_prune(store)
    now = 10 * WEEK
    store.begin()
    offers = [OfferRow(n, 1, "[]", "random", 3, 100, 0, now) for n in range(2000)]
    compared = [
        ComparisonRow(1, length, now, 0.1, False, True, f"user {n}", 1, 0, 0)
        for length in (DAY, WEEK, 0)
        for n in range(700)
    ]
    store.save(Changes(offers=offers, comparisons=compared))
    store.commit()
    assert steps_to_prune(store) < few + 50
    store.close()


def test_nobody_waits_for_pruning(folder, clock, caplog, monkeypatch):
    """Lists are made without a store that does not answer, whatever it was asked."""
    caplog.set_level("CRITICAL", "clickbandit.live")
    monkeypatch.setattr(pruning, "PAUSE", 0.0)
    store = SqliteStore(folder / "clicks.db")
    asked, gate = threading.Event(), threading.Event()
    with Ranker(store, policy="random", positions=3, clock=clock, patience=0.2) as ranker:
        prune = store.prune

        def slow_prune(*given):
            asked.set()
            gate.wait(5)
            return prune(*given)

        store.prune = slow_prune
        asked.wait()
        started = time.monotonic()
        assert ranker.rank("shoes", ITEMS).source == "fallback"
        assert time.monotonic() - started < 2
        gate.set()
        until(lambda: ranker.rank("shoes", ITEMS).source == "policy")
    with closing(sqlite3.connect(folder / "clicks.db")) as file, file:
        assert file.execute("select count(*) from impressions").fetchone() == (1,)
