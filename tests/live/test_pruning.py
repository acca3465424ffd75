"""What is old is forgotten, and where that fails everything else goes on."""

import logging

import pytest

from clickbandit.live import Ranker, StoreError, pruning
from clickbandit.live.stores.sqlite import SqliteStore

ITEMS = list("ABCDEF")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TypeError("'<' not supported"), ["what is old cannot be forgotten"]),
        (StoreError("the disk is full"), []),
    ],
)
def test_where_nothing_can_be_forgotten_lists_are_made(folder, clock, monkeypatch, caplog, error, said):
    """In a file that was cut off one row had no time, and then nobody was answered any more."""

    def fail(*given):
        raise error

    monkeypatch.setattr(pruning, "PAUSE", 0.0)
    store = SqliteStore(folder / "clicks.db")
    monkeypatch.setattr(store, "prune", fail)
    caplog.set_level(logging.ERROR)
    with Ranker(store, policy="random", positions=3, clock=clock) as ranker:
        for _ in range(3):
            assert ranker.rank("shoes", ITEMS).source == "policy"
        assert ranker.stats().failures >= 3
    assert [record.message for record in caplog.records] == said
