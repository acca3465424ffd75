"""Rows that are kept in memory are what the file has, whatever is done with them and whatever fails."""

import os
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from clickbandit.errors import InputError
from clickbandit.live.stores import cache
from clickbandit.live.stores.contract import Changes
from clickbandit.live.stores.rows import SETTLED, EventRow, ImpressionRow, NewQuery
from clickbandit.live.stores.sqlite import SqliteStore
from clickbandit.live.values import StoreError

NEW = NewQuery("shoes", "random", 2, 1000, None, 0)


@pytest.fixture
def store(tmp_path):
    with_rows = SqliteStore(tmp_path / "clicks.db")
    with_rows.begin()
    row = with_rows.lock(["shoes"], [], [NEW], 10).queries["shoes"]
    row.impressions = 1
    with_rows.save(Changes(queries=[row], impressions=[impression(row.id)]))
    with_rows.commit()
    yield with_rows
    with_rows.close()


def impression(query: int) -> ImpressionRow:
    return ImpressionRow("first", query, 5, 10, 0, '["A"]', b"body", None, None)


def locked(store):
    """The query and its impression, in a transaction that is left open."""
    store.begin()
    found = store.lock(["shoes"], ["first"], [], 10)
    return found.queries["shoes"], found.impressions.get("first")


def test_what_is_changed_and_not_saved_is_gone(store):
    row, shown = locked(store)
    row.policy, shown.clicks = "cts", 1
    store.rollback()
    row, shown = locked(store)
    assert (row.policy, shown.clicks) == ("random", 0)
    store.rollback()


def test_a_commit_that_fails_leaves_what_the_file_has(store, monkeypatch):
    row, shown = locked(store)
    row.impressions, shown.outcome = 2, SETTLED
    store.save(Changes(queries=[row], touched=[shown]))
    run = store.database.run

    def fail(statement, values=()):
        if statement == "commit":
            raise StoreError("no")
        return run(statement, values)

    monkeypatch.setattr(store.database, "run", fail)
    with pytest.raises(StoreError):
        store.commit()
    store.rollback()
    monkeypatch.undo()
    row, shown = locked(store)
    assert (row.impressions, shown.outcome) == (1, 0)
    store.rollback()


def test_what_others_write_is_seen(store):
    _, shown = locked(store)
    store.rollback()
    with closing(sqlite3.connect(store.path)) as other, other:
        other.execute("update impressions set outcome = ?", (SETTLED,))
    assert shown.outcome != locked(store)[1].outcome == SETTLED
    store.rollback()


def test_a_link_to_the_file_has_the_same_lock(store):
    link = store.path.with_name("link.db")
    link.symlink_to(store.path)
    with pytest.raises(InputError, match="is in use by process"):
        SqliteStore(link)


def test_what_is_pruned_or_deleted_is_not_found(store):
    _, shown = locked(store)
    shown.outcome = SETTLED
    store.save(Changes(touched=[shown]))
    store.commit()
    assert store.prune(6, 10) == 1
    assert locked(store)[1] is None
    store.rollback()
    store.delete("shoes")
    store.begin()
    assert not store.lock(["shoes"], [], [], 10).queries
    store.rollback()


def test_it_is_read_from_memory(store, monkeypatch):
    monkeypatch.setattr(store.database, "find", lambda what, table, column, keys: [] if not keys else 1 / 0)
    row, shown = locked(store)
    assert (row.impressions, shown.id) == (1, "first")
    store.rollback()


def test_it_takes_a_bounded_number_of_bytes(store, monkeypatch):
    monkeypatch.setattr(cache, "MAX_IMPRESSIONS", 11 * 1750)
    row, _ = locked(store)
    many = [replace(impression(row.id), id=str(k), items="x" * 1000) for k in range(20)]
    store.save(Changes(impressions=many))
    store.commit()
    assert list(store._rows._impressions) == [str(k) for k in range(9, 20)]
    assert store._rows._impressions_size == 11 * 1750
    assert {row.id for row in store._rows.impressions(["first", "3", "19"])} == {"first", "3", "19"}


@pytest.mark.parametrize("n", [1, 2, 3, 31, 32, 33, 101])
def test_many_rows_are_written_together_and_in_order(store, n):
    locked(store)
    events = [EventRow(f"key {k}", "first", "é", k, k % 2 == 1, None, k / 4) for k in range(n)]
    store.save(Changes(events=events))
    store.commit()
    names = ", ".join(EventRow._fields)
    assert store.database.rows(f"select {names} from events order by number") == events
    locked(store)
    with pytest.raises(StoreError, match="UNIQUE"):
        store.save(
            Changes(events=[event._replace(key=f"more {event.key}") for event in events] + events[-1:])
        )
    store.rollback()
    assert store.database.rows("select count(*) from events") == [(n,)]


def test_queries_take_a_bounded_number_of_bytes(store, monkeypatch):
    monkeypatch.setattr(cache, "MAX_QUERIES", 5000)
    store.begin()
    names = [f"query {k}" for k in range(20)]
    made = store.lock(names, [], [NEW._replace(name=name) for name in names], 100).queries
    store.save(Changes(queries=list(made.values())))
    store.commit()
    assert len(store._rows._queries) < 8
    store.begin()
    assert set(store.lock(names, [], [], 100).queries) == set(names)
    store.rollback()


def test_what_is_forgotten_takes_nothing(store):
    row, _ = locked(store)
    shown = replace(impression(row.id), id="second", learning=b"x" * 1000)
    store.save(Changes(impressions=[shown]))
    store.commit()
    locked(store)
    store.save(Changes(touched=[replace(shown, learning=None)], forgotten=["first"]))
    store.commit()
    store._rows.forget_before(10)
    assert (len(store._rows._impressions), store._rows._impressions_size) == (0, 0)


def test_a_file_that_cannot_be_opened_is_let_go(tmp_path):
    path = tmp_path / "damaged.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(InputError, match="cannot be used as a store"):
        SqliteStore(path)
    open_files = [
        os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if is_open(name)
    ]
    assert not [file for file in open_files if file.startswith(str(path))]


def is_open(name: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{name}")
