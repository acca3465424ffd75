"""A query is given another policy without forgetting: previewed, done at once, and right after a restart."""

import pytest

from clickbandit.live import switching, transaction
from clickbandit.live.values import StoreError, Unknown
from live.conftest import only_sqlite

ITEMS = list("ABCD")


def teach(ranker, n, items=ITEMS, first=0):
    """Users who click A wherever it stands, and B at every other list."""
    for k in range(first, first + n):
        shown = ranker.rank("shoes", items, id=f"i{k}")
        for item in shown.items:
            if item == "A" or (item == "B" and k % 2):
                ranker.click(shown.id, item)
        ranker.settle(shown.id)


@only_sqlite
def test_a_policy_that_learns_from_any_list_gets_all(open_ranker):
    """As if it had been asked to learn from the same lists; nothing changes before it is done."""
    ranker = open_ranker(policy="random", positions=3)
    teach(ranker, 40)
    before = ranker.query("shoes")
    preview = ranker.preview("shoes", policy="cascade-ucb1")
    assert ranker.query("shoes") == before
    assert (preview.learned, preview.of, preview.best[:2]) == (40, 40, ["A", "B"])
    summary = ranker.reset("shoes", policy="cascade-ucb1", positions=3, replay=True)
    after = ranker.query("shoes")
    assert (summary.policy, summary.learned) == ("cascade-ucb1", 40)
    assert (after.best, after.generation) == (preview.best, 2)
    clicks = {entry["item"]: entry["clicks"] for entry in after.learned["items"]}
    assert clicks["A"] > clicks["B"] > clicks["C"] == 0
    assert ranker.verify("shoes")
    ranker.close()
    ranker = open_ranker(policy="random", positions=3)
    assert ranker.query("shoes").learned == after.learned
    assert ranker.verify("shoes")
    teach(ranker, 3, first=40)
    assert ranker.query("shoes").summary.learned == 43


@only_sqlite
def test_lists_from_before_the_first_snapshot_count_and_none_twice(open_ranker, monkeypatch):
    """A switch writes the lists that it learned from into the log again: the next one must not count these too."""
    monkeypatch.setattr(transaction, "_SNAPSHOT_RECORDS", 32)
    ranker = open_ranker(policy="random", positions=3)
    teach(ranker, 60)
    assert ranker.preview("shoes", policy="cascade-ucb1").of == 60
    for policy in ("cascade-ucb1", "cascade-kl-ucb"):
        assert ranker.reset("shoes", policy=policy, positions=3, replay=True).learned == 60
    teach(ranker, 2, first=60)
    found = ranker.preview("shoes", policy="toprank")
    assert (found.learned <= 62, found.of) == (True, 62)
    ranker.reset("shoes", policy="toprank", positions=3, replay=True)
    assert ranker.preview("shoes", policy="cascade-ucb1").learned == 62
    assert ranker.verify("shoes")


@only_sqlite
def test_other_policies_learn_from_lists_of_their_own(open_ranker):
    """TopRank counts wins only within lists that it shuffled itself: of a random log it meets some."""
    ranker = open_ranker(policy="random", positions=2)
    teach(ranker, 60, items=ITEMS[:3])
    preview = ranker.preview("shoes", policy="toprank")
    assert 2 <= preview.learned <= 30
    assert preview.of == 60
    summary = ranker.reset("shoes", policy="toprank", positions=2, replay=True)
    assert summary.learned == preview.learned
    assert ranker.query("shoes").best == preview.best
    assert ranker.verify("shoes")


@only_sqlite
def test_items_that_came_and_went_keep_their_names(open_ranker):
    ranker = open_ranker(policy="random", positions=2, grace=1)
    teach(ranker, 5, items=["X", *ITEMS])
    teach(ranker, 20, items=ITEMS[::-1], first=5)
    found = ranker.preview("shoes", policy="cascade-ucb1")
    assert found.of == 25
    assert found.best[0] == "A"
    assert 20 <= found.learned < 25  # without those that X stood in
    ranker.reset("new", policy="random", replay=True)
    assert ranker.preview("new", policy="cascade-ucb1").of == 0
    with pytest.raises(Unknown):
        ranker.preview("nowhere", policy="random")


@only_sqlite
def test_a_policy_that_fails_leaves_all_as_it_was(open_ranker, monkeypatch):
    ranker = open_ranker(policy="random", positions=3)
    teach(ranker, 10)
    before = ranker.query("shoes")
    monkeypatch.setattr(switching.Learner, "settle", lambda *_: 1 / 0)
    with pytest.raises(StoreError):
        ranker.reset("shoes", policy="cascade-ucb1", positions=3, replay=True)
    monkeypatch.undo()
    assert ranker.query("shoes") == before
    assert ranker.verify("shoes")
