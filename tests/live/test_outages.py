"""A store that is away, locked, deleted or not there yet: lists at once without it, and back by itself."""

import asyncio
import json
import logging
import sqlite3
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import closing

import pytest

from clickbandit import InputError
from clickbandit.live import AsyncRanker, Ranker, StoreError
from clickbandit.live import engine as engine_module
from clickbandit.live.answers import resolve
from clickbandit.live.http import log
from clickbandit.live.stores.late import open_when_there
from clickbandit.live.stores.sqlite import SqliteStore
from clickbandit.live.values import Unreachable
from live.conftest import new_schema
from live.serving import metrics, serve, until

ITEMS = list("ABCDEF")


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL, "clickbandit.live")


class Away(SqliteStore):
    """A store that takes its time to fail."""

    away = False
    asked = 0

    def begin(self):
        if self.away:
            self.asked += 1
            time.sleep(0.2)
            raise StoreError("the disk is full")
        super().begin()


def says(ranker):
    """What is wrong with the store, if something is."""
    try:
        ranker.ping()
    except StoreError as error:
        return str(error)
    return ""


def test_after_a_failure_lists_are_made_at_once(folder, clock):
    store = Away(folder / "clicks.db")
    with Ranker(store, policy="random", positions=3, clock=clock) as ranker:
        shown = ranker.rank("shoes", ITEMS)
        store.away = True
        assert ranker.rank("shoes", ITEMS).source == "fallback"
        started, asked = time.monotonic(), store.asked
        for _ in range(500):
            assert ranker.rank("shoes", ITEMS, excluded=["A"]).items == ("B", "C", "D")
        with pytest.raises(StoreError, match="the disk is full"):
            ranker.click(shown.id, shown.items[0])
        took = time.monotonic() - started
        assert took < 0.2 * 20  # not 0.2 seconds for each of them
        assert store.asked - asked <= took / 0.2 + 1  # only to see whether it works again
        store.away = False
        until(lambda: not says(ranker))
        assert ranker.rank("shoes", ITEMS).source == "policy"
        assert ranker.click(shown.id, shown.items[0]).verdict == "accepted"
        assert ranker.stats().impressions == 2


class Counted(SqliteStore):
    """A store that counts how often it is asked whether it works."""

    away = False
    probes = 0

    def begin(self):
        if self.away:
            raise StoreError("the disk is full")
        super().begin()

    def probe(self):
        self.probes += self.away
        super().probe()


def test_requests_do_not_hurry_the_looks_at_a_store_that_is_away(folder, clock):
    store = Counted(folder / "clicks.db")
    with Ranker(store, policy="random", positions=3, clock=clock) as ranker:
        store.away = True
        started = time.monotonic()
        for _ in range(200):
            assert ranker.rank("shoes", ITEMS).source == "fallback"
            time.sleep(0.0025)
        assert 0 < store.probes <= (time.monotonic() - started) / engine_module._PROBE_PAUSE + 2


def test_a_store_that_is_damaged_is_looked_at_again(folder, clock, monkeypatch):
    """Whatever it is that fails."""
    store = SqliteStore(folder / "clicks.db")
    with Ranker(store, policy="random", positions=3, clock=clock) as ranker:

        def fail():
            raise ValueError("no such page")

        with monkeypatch.context() as patched:
            patched.setattr(store, "begin", fail)
            assert ranker.rank("shoes", ITEMS).source == "fallback"
            until(lambda: "no such page" in says(ranker))
        until(lambda: not says(ranker))
        assert ranker.rank("shoes", ITEMS).source == "policy"


def test_a_file_that_another_program_has_locked(folder, clock):
    url = f"sqlite:///{folder}/clicks.db"
    with Ranker(url, policy="random", positions=3, clock=clock, patience=0.2) as ranker:
        ranker.rank("shoes", ITEMS, id="x")
        with closing(sqlite3.connect(folder / "clicks.db", isolation_level=None)) as other:
            other.execute("begin immediate")
            assert ranker.rank("shoes", ITEMS, id="y").source == "fallback"
            started = time.monotonic()
            assert [ranker.rank("shoes", ITEMS).source for _ in range(100)] == ["fallback"] * 100
            assert time.monotonic() - started < 0.2 * 10  # not 0.2 seconds for each of them
        until(lambda: not says(ranker))
        assert ranker.rank("shoes", ITEMS).source == "policy"
        assert ranker.click("y", "A").verdict in ("unknown", "late", "invalid")


def test_a_file_that_is_deleted_is_noticed(folder, clock):
    path = folder / "clicks.db"
    with Ranker(f"sqlite:///{path}", policy="random", positions=3, clock=clock) as ranker:
        ranker.rank("shoes", ITEMS)
        path.rename(folder / "away.db")
        assert ranker.rank("shoes", ITEMS).source == "fallback"
        with pytest.raises(StoreError, match="is gone"):
            ranker.settle("x")
        with closing(sqlite3.connect(path)) as other:
            other.execute("create table x (y)")
        until(lambda: "another file" in says(ranker))
        path.unlink()
        (folder / "away.db").rename(path)
        until(lambda: not says(ranker))
        assert ranker.rank("shoes", ITEMS).source == "policy"


def test_a_database_that_comes_later(folder, postgres_server):
    """The service is there before it, serves lists in the given order, and says that it is not ready."""
    real = postgres_server.partition("?host=")[2]
    url = new_schema(postgres_server)
    with Ranker(url, policy="random") as ranker:
        ranker.reset("shoes", policy="toprank")
    later = url.replace(real, f"{folder}/later")
    with pytest.raises(Unreachable, match="cannot be used as a store"):
        Ranker(later, policy="random")
    with serve(AsyncRanker(open_when_there(later), policy="random", positions=3)) as service:
        assert service.rank()["source"] == "fallback"
        assert service.get("/readyz").status == 503
        assert service.get("/livez").status == 200
        assert service.get("/v1/queries").status == 503
        assert metrics(service)["clickbandit_store_up",] == 0
        (folder / "later").symlink_to(real)
        until(lambda: service.get("/readyz").status == 200, 60)
        answer = service.rank()
        assert (answer["source"], answer["policy"]) == ("policy", "toprank")
        (folder / "later").unlink()


def test_what_cannot_be_right_later_is_said_at_once(folder):
    (folder / "clicks.db").write_text("this is no database" * 100)
    with pytest.raises(InputError, match="not a database"):
        open_when_there(f"sqlite:///{folder}/clicks.db")


def test_a_store_that_hangs_is_given_up_at_once(folder, clock, monkeypatch):
    """Once the watchman has noticed, nobody waits for it any more."""
    store = SqliteStore(folder / "clicks.db")
    gate = threading.Event()
    begin = store.begin

    async def use():
        async with AsyncRanker(store, policy="random", positions=3, clock=clock, patience=0.2) as ranker:
            await ranker.rank("shoes", ITEMS)
            monkeypatch.setattr(store, "begin", lambda: (gate.wait(), begin()))
            assert (await ranker.rank("shoes", ITEMS)).source == "fallback"
            started = time.monotonic()
            for _ in range(50):
                assert (await ranker.rank("shoes", ITEMS)).source == "fallback"
            assert time.monotonic() - started < 0.2 * 10  # not 0.2 seconds for each of them
            gate.set()
            end = time.monotonic() + 10
            while (await ranker.rank("shoes", ITEMS)).source == "fallback":
                assert time.monotonic() < end
                await asyncio.sleep(0.01)

    asyncio.run(use())
    assert engine_module._PROBE_PAUSE < 1


def test_a_traceback_is_a_line_of_the_log(capfd, monkeypatch):
    """Whoever fails, in whichever thread: what reads the log reads lines of JSON."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", root.handlers[:])
    for module, name in ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    log.set_up()
    logging.captureWarnings(False)

    def fail():
        raise RuntimeError("cut \ud83d")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    logging.getLogger("some").warning("%d", "not a number")
    try:
        fail()
    except RuntimeError:
        logging.getLogger("other").exception("oh")
        sys.excepthook(*sys.exc_info())
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert len(lines) == 4
    assert [("Traceback" in line.get("traceback", "")) for line in lines] == [True, False, True, True]


def test_each_line_of_the_log_is_written_once(capfd):
    """Whichever threads write all lines that there are at the same moment."""
    n_lines, n_threads = 10_000, 4
    together = threading.Barrier(n_threads)
    for n in range(n_lines):
        log.add("info", {"line": n})
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writers = [
            threading.Thread(target=lambda: (together.wait(), log.write_all())) for _ in range(n_threads)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    finally:
        sys.setswitchinterval(interval)
    lines = [json.loads(line)["line"] for line in capfd.readouterr().err.splitlines()]
    assert sorted(lines) == list(range(n_lines))


def test_one_who_fails_to_take_an_answer_leaves_none_of_the_others_without(caplog):
    class Failing(Future):
        def set_result(self, result):
            raise KeyError("a callback")

    caplog.set_level(logging.ERROR, "clickbandit.live")
    others = [Future(), Future()]
    resolve([(others[0], 1), (Failing(), 2), (others[1], 3)])
    assert [future.result(timeout=0) for future in others] == [1, 3]
    assert "a callback" in caplog.text
