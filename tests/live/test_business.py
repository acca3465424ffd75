"""Safety for the business: pinned and excluded items, a share held out, items that come and go, and pruning."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from clickbandit import InputError
from clickbandit.intervals import watched_difference
from clickbandit.live import Ranker, pruning, transaction
from clickbandit.live.algorithm import Algorithms
from clickbandit.live.learner import Learner
from clickbandit.live.records import ItemsRecord, StartRecord
from clickbandit.live.requests import arrange, rank_request

ITEMS = list("ABCDEF")


@pytest.fixture
def short_pauses(monkeypatch):
    monkeypatch.setattr(pruning, "PAUSE", 0.0)
    monkeypatch.setattr(pruning, "AGAIN", 0.0)


# --- pinned and excluded ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pinned", "excluded", "positions", "expected"),
    [
        ({}, [], 3, "ABC"),
        ({"F": 1}, [], 3, "FAB"),
        ({"F": 3, "A": 2}, [], 3, "BAF"),
        ({}, ["A", "C"], 3, "BDE"),
        ({"D": 2}, ["A"], 6, "BDCEF"),
        ({"A": 6, "B": 4}, ["C", "D"], 6, "EFAB"),  # there are only four items to show
        ({"A": 6, "B": 5, "C": 4}, ["D", "E"], 6, "FBAC"),
        ({"A": 50}, ["B", "C", "D", "E"], 3, "FA"),
        ({}, ITEMS, 3, ""),
    ],
)
def test_lists_under_rules(pinned, excluded, positions, expected):
    request = rank_request("shoes", ITEMS, None, None, pinned, excluded, "x")
    assert arrange(ITEMS, request, positions) == list(expected)


def test_rules_are_kept_and_such_lists_are_not_learned_from(open_ranker):
    ranker = open_ranker(policy="cascade-kl-ucb")
    for _ in range(20):
        shown = ranker.rank("shoes", ITEMS, pinned={"F": 2}, excluded=["A", "Z"])
        assert shown.source == "rules"
        assert shown.items[1] == "F"
        assert "A" not in shown.items
        assert ranker.click(shown.id, "F").verdict == "accepted"
        assert ranker.settle(shown.id).clicked == ("F",)
    summary = ranker.query("shoes").summary
    assert (summary.impressions, summary.settled, summary.clicks, summary.learned) == (20, 20, 20, 0)
    assert ranker.query("shoes").records == 1  # it was started, and that is all
    assert ranker.rank("shoes", ITEMS, excluded=["Z"]).source == "policy"  # no item of this list


def test_an_item_cannot_be_pinned_below_the_list(open_ranker):
    ranker = open_ranker()
    with pytest.raises(InputError, match="'A' is pinned to position 4, and the query 'shoes' has 3"):
        ranker.rank("shoes", ITEMS, pinned={"A": 4})


def test_rules_show_the_best_list_known(open_ranker):
    ranker = open_ranker(policy="cascade-kl-ucb")
    for _ in range(40):
        shown = ranker.rank("shoes", ITEMS)
        for item in set(shown.items) & set("EF"):
            ranker.click(shown.id, item)
        ranker.settle(shown.id)
    shown = ranker.rank("shoes", ITEMS, pinned={"A": 1})
    assert shown.items[0] == "A"
    assert set(shown.items[1:]) == set("EF")
    assert ranker.rank("shoes", ITEMS, excluded=["E"]).items[0] == "F"


def settle_order(ranker, query="shoes", items="ABCD", most=3000):
    """Users who click A always, B often, the others never, until BatchRank has put these two in place."""
    chance = np.random.default_rng(1)
    for n in range(most):
        shown = ranker.rank(query, list(items))
        for item, share in (("A", 1.0), ("B", 0.5)):
            if item in shown.items and chance.random() < share:
                ranker.click(shown.id, item)
        ranker.settle(shown.id)
        learned = ranker.query(query).learned if n % 10 == 0 else {"groups": [{"items": "AB"}]}
        if all(len(group["items"]) == 1 for group in learned["groups"]):
            return
    raise AssertionError(f"not settled: {learned}")


def test_rules_that_provably_change_nothing_do_no_harm(open_ranker):
    """An item that BatchRank has eliminated, or shows at this very position in every list."""
    ranker = open_ranker(policy="batchrank:variant=experiment", positions=2, horizon=5)
    settle_order(ranker)
    assert ranker.rank("shoes", list("ABCD"), excluded=["C"]).source == "policy"
    assert ranker.rank("shoes", list("ABCD"), pinned={"A": 1}).source == "policy"
    assert ranker.rank("shoes", list("ABCD"), pinned={"A": 1, "B": 2}, excluded=["C", "D"]).source == "policy"
    assert ranker.rank("shoes", list("ABCD"), pinned={"A": 2}).source == "rules"
    assert ranker.rank("shoes", list("ABCD"), pinned={"C": 2}).source == "rules"
    assert ranker.rank("shoes", list("ABCD"), excluded=["B"]).source == "rules"
    assert ranker.rank("shoes", list("ABD")).source == "policy"  # C is missing, and would not be shown


# --- holdout ------------------------------------------------------------------------------------------------


def test_a_share_is_held_out_and_compared(open_ranker):
    ranker = open_ranker(policy="random", holdout=0.3)
    shown = [ranker.rank("shoes", ITEMS, id=f"i{n}") for n in range(300)]
    sources = Counter(list_.source for list_ in shown)
    assert 60 < sources["holdout"] < 120
    assert sources["policy"] == 300 - sources["holdout"]
    clicks = Counter()
    squares = Counter()
    for n, list_ in enumerate(shown):
        if list_.source == "holdout":
            assert list_.items == ("A", "B", "C")
        clicked = [item for item in list_.items if item in "ABC"][: n % 3]
        for item in clicked:
            ranker.click(list_.id, item)
        ranker.settle(list_.id)
        clicks[list_.source] += len(clicked)
        squares[list_.source] += len(clicked) ** 2
    assert ranker.query("shoes").summary.learned == sources["policy"]
    found = ranker.query("shoes").holdout
    assert found == ranker.stats().holdout
    for arm, source in ((found.treated, "policy"), (found.held_out, "holdout")):
        n = sources[source]
        assert (arm.impressions, arm.reward) == (n, clicks[source])
        assert arm.per_impression.mean == pytest.approx(clicks[source] / n)
        assert arm.per_impression.low < arm.per_impression.mean < arm.per_impression.high
    sides = [(sources[side], clicks[side], squares[side]) for side in ("policy", "holdout")]
    assert (found.difference.low, found.difference.high) == pytest.approx(watched_difference(*sides))
    difference = found.treated.per_impression.mean - found.held_out.per_impression.mean
    assert found.difference.mean == pytest.approx(difference)


def test_who_is_held_out_is_decided_by_the_id(open_ranker, folder, clock):
    first = open_ranker(holdout=0.5)
    other = Ranker(
        f"sqlite:///{folder}/other.db", policy="random", positions=3, holdout=0.5, seed=9, clock=clock
    )
    with other:
        for n in range(50):
            assert first.rank("a", ITEMS, id=f"i{n}").source == other.rank("b", ITEMS, id=f"i{n}").source


def test_only_what_was_shown_meanwhile_is_compared(open_ranker):
    ranker = open_ranker()
    for _ in range(3):
        ranker.settle(ranker.rank("shoes", ITEMS).id)
    assert ranker.query("shoes").holdout is None
    ranker.close()
    ranker = open_ranker(holdout=0.5)
    for n in range(120):
        shown = ranker.rank("shoes", ITEMS, id=f"i{n}", pinned={"F": 1})
        assert shown.items[0] == "F"  # the rules hold on both sides
        if n % 2:
            ranker.click(shown.id, "F")
        ranker.settle(shown.id)
        if n == 35:
            assert ranker.query("shoes").holdout is None, "20 clicks on either side are needed"
    ranker.void(ranker.rank("shoes", ITEMS).id)
    found = ranker.query("shoes").holdout
    assert found.treated.impressions + found.held_out.impressions == 120


# --- items that come and go ---------------------------------------------------------------------------------


def test_new_items_enter_and_missing_ones_leave(open_ranker):
    ranker = open_ranker(policy="batchrank", grace=3)
    ranker.settle(ranker.rank("shoes", ITEMS).id)
    assert ranker.rank("shoes", [*ITEMS, "G"]).source == "policy"
    detail = ranker.query("shoes")
    assert (detail.items, detail.generation, detail.summary.items) == ([*ITEMS, "G"], 1, 7)
    for n in range(4):  # G is left out: never shown, and not learned from until it is taken for gone
        shown = ranker.rank("shoes", ITEMS)
        assert "G" not in shown.items
        assert shown.source == ("rules" if n < 2 else "policy"), n
    detail = ranker.query("shoes")
    assert (detail.items, detail.generation, detail.summary.learned) == (ITEMS, 1, 1)
    assert ranker.verify("shoes")


def test_a_list_that_flickers_loses_nothing(open_ranker):
    ranker = open_ranker(policy="batchrank", grace=3)
    for n in range(20):
        ranker.rank("shoes", ITEMS if n % 3 == 0 else ITEMS[:5])
    assert ranker.query("shoes").items == ITEMS
    assert ranker.verify("shoes")


def test_the_given_order_does_not_matter_to_the_items(open_ranker):
    ranker = open_ranker(policy="batchrank")
    for n in range(5):
        assert ranker.rank("shoes", ITEMS[n:] + ITEMS[:n]).source == "policy"
    assert ranker.query("shoes").records == 6


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ABCDEF", "UVWXYZ"),  # none is left
        ("AB", "ABC"),  # lists become longer
        ("ABC", "AB"),  # and shorter
        ("A", "AB"),
    ],
)
def test_what_cannot_go_on_starts_afresh(open_ranker, before, after):
    ranker = open_ranker(policy="batchrank", grace=1)
    waiting = ranker.rank("shoes", list(before))
    ranker.settle(ranker.rank("shoes", list(before)).id)
    shown = ranker.rank("shoes", list(after))
    assert len(shown.items) == min(3, len(after))
    detail = ranker.query("shoes")
    assert (detail.items, detail.generation, detail.summary.learned) == (list(after), 2, 0)
    ranker.click(waiting.id, waiting.items[0])
    ranker.settle(waiting.id)
    assert ranker.query("shoes").summary.learned == 0
    assert ranker.verify("shoes")


def test_a_policy_that_cannot_take_items_in_starts_afresh(open_ranker):
    ranker = open_ranker(policy=f"{Path(__file__).with_name('counting.py')}:Counting", grace=2)
    ranker.rank("shoes", ITEMS)
    ranker.rank("shoes", ITEMS[:5])
    assert ranker.query("shoes").generation == 1
    ranker.rank("shoes", ITEMS[:5])
    assert (ranker.query("shoes").generation, ranker.query("shoes").items) == (2, ITEMS[:5])
    ranker.rank("shoes", [*ITEMS[:5], "G"])
    assert ranker.query("shoes").generation == 3


def test_feedback_to_lists_from_before_items_came_and_went(open_ranker):
    """Learned from while all its items are there, void once one is gone."""
    ranker = open_ranker(policy="batchrank", grace=1, positions=2)
    first, second = (ranker.rank("shoes", ITEMS) for _ in range(2))
    ranker.rank("shoes", [*ITEMS, "G"])
    ranker.settle(first.id)
    assert ranker.query("shoes").summary.learned == 1
    rest = [item for item in [*ITEMS, "G"] if item != second.items[0]]
    ranker.rank("shoes", rest)
    ranker.settle(second.id)
    assert ranker.query("shoes").summary.learned == 1
    assert ranker.query("shoes").summary.settled == 2
    assert ranker.verify("shoes")


def test_numbers_of_items_are_followed():
    learner = Learner("shoes", Algorithms())
    learner.apply(StartRecord("random", 2, 100, 0, list("ABCD")))
    version = learner.version
    learner.apply(ItemsRecord(["E", "F"], ["B"], {}))
    learner.apply(ItemsRecord(["G"], ["A", "F"], {}))
    assert learner.items == list("CDEG")
    assert learner._numbers_since(version).tolist() == [-1, -1, 0, 1]
    assert learner._numbers_since(version + 1).tolist() == [-1, 0, 1, 2, -1]  # of A, C, D, E, F
    ranking = np.array([2, 1], "<i2").tobytes()
    found = learner.feedback(version, ranking, b"")
    assert (np.frombuffer(found.ranking, "<i2").tolist(), found.complete) == ([0, -1], False)
    learner.apply(StartRecord("random", 2, 100, 0, list("ABCD")))
    assert learner._numbers_since(version) is None


def test_more_items_than_there_may_be_leave_at_once(open_ranker):
    ranker = open_ranker(policy="random")
    many = [f"{n:04}" for n in range(1000)]
    ranker.rank("shoes", many)
    ranker.rank("shoes", [*many[1:], "new"])
    assert ranker.query("shoes").summary.items == 1000
    assert ranker.query("shoes").generation == 1


# --- bounded ------------------------------------------------------------------------------------------------


@pytest.fixture
def count(sql):
    return lambda table: sql(f"select count(*) from {table}")[0][0]


def test_what_is_old_is_pruned(open_ranker, count, clock, short_pauses, monkeypatch):
    monkeypatch.setattr(transaction, "_SNAPSHOT_RECORDS", 64)
    ranker = open_ranker(policy="batchrank", horizon=100, retention="2h")
    kept = []
    for _ in range(6):
        for _ in range(50):
            shown = ranker.rank("shoes", ITEMS)
            ranker.click(shown.id, shown.items[0])
            ranker.settle(shown.id)
            kept.append(shown)
        clock.now += 3600
    learned = ranker.query("shoes").learned
    for _ in range(8):
        ranker.stats()
    assert count("impressions") == count("events") == 100
    assert 2 <= count("snapshots") <= 5
    assert count("log") < 250
    assert ranker.verify("shoes")
    assert ranker.click(kept[0].id, "A", event_id="again").verdict == "unknown"
    assert ranker.click(kept[-1].id, kept[-1].items[0]).verdict == "duplicate"
    summary = ranker.query("shoes").summary
    assert (summary.impressions, summary.learned, summary.clicks) == (300, 300, 300)
    ranker.close()
    ranker = open_ranker(policy="batchrank", horizon=100, retention="2h")
    assert ranker.query("shoes").learned == learned


def test_what_is_pending_is_not_pruned(open_ranker, count, clock, short_pauses):
    ranker = open_ranker(retention="30m")
    shown = ranker.rank("shoes", ITEMS)
    clock.now += 1799
    ranker.stats()
    assert ranker.click(shown.id, shown.items[0]).verdict == "accepted"
    clock.now += 3600
    for _ in range(3):
        summary = ranker.query("shoes").summary
    assert (summary.settled, summary.clicks) == (1, 1)
    assert count("impressions") == 0


def test_a_window_beyond_retention_is_refused(open_ranker):
    ranker = open_ranker(retention="1h")
    with pytest.raises(InputError, match="at least as long as the window"):
        ranker.reset("shoes", window="2h")


def test_only_some_learners_are_in_memory(open_ranker):
    ranker = open_ranker(policy="batchrank", learners=3, horizon=100)
    lists = [ranker.rank(f"q{n % 10}", ITEMS) for n in range(100)]
    for shown in lists:
        ranker.settle(shown.id)
    stats = ranker.stats()
    assert (stats.learners, stats.queries, stats.learned) == (3, 10, 100)
    assert stats.loaded > 100
    assert all(ranker.verify(f"q{n}") for n in range(10))
