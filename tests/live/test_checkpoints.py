"""The write-ahead log is moved into the file beside transactions, and starts over."""

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from clickbandit.live.stores import checkpoints
from clickbandit.live.stores.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "CHECKPOINT_INTERVAL", 5)
    with closing(SqliteStore(tmp_path / "clicks.db")) as store:
        store.probe()
        yield store


def commit_until_moved(store):
    end = time.monotonic() + 30
    while not store._checkpoints._moved:
        assert time.monotonic() < end
        store.probe()
        time.sleep(0.01)


def test_what_is_committed_gets_into_the_file(store, tmp_path):
    commit_until_moved(store)
    shutil.copy(store.path, tmp_path / "copy.db")  # without the log
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        (probed,) = copy.execute("select probed from meta").fetchone()
    assert probed is not None


def test_the_log_starts_over_although_more_was_committed_meanwhile(store, monkeypatch):
    monkeypatch.setattr(store._checkpoints._database, "rows", lambda statement: [])  # as if all were new
    before = times_started(store)
    commit_until_moved(store)
    store.probe()
    store.probe()
    assert times_started(store) == before + 1


def test_nobody_else_seems_to_have_written(store):
    commit_until_moved(store)
    store.begin()
    store.rollback()
    before = store._version
    commit_until_moved(store)
    store.begin()
    assert store._version == before
    store.rollback()


def times_started(store):
    """See the format of write-ahead logs: how often it was begun again."""
    return int.from_bytes(Path(f"{store.path}-wal").read_bytes()[12:16], "big")
