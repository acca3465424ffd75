"""Bits that flip on the disk: what is damaged is found, never used, and the rest is enough to go on."""

import contextlib
import logging
import shutil
import sqlite3
import threading

import pytest

from clickbandit.live import Ranker, checking
from clickbandit.live.learner import Learner
from clickbandit.live.records import Damaged
from clickbandit.live.stores.sql_reader import SqlReader
from live.conftest import Clock, new_folder, only_sqlite

ITEMS = list("ABCDEF")
SETTINGS = {"policy": "batchrank", "horizon": 50}
pytestmark = only_sqlite


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL, "clickbandit.live")


def learn(ranker, n, query="shoes"):
    for _ in range(n):
        shown = ranker.rank(query, ITEMS)
        assert shown.source == "policy"
        for item in set(shown.items) & set("CE"):
            ranker.click(shown.id, item)
        ranker.settle(shown.id)


@pytest.fixture(scope="module")
def learned():
    """A store with a query that has two snapshots, and what its ranker says of it."""
    with new_folder() as path:
        file = path / "clicks.db"
        with Ranker(f"sqlite:///{file}", positions=3, clock=Clock(), **SETTINGS) as ranker:
            learn(ranker, 300)
            expected = ranker.query("shoes")
        yield file, expected


@pytest.fixture
def damaged(learned, open_ranker, folder):
    """A copy of that store, which is changed by statements while nobody serves it."""
    file, expected = learned
    shutil.copy(file, folder / "clicks.db")
    ranker = open_ranker(**SETTINGS)

    def reopen(*statements):
        nonlocal ranker
        ranker.close()
        with contextlib.closing(sqlite3.connect(folder / "clicks.db")) as file, file:
            assert file.execute("select count(*) from snapshots").fetchone() == (2,)
            for statement, *values in statements:
                assert file.execute(statement, values).rowcount == 1, statement
        ranker = open_ranker(**SETTINGS)
        return ranker

    return reopen, expected


def flipped(written, bit):
    changed = bytearray(written)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def read(folder, query):
    with contextlib.closing(sqlite3.connect(folder / "clicks.db")) as file:
        return file.execute(query).fetchone()


LAST = "(select max(number) from snapshots)"


def test_no_flipped_bit_of_a_snapshot_is_used(damaged, folder):
    """The last snapshot is damaged: what is in use comes of the one before and the log, and is the same."""
    reopen, expected = damaged
    (state,) = read(folder, f"select state from snapshots where number = {LAST}")
    for bit in range(0, 8 * len(state), 8 * len(state) // 12):
        ranker = reopen((f"update snapshots set state = ? where number = {LAST}", flipped(state, bit)))
        assert ranker.query("shoes") == expected
        assert ranker.stats().damaged == 1
        assert not ranker.verify("shoes")
    learn(reopen((f"update snapshots set state = ? where number = {LAST}", state)), 5)


def test_a_flipped_bit_in_the_log(damaged, folder, open_ranker):
    """What was learned until then is kept, and learning goes on from there, without anyone's help."""
    reopen, expected = damaged
    rows = expected.records
    (written,) = read(folder, f"select records from log where number = {rows - 10}")
    ranker = reopen((f"update log set records = ? where number = {rows - 10}", flipped(written, 9)))
    assert not ranker.verify("shoes")
    assert ranker.stats().damaged > 0
    assert ranker.verify("shoes")  # the log starts from what is left
    observed = sum(entry["observed"] for entry in ranker.query("shoes").learned["items"])
    before = sum(entry["observed"] for entry in expected.learned["items"])
    assert before - 3 * 10 <= observed < before
    learn(ranker, 200)
    assert ranker.verify("shoes")
    ranker.close()
    assert open_ranker(**SETTINGS).verify("shoes")


def test_a_flipped_bit_long_ago(damaged, folder):
    """The last snapshot is enough to go on, and yet it is found: the log is replayed from its first record."""
    reopen, expected = damaged
    first, *_, last = sql_numbers(folder)
    for number in (first, (first + last) // 2):
        (written,) = read(folder, f"select records from log where number = {number}")
        ranker = reopen((f"update log set records = ? where number = {number}", flipped(written, 4)))
        assert ranker.query("shoes") == expected
        assert not ranker.verify("shoes")
        assert reopen((f"update log set records = ? where number = {number}", written)).verify("shoes")


def sql_numbers(folder):
    """Of the rows in the log before the last snapshot."""
    with contextlib.closing(sqlite3.connect(folder / "clicks.db")) as file:
        found = file.execute(f"select number from log where number < {LAST} order by number").fetchall()
    return [number for (number,) in found]


def test_nothing_is_left(damaged, folder):
    """It starts afresh."""
    reopen, _ = damaged
    ranker = reopen(("update snapshots set state = x'00' where number < " + LAST,),
                    (f"update snapshots set state = x'00' where number = {LAST}",),
                    ("update log set records = x'00' where number = (select min(number) from log)",))  # fmt: skip
    learn(ranker, 5)
    assert ranker.verify("shoes")
    assert ranker.query("shoes").generation == 2


def test_rows_in_the_place_of_others(damaged, folder):
    reopen, expected = damaged
    ranker = reopen(
        (f"update snapshots set state = (select state from snapshots where number < {LAST}), "
         f"checksum = (select checksum from snapshots where number < {LAST}) where number = {LAST}",)
    )  # fmt: skip
    assert ranker.query("shoes") == expected
    assert not ranker.verify("shoes")


def test_a_state_that_cannot_be_is_refused_without_a_checksum(damaged, folder):
    """As of an earlier version, which wrote none: an item's number beyond all items would crash the process."""
    reopen, expected = damaged
    ranker = reopen()
    learner = ranker._core._engine.learners.load(
        ranker._core._store.lock(["shoes"], (), (), 9).queries["shoes"], ()
    )
    for change in (
        lambda: learner.state.items.__setitem__(2, 2**40),
        lambda: learner.state.items.__setitem__(2, learner.state.items[1]),
        lambda: setattr(learner, "state", learner.state._replace(last=learner.state.last[:1])),
        lambda: setattr(learner, "horizon", "x"),
    ):
        change()
        with pytest.raises(Damaged, match="cannot be"):
            Learner.from_bytes("shoes", ranker._core._algorithms, learner.to_bytes())
    bad = learner.to_bytes()
    ranker = reopen((f"update snapshots set state = ?, checksum = null where number = {LAST}", bad))
    assert ranker.query("shoes") == expected


def test_a_list_that_cannot_be_is_not_learned_from(damaged, folder):
    reopen, expected = damaged
    number = expected.records
    (written,) = read(folder, f"select records from log where number = {number}")
    at = 12 + 1  # the second byte of the first item's number
    changed = written[:at] + b"\x7f" + written[at + 1 :]
    ranker = reopen((f"update log set records = ?, checksum = null where number = {number}", changed))
    learn(ranker, 3)
    assert ranker.stats().damaged > 0


@pytest.mark.parametrize("byte", [0, 4, 5, 12, -12, -1])
def test_a_list_whose_memo_is_damaged_is_settled_and_not_learned_from(damaged, folder, byte):
    """Of the version, the number of items, the list, the memo and the checksum: each would mislead a kernel."""
    reopen, expected = damaged
    ranker = reopen()
    pending = ranker.rank("shoes", ITEMS)
    (written,) = read(folder, f"select learning from impressions where id = '{pending.id}'")
    changed = flipped(written, 8 * (byte % len(written)) + 6)
    ranker = reopen(("update impressions set learning = ? where id = ?", changed, pending.id))
    ranker.settle(pending.id)
    summary = ranker.query("shoes").summary
    assert (summary.settled, summary.learned) == (expected.summary.settled + 1, expected.summary.learned)
    assert ranker.stats().damaged == 1
    learn(ranker, 3)
    assert ranker.verify("shoes")


def test_verifying_keeps_nobody_waiting(damaged, monkeypatch):
    """The log is replayed in slices, between which others read, and beside the lists that are made."""
    reopen, _ = damaged
    ranker = reopen()
    monkeypatch.setattr(checking, "_SLICE", 50)
    began, gate, rows = threading.Event(), threading.Event(), []
    log = SqlReader.log

    def slow(self, query, after, limit):
        found = log(self, query, after, limit)
        rows.append(len(found))
        if len(rows) == 3:
            began.set()
            gate.wait(20)
        return found

    monkeypatch.setattr(SqlReader, "log", slow)
    found = []
    thread = threading.Thread(target=lambda: found.append(ranker.verify("shoes")))
    thread.start()
    assert began.wait(20)
    learn(ranker, 20)  # what comes meanwhile is no matter
    gate.set()
    thread.join()
    assert found == [True]
    assert max(rows) <= 50


def test_what_is_pruned_while_it_is_verified(damaged, folder, monkeypatch):
    reopen, _ = damaged
    ranker = reopen()
    monkeypatch.setattr(checking, "_SLICE", 50)
    log, calls = SqlReader.log, []

    def prune(self, query, after, limit):
        calls.append(after)
        if len(calls) == 2:
            with contextlib.closing(sqlite3.connect(folder / "clicks.db")) as file, file:
                file.execute(f"delete from log where number <= {LAST}")
                file.execute(f"delete from snapshots where number < {LAST}")
                file.execute("update snapshots set base = 1")
        return log(self, query, after, limit)

    monkeypatch.setattr(SqlReader, "log", prune)
    assert ranker.verify("shoes")
    assert calls[2] > calls[1] + 100  # from the snapshot that the log starts from now


def test_a_log_that_begins_anew_past_what_is_verified_is_no_damage(damaged, monkeypatch):
    reopen, _ = damaged
    ranker = reopen()
    monkeypatch.setattr(checking, "_SLICE", 50)
    log, calls = SqlReader.log, []

    def forget(self, query, after, limit):
        calls.append(after)
        if len(calls) == 2:
            monkeypatch.setattr(SqlReader, "log", log)
            shown = ranker.rank("shoes", ITEMS, user="me")
            learn(ranker, 20)
            ranker.settle(shown.id)
            ranker.forget("me")
        return log(self, query, after, limit)

    monkeypatch.setattr(SqlReader, "log", forget)
    assert ranker.verify("shoes")
    assert len(calls) == 2


def test_all_queries_are_checked_in_the_background(damaged, folder, monkeypatch):
    reopen, _ = damaged
    monkeypatch.setattr(checking, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(checking, "_SHARE", 1.0)
    ranker = reopen()
    for query in ("hats", "boots"):
        learn(ranker, 3, query)
    (state,) = read(folder, f"select state from snapshots where number = {LAST}")
    ranker = reopen((f"update snapshots set state = ? where number = {LAST}", flipped(state, 500)))
    rounds = ranker._core._rounds
    wait = threading.Event()
    while rounds.checked < 3:
        wait.wait(0.01)
    stats = ranker.stats()
    assert (stats.checked, stats.damaged, stats.loaded) == (3, 1, 0)  # and nothing was loaded for it
