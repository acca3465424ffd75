"""What the SQLite store asks of SQLite, where it matters how that does it."""

import os
from pathlib import Path

import pytest

from clickbandit.live.stores.database import insert
from clickbandit.live.stores.sqlite_database import SqliteDatabase
from clickbandit.live.values import StoreError

ADD = insert("boxes", ("name", "content"))
FILES = Path("/proc/self/fd")


@pytest.fixture
def database(folder):
    """With as many boxes as fill some hundred pages."""
    made = SqliteDatabase(folder / "boxes.db")
    made.run("pragma journal_mode = wal")
    made.run("create table boxes (name text primary key, content blob) without rowid")
    made.run_many(ADD, [(f"{k:04}", bytes(500)) for k in range(1000)])
    yield made
    made.close()


def temporary_files():
    return {name for file in FILES.iterdir() if "etilqs" in (name := os.path.realpath(file))}


@pytest.mark.skipif(not FILES.is_dir(), reason="only Linux says which files are open")
def test_an_insertion_copies_no_pages_to_a_temporary_file(database):
    """SQLite does where it is to undo one statement alone that changes more than 15 pages."""
    before = temporary_files()
    database.begin()
    database.run_many(ADD, [(f"{k:04} more", bytes(500)) for k in range(0, 1000, 31)])
    assert temporary_files() == before
    database.run("commit")


def test_an_insertion_that_fails_leaves_nothing_of_its_transaction(database):
    database.begin()
    database.run("delete from boxes where name < '0500'")
    with pytest.raises(StoreError):
        database.run_many(ADD, [("new", b""), ("0700", b"")])
    database.roll_back()
    assert database.rows("select count(*) from boxes") == [(1000,)]
    database.begin()
    database.run_many(ADD, [("new", b"")])
    database.run("commit")
    assert database.rows("select count(*) from boxes") == [(1001,)]
