"""When the store or a policy fails: nothing is half done, lists are served in the order given, and it recovers."""

import asyncio
import itertools
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickbandit import Algorithm, Policy
from clickbandit.live import AsyncRanker, Event, Ranker, StoreError, Unknown, pruning
from clickbandit.live import engine as engine_module
from clickbandit.live.stores.sqlite import SqliteStore

ITEMS = list("ABCDEF")


class FaultyStore:
    """A SQLite store that fails on demand, before or after it has done what it was asked."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path)
        self.failing: dict[str, str] = {}
        self.retry = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)
        when = self.failing.get(name)
        if when is None:
            return method

        def fail(*args: Any, **kwargs: Any) -> Any:
            if self.retry:
                del self.failing[name]
            if when == "after":
                method(*args, **kwargs)
            raise StoreError("the disk is on fire", retry=self.retry)

        return fail


@pytest.fixture
def store(folder):
    return FaultyStore(folder / "clicks.db")


@pytest.fixture
def ranker(store, clock, caplog):
    caplog.set_level(logging.CRITICAL)
    with Ranker(store, policy="batchrank", positions=3, horizon=100, clock=clock) as ranker:
        yield ranker


def drive(ranker, n=5):
    for _ in range(n):
        shown = ranker.rank("shoes", ITEMS)
        ranker.click(shown.id, shown.items[0])
        ranker.settle(shown.id)


@pytest.mark.parametrize("method", ["begin", "take_due", "lock", "snapshot", "log", "save", "commit"])
def test_a_list_in_the_given_order_when_the_store_fails(ranker, store, clock, method):
    drive(ranker)
    expected = ranker.query("shoes")
    ranker._core._engine.learners.clear()  # so that snapshot and log are read
    clock.now, store.failing[method] = clock.now + 1, "before"  # when what is due is looked for again
    shown = ranker.rank("shoes", ITEMS, id="x")
    assert (shown.source, shown.items, shown.propensities) == ("fallback", ("A", "B", "C"), (1.0,) * 3)
    shown = ranker.rank("shoes", ITEMS, pinned={"F": 2}, excluded=["A"])
    assert (shown.source, shown.items) == ("fallback", ("B", "F", "C"))
    with pytest.raises(StoreError, match="on fire"):
        ranker.reset("shoes")
    store.failing.clear()
    stats = ranker.stats()
    assert (stats.failures >= 3, stats.ranked["fallback"]) == (True, 2)
    assert ranker.click("x", "A").verdict == "unknown"  # it was not recorded
    assert ranker.query("shoes") == expected
    drive(ranker)
    assert ranker.verify("shoes")
    assert ranker.query("shoes").summary.learned == 10


@pytest.mark.parametrize("method", ["begin", "lock", "save", "commit"])
def test_events_may_be_sent_again_when_the_store_failed(ranker, store, method):
    shown = ranker.rank("shoes", ITEMS)
    store.failing[method] = "before"
    with pytest.raises(StoreError, match="on fire"):
        ranker.click(shown.id, shown.items[0])
    store.failing.clear()
    assert ranker.click(shown.id, shown.items[0]).verdict == "accepted"
    assert ranker.settle(shown.id).clicked == shown.items[:1]


def test_failing_to_prune_is_counted_and_no_more(ranker, store, monkeypatch):
    monkeypatch.setattr(pruning, "PAUSE", 0.0)
    store.failing["prune"] = "before"
    for _ in range(3):
        assert ranker.rank("shoes", ITEMS).source == "policy"
    assert ranker.stats().failures > 0


def test_what_failed_is_as_if_it_had_not_been_asked(ranker, store):
    """The learner in memory saw the batch that failed; the next one starts from the store."""
    drive(ranker, 3)
    first = ranker.rank("shoes", ITEMS)
    store.failing["save"] = "before"
    with pytest.raises(StoreError):
        ranker.settle(first.id)
    assert ranker._core._engine.learners.n_bytes == 0
    for _ in range(3):
        assert ranker.rank("shoes", ITEMS).source == "fallback"
    store.failing.clear()
    assert ranker.query("shoes").summary.pending == 1
    assert ranker.settle(first.id).outcome == "settled"
    assert ranker.query("shoes").records == 1 + 3 * 2 + 2
    assert ranker.verify("shoes")


def test_a_commit_that_only_seemed_to_fail(ranker, store):
    """The list was answered in the given order, but the store has another: it must not be learned from."""
    drive(ranker)
    store.failing["commit"] = "after"
    assert ranker.rank("shoes", ITEMS, id="x").source == "fallback"
    store.failing.clear()
    assert ranker.query("shoes").summary.voided == 1
    assert ranker.click("x", "A").verdict in ("late", "invalid")
    assert ranker.verify("shoes")


def test_asking_again_while_the_store_fails_undoes_nothing(ranker, store):
    """The list was acknowledged before; that the second answer is the given order must not void it."""
    shown = ranker.rank("shoes", ITEMS, id="x")
    gate = threading.Event()
    store.begin = lambda: (gate.wait(1), store.store.begin())
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(ranker.ping)]
        time.sleep(0.1)  # it is being done, and these two will be one batch
        waiting += [pool.submit(ranker.rank, "shoes", ITEMS, id=id) for id in ("x", "y")]
        time.sleep(0.1)
        store.failing["commit"] = "after"
        gate.set()
        assert [one.result().source for one in waiting[1:]] == ["fallback", "fallback"]
    store.failing.clear()
    assert ranker.rank("shoes", ITEMS, id="x") == shown
    assert ranker.click("x", shown.items[0]).verdict == "accepted"
    assert ranker.click("y", "A").verdict in ("late", "invalid")  # it was never shown


def test_failures_that_may_be_tried_again_are(ranker, store):
    drive(ranker)
    for method in ("lock", "save", "commit"):
        store.retry = True
        store.failing[method] = "before"
        assert ranker.rank("shoes", ITEMS).source == "policy"
    stats = ranker.stats()
    assert (stats.failures, stats.impressions) == (0, 8)
    assert ranker.verify("shoes")


def test_what_is_due_settles_once_the_store_is_back(ranker, store, clock):
    shown = ranker.rank("shoes", ITEMS)
    ranker.click(shown.id, shown.items[0])
    clock.now += 3600
    store.failing["save"] = "before"
    assert ranker.rank("shoes", ITEMS).source == "fallback"
    store.failing.clear()
    summary = ranker.query("shoes").summary
    assert (summary.settled, summary.clicks, summary.impressions) == (1, 1, 1)


def test_a_store_that_does_not_answer(folder, clock, caplog):
    """Lists are served without it; what it did all the same is void."""
    caplog.set_level(logging.CRITICAL)
    store = FaultyStore(folder / "clicks.db")
    gate = threading.Event()
    commit = store.store.commit

    def slow_commit() -> None:
        gate.wait()
        commit()

    async def use() -> None:
        async with AsyncRanker(store, policy="random", positions=3, clock=clock, patience=0.2) as ranker:
            await ranker.rank("shoes", ITEMS)
            store.store.commit = slow_commit
            first = asyncio.create_task(ranker.rank("shoes", ITEMS, id="first"))
            await asyncio.sleep(0.05)
            others = [asyncio.create_task(ranker.rank("shoes", ITEMS, id=f"{n}")) for n in range(5)]
            event = asyncio.create_task(ranker.click("first", "A"))
            for task in (first, *others):
                shown = await task
                assert (shown.source, shown.items) == ("fallback", ("A", "B", "C"))
            assert not event.done()
            gate.set()
            assert (await event).verdict in ("late", "invalid")  # void, and perhaps with other items
            stats = await ranker.stats()
            assert (stats.impressions, stats.voided) == (2, 1)
            assert stats.ranked["fallback"] == 6
            assert (await ranker.rank("shoes", ITEMS)).source == "policy"

    asyncio.run(use())


def test_a_list_that_was_answered_without_the_store_is_not_stored_afterwards(folder, clock, caplog):
    """Not even to be void in the next transaction, before which the process may be killed."""
    caplog.set_level(logging.CRITICAL)
    store = FaultyStore(folder / "clicks.db")
    save, stored = store.store.save, []

    def slow_save(changes) -> None:
        stored.append([impression.id for impression in changes.impressions])
        save(changes)
        if stored[-1] == ["late"]:
            time.sleep(0.6)

    async def use() -> None:
        async with AsyncRanker(store, policy="random", positions=3, clock=clock, patience=0.2) as ranker:
            await ranker.rank("shoes", ITEMS)
            store.store.save = slow_save
            assert (await ranker.rank("shoes", ITEMS, id="late")).source == "fallback"
            await asyncio.sleep(0.7)
            with pytest.raises(Unknown):
                await ranker.settle("late")
            assert (await ranker.stats()).impressions == 1

    asyncio.run(use())
    assert stored[0] == ["late"]


def test_too_many_who_wait_get_the_order_given(store, clock, monkeypatch):
    monkeypatch.setattr(engine_module, "MAX_WAITING", 10)

    async def use() -> None:
        async with AsyncRanker(store, policy="random", positions=3, clock=clock) as ranker:
            lists = await asyncio.gather(*[ranker.rank("shoes", ITEMS) for _ in range(500)])
            fallbacks = sum(shown.source == "fallback" for shown in lists)
            stats = await ranker.stats()
            assert 0 < fallbacks == stats.ranked["fallback"]
            assert stats.impressions == 500 - fallbacks

    asyncio.run(use())


# --- policies that fail -------------------------------------------------------------------------------------


class Grumpy(Policy):
    """Fails when it is told to, after it has changed its state."""

    fails = ""

    @staticmethod
    def init(n_items, n_positions, *, horizon):
        from collections import namedtuple

        return namedtuple("State", ["count"])(np.zeros(n_items))

    @staticmethod
    def memo_size(n_items, n_positions):
        return 0

    @staticmethod
    def rank(state, rng, ranking, memo):
        state.count[0] += 1
        if Grumpy.fails == "rank":
            raise RuntimeError("no")
        ranking[:] = np.argsort(-state.count, kind="stable")[: len(ranking)]

    @staticmethod
    def update(state, ranking, clicks, memo):
        state.count[ranking] += clicks
        if Grumpy.fails == "update":
            raise RuntimeError("no")

    @staticmethod
    def best(state, ranking):
        if Grumpy.fails == "best":
            raise RuntimeError("no")
        ranking[:] = np.argsort(-state.count, kind="stable")[: len(ranking)]

    algorithm = Algorithm(init, memo_size, rank, update, best)


@pytest.fixture
def grumpy(open_ranker, caplog):
    caplog.set_level(logging.CRITICAL + 1)
    yield open_ranker(policy=Grumpy())
    Grumpy.fails = ""


def test_a_plain_python_policy_of_ones_own(grumpy):
    drive(grumpy)
    assert grumpy.query("shoes").summary.learned == 5
    assert grumpy.verify("shoes")


def test_a_policy_that_fails_spoils_nothing(grumpy):
    drive(grumpy)
    waiting = grumpy.rank("shoes", ITEMS)
    grumpy.click(waiting.id, waiting.items[1])
    expected = grumpy.query("shoes")
    Grumpy.fails = "rank"
    assert grumpy.rank("shoes", ITEMS).source == "fallback"
    Grumpy.fails = "best"
    assert grumpy.rank("shoes", ITEMS, pinned={"F": 1}).source == "fallback"
    with pytest.raises(StoreError, match="no"):
        grumpy.freeze("shoes")
    Grumpy.fails = ""
    assert grumpy.query("shoes") == expected
    Grumpy.fails = "update"
    assert grumpy.settle(waiting.id).outcome == "settled"  # but nothing was learned
    Grumpy.fails = ""
    assert grumpy.query("shoes").summary.learned == expected.summary.learned
    assert grumpy.query("shoes").summary.clicks == expected.summary.clicks + 1
    assert grumpy.verify("shoes")
    drive(grumpy)
    assert grumpy.stats().failures == 3


def test_one_failing_policy_is_no_matter_for_others_in_the_batch(url, clock, caplog):
    caplog.set_level(logging.CRITICAL + 1)

    async def use() -> None:
        async with AsyncRanker(url, policy="random", positions=3, clock=clock) as ranker:
            await ranker.reset("grumpy", policy=Grumpy())
            await ranker.rank("grumpy", ITEMS)
            Grumpy.fails = "rank"
            names = ["shoes", "grumpy", "hats"] * 20
            lists = await asyncio.gather(*[ranker.rank(name, ITEMS) for name in names])
            found = await ranker.events([Event(shown.id, shown.items[0]) for shown in lists])
            for name, shown, verdict in zip(names, lists, found, strict=True):
                failed = name == "grumpy"
                assert shown.source == ("fallback" if failed else "policy")
                assert verdict.verdict == ("unknown" if failed else "accepted")
            Grumpy.fails = ""
            assert (await ranker.query("grumpy")).summary.impressions == 1
            assert await ranker.verify("grumpy")

    try:
        asyncio.run(use())
    finally:
        Grumpy.fails = ""


def test_a_policy_that_fails_in_the_middle_of_a_batch(url, clock, caplog):
    """What the batch did before is done again, and what comes after goes on from there."""
    caplog.set_level(logging.CRITICAL + 1)
    calls = itertools.count(1)

    class Moody(Grumpy):
        @staticmethod
        def rank(state, rng, ranking, memo):
            Grumpy.rank(state, rng, ranking, memo)
            if next(calls) == 40:
                raise RuntimeError("not now")

        algorithm = replace(Grumpy.algorithm, rank=rank)

    async def use() -> None:
        async with AsyncRanker(url, policy=Moody(), positions=3, clock=clock) as ranker:
            lists = await asyncio.gather(*[ranker.rank("shoes", ITEMS) for _ in range(60)])
            assert [shown.source for shown in lists].count("fallback") == 1
            stats = await ranker.stats()
            assert (stats.impressions, stats.batches < 10) == (59, True)
            assert (await ranker.query("shoes")).records == 60
            assert await ranker.verify("shoes")

    asyncio.run(use())


def test_a_policy_that_is_gone_can_be_replaced(open_ranker, folder, caplog):
    caplog.set_level(logging.CRITICAL + 1)
    file = folder / "mine.py"
    file.write_text((Path(__file__).parents[2] / "examples" / "my_policy.py").read_text())
    ranker = open_ranker(policy=f"{file}:EpsilonGreedy")
    ranker.rank("shoes", ITEMS[:5])
    waiting, other, _ = (ranker.rank("shoes", ITEMS) for _ in range(3))
    ranker.close()
    file.unlink()
    ranker = open_ranker()
    assert ranker.rank("hats", ITEMS).source == "policy"
    assert ranker.rank("shoes", ITEMS).source == "fallback"
    with pytest.raises(StoreError, match=r"with mine\.py:EpsilonGreedy cannot be loaded .*: reset it"):
        ranker.query("shoes")
    assert ranker.settle(waiting.id).outcome == "settled"
    ranker.reset("shoes")
    assert ranker.rank("shoes", ITEMS).source == "policy"
    ranker.settle(other.id)
    assert ranker.query("shoes").summary.learned == 0  # that list was another learner's
    ranker._core._engine.learners.clear()
    drive(ranker)
    assert ranker.query("shoes").generation == 4
    ranker.close()
    assert open_ranker().query("shoes").summary.learned == 5
