"""Rows that are written behind: the tables have them sooner or later, and nothing is lost or there twice meanwhile."""

import json
import shutil
import sqlite3
from contextlib import closing
from itertools import pairwise
from zlib import crc32

import pytest

from clickbandit.live import Ranker
from clickbandit.live.stores import behind
from clickbandit.live.stores.contract import Changes
from clickbandit.live.stores.rows import LogRow, NewQuery, Snapshot, checksum
from clickbandit.live.stores.sqlite import SqliteStore
from clickbandit.live.values import StoreError

NAMES = ("boots", "hats", "shoes")


@pytest.fixture
def store(tmp_path):
    opened = SqliteStore(tmp_path / "clicks.db")
    yield opened
    opened.close()


def add(store, *names, visible=False, snapshots=False):
    """A transaction in which each of these queries gets another record."""
    store.begin()
    rows = store.lock(names, [], [NewQuery(name, "random", 2, 1000, None, 0) for name in names], 100).queries
    log, taken = [], []
    for row in rows.values():
        row.number += 1
        row.impressions += 1
        records = bytes([row.number % 256])
        log.append(LogRow(row.id, row.number, records, row.number, checksum(row.id, row.number, records)))
        if snapshots:
            taken.append(Snapshot(row.id, row.number, b"state", 0))
            row.snapshot = row.number
    store.save(Changes(queries=list(rows.values()), log=log, snapshots=taken, visible=visible))
    store.commit()


def numbers(store):
    """How far each query is, by its row and by its log."""
    store.begin()
    found = store.lock(NAMES, [], [], 100).queries
    said = {
        name: (row.number, [e for r in store.log(row.id, 0) for e in r.records])
        for name, row in found.items()
    }
    store.rollback()
    return said


def in_tables(path, table):
    with closing(sqlite3.connect(path)) as other:
        return other.execute(f"select count(*) from {table}").fetchone()[0]


def crashed(store, tmp_path):
    """The files as they would be found if the process were killed now."""
    copy = tmp_path / "crashed.db"
    for ending in ("", "-wal"):
        shutil.copy(f"{store.path}{ending}", f"{copy}{ending}")
    return SqliteStore(copy)


def test_what_waits_is_found_and_not_yet_in_the_tables(store):
    add(store, "boots", "hats")
    add(store, "hats")
    assert numbers(store) == {"boots": (1, [1]), "hats": (2, [1, 2])}
    assert (in_tables(store.path, "log"), in_tables(store.path, "batches")) == (0, 2)


def test_what_is_to_be_seen_brings_what_waits_with_it(store):
    add(store, "boots", "hats")
    add(store, "hats")
    add(store, "shoes", visible=True)
    with closing(store.reader()) as reader:
        assert reader.totals().impressions == 4
        assert [row.records for row in reader.log(2, 0, 10)] == [b"\1\2"]
    assert in_tables(store.path, "batches") == 0


def test_a_crash_loses_nothing(store, tmp_path, monkeypatch):
    monkeypatch.setattr(behind, "MAX_BATCHES", 3)
    monkeypatch.setattr(behind, "_DELETED_TOGETHER", 2)
    for k in range(12):  # some of it was put meanwhile, and is in batches that are still there for others
        add(store, *{NAMES[k % 3], NAMES[k * k % 3]})
        expected = numbers(store)
        with closing(crashed(store, tmp_path)) as again:
            assert numbers(again) == expected
            assert in_tables(again.path, "batches") == 0
            add(again, "boots")  # batches after a recovery count on from those before
            again.database.close()
        with closing(SqliteStore(tmp_path / "crashed.db")) as again:
            number, log = expected["boots"]
            assert numbers(again)["boots"] == (number + 1, [*log, number + 1])
    assert in_tables(store.path, "log") > 0
    assert 0 < in_tables(store.path, "batches") < 8


def test_closing_leaves_nothing_behind(tmp_path):
    with closing(SqliteStore(tmp_path / "clicks.db")) as store:
        add(store, *NAMES)
    assert (in_tables(store.path, "log"), in_tables(store.path, "batches")) == (3, 0)


def test_no_row_of_a_log_goes_across_a_snapshot(store):
    add(store, "boots")
    add(store, "boots", snapshots=True)
    add(store, "boots")
    add(store, "boots", visible=True)
    store.begin()
    assert [row.records for row in store.log(1, 2)] == [b"\3\4"]
    store.rollback()


def test_what_waited_long_is_put_a_little_at_a_time(store, monkeypatch):
    monkeypatch.setattr(behind, "MAX_SECONDS", 0.0)
    monkeypatch.setattr(behind, "_AT_ONCE", 1)
    add(store, *NAMES)
    add(store, "boots")
    assert in_tables(store.path, "log") == 1
    add(store, "hats")
    assert in_tables(store.path, "log") == 2
    assert numbers(store) == {"boots": (2, [1, 2]), "hats": (2, [1, 2]), "shoes": (1, [1])}


def test_batches_that_nobody_needs_are_deleted_a_little_at_a_time(store, monkeypatch):
    """To delete those of five seconds at once held everyone up for ten milliseconds."""
    add(store, "boots")
    for _ in range(100):
        add(store, "hats")
    monkeypatch.setattr(behind, "MAX_SECONDS", 0.0)
    left = []
    for _ in range(20):
        add(store, "hats")
        left.append(in_tables(store.path, "batches"))
    assert all(before - after < behind._DELETED_TOGETHER for before, after in pairwise([101, *left]))
    assert max(left[10:]) <= behind._DELETED_TOGETHER + 1


def test_after_a_start_batches_are_deleted_at_once(tmp_path, monkeypatch):
    with closing(SqliteStore(tmp_path / "clicks.db")) as store:
        for _ in range(600):
            add(store, "boots")
    monkeypatch.setattr(behind, "MAX_SECONDS", 0.0)
    with closing(SqliteStore(store.path)) as again:
        for _ in range(100):
            add(again, "boots")
            assert in_tables(store.path, "batches") <= behind._DELETED_TOGETHER + 1


def test_only_so_many_queries_wait(store, monkeypatch):
    monkeypatch.setattr(behind, "MAX_WAITING", 10)
    for k in range(30):
        add(store, f"query {k}")
        assert len(store._behind) <= 11


@pytest.mark.parametrize("committed", [False, True])
def test_a_commit_that_says_it_failed_may_have_been_one(store, monkeypatch, committed):
    add(store, "boots", "hats")
    run = store.database.run

    def fail(statement, values=()):
        if statement == "commit":
            if committed:
                run(statement, values)
            raise StoreError("no")
        return run(statement, values)

    for visible in (False, True):
        monkeypatch.setattr(store.database, "run", fail)
        with pytest.raises(StoreError):
            add(store, "boots", visible=visible)
        store.rollback()
        monkeypatch.setattr(store.database, "run", run)
    assert numbers(store) == {"boots": (3, [1, 2, 3]) if committed else (1, [1]), "hats": (1, [1])}
    add(store, "boots", visible=True)
    assert len(numbers(store)["boots"][1]) == numbers(store)["boots"][0]


def test_what_is_changed_and_not_saved_does_not_wait(store):
    add(store, "boots")
    store.begin()
    store.lock(["boots"], [], [], 100).queries["boots"].number = 99
    store.rollback()
    assert numbers(store) == {"boots": (1, [1])}
    add(store, "hats", visible=True)
    assert numbers(store) == {"boots": (1, [1]), "hats": (1, [1])}


def test_batches_as_they_were_first_written_are_read(store, tmp_path):
    add(store, "boots", visible=True)
    row = [1, "boots", "random", 2, 1000, None, 0, None, 5, 2, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0, 0, 0.5]
    head = json.dumps([[row], [[1, 2, 1, 5, checksum(1, 2, b"\2")]]]).encode()
    written = len(head).to_bytes(4, "little") + head + b"\2"
    with closing(sqlite3.connect(store.path)) as other, other:
        other.execute("insert into batches values (7, ?, ?)", (written, crc32(written)))
    with closing(crashed(store, tmp_path)) as again:
        assert numbers(again) == {"boots": (2, [1, 2])}
        again.begin()
        found = again.lock(["boots"], [], [], 100).queries["boots"]
        assert (found.policy, found.updated, found.items, found.reward) == ("random", 5, 3, 0.5)
        again.rollback()


def test_a_damaged_batch_is_left_out(store, tmp_path, caplog):
    add(store, "boots")
    add(store, "hats")
    with closing(sqlite3.connect(store.path)) as other, other:
        other.execute("update batches set checksum = checksum + 1 where number = 1")
    with closing(crashed(store, tmp_path)) as again:
        assert numbers(again) == {"boots": (0, []), "hats": (1, [1])}
    assert "1 batches of rows are not what was written" in caplog.text


def test_what_waits_of_a_deleted_query_is_not_another_s(store, tmp_path):
    add(store, "boots")
    store.delete("boots")
    add(store, "hats")  # which has the same id
    with closing(crashed(store, tmp_path)) as again:
        assert numbers(again) == {"hats": (1, [1])}


def test_a_query_is_evicted_by_its_counts_as_they_are(store):
    add(store, "boots")
    assert store.evict(10**15, 10) == []  # its impression is pending
    assert numbers(store) == {"boots": (1, [1])}


def test_readers_of_a_ranker_see_what_was_committed(tmp_path):
    with Ranker(f"sqlite:///{tmp_path}/clicks.db", policy="random", window="1h") as ranker:
        for _ in range(3):
            ranker.rank("boots", ["A", "B"])
        assert ranker.stats(flush=False).impressions == 3
        ranker.rank("boots", ["A", "B"])
        assert ranker.stats(flush=False).impressions == 4
        assert ranker.verify("boots")


def test_what_is_asked_of_one_query_leaves_the_others_waiting(tmp_path):
    path = tmp_path / "clicks.db"

    def seen():
        with closing(sqlite3.connect(path)) as other:
            return dict(other.execute("select name, impressions from queries").fetchall())

    with Ranker(f"sqlite:///{path}", policy="random") as ranker:
        for ask in (ranker.query, ranker.verify):
            before = ranker.stats().impressions
            for name in ("boots", "hats"):
                ranker.rank(name, ["A", "B"])
            ask("hats")
            assert (seen()["hats"], sum(seen().values())) == (before // 2 + 1, before + 1)
        assert ranker.stats().impressions == sum(seen().values()) == 4
