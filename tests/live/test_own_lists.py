"""What is done with lists while they are in memory gives what their bytes would."""

import json

import numpy as np
import pytest

from clickbandit.live import Ranker, learning
from clickbandit.live.algorithm import Algorithms
from clickbandit.live.chances import last_chances, read_chances, write_chances
from clickbandit.live.learner import Learner
from clickbandit.live.records import ItemsRecord, StartRecord, bits, settle, settle_both

ITEMS = [f"item {k}" for k in range(6)]


def started(policy):
    learner = Learner("shoes", Algorithms())
    learner.start(StartRecord(policy, 4, 1000, 1, ITEMS))
    return learner


@pytest.mark.parametrize("policy", ["batchrank", "cts", "ranked-exp3", "click-ts"])
def test_a_list_in_memory_is_learned_from_as_from_its_bytes(policy):
    one, other = started(policy), started(policy)
    clicks = np.random.default_rng(1).integers(0, 16, 300)
    for mask in clicks.tolist():
        one.rank()
        other.rank()
        names, items, written = one.last_list()
        assert names == tuple(json.loads(items)) == tuple(one.items[k] for k in one.ranking)
        n_memo = len(one.memo)
        one.rank()  # which its lists that are out do not depend on
        other.rank()
        one.settle_own(learning.content(written), mask)
        _, ranking, memo = learning.read(written)
        record = settle_both(learning.content(written), len(names), n_memo, mask)
        assert record == settle(ranking, mask, memo)
        order = np.frombuffer(ranking, "<i2").astype(np.int64)
        other.settle(order, bits(mask, 4), np.frombuffer(memo).copy())
    assert one.to_bytes() == other.to_bytes()


def test_lists_of_other_items_are_not_its_own():
    learner = started("batchrank")
    learner.rank()
    numbers = learner.numbers
    others = [started("batchrank").numbers, Learner("shoes", Algorithms()).numbers]
    assert numbers not in [None, *others]
    assert None not in others  # as those of rows that were read from the store are
    learner.rank()
    assert learner.numbers is numbers
    learner.change(ItemsRecord(["new"], [], {}))
    assert learner.numbers is not numbers


@pytest.mark.parametrize("policy", ["batchrank", "cts", "click-ts"])
@pytest.mark.parametrize("draws", [0, 20])
def test_propensities_are_said_as_they_are_written(policy, draws):
    learner = started(policy)
    for _ in range(5):
        learner.rank(draws)
        assert last_chances(learner) == read_chances(write_chances(learner), 4)


def test_propensities_that_are_not_known_are_said_so():
    learner = started("batchrank")
    learner.rank()
    learner.chances[1] = np.nan
    assert last_chances(learner) == read_chances(write_chances(learner), 4)
    assert last_chances(learner)[0][1] is None


def test_an_item_that_is_missing_once_is_missed_though_the_request_before_was_the_same(tmp_path):
    with Ranker(f"sqlite:///{tmp_path}/clicks.db", policy="batchrank", positions=2, grace=3) as ranker:
        sources = [ranker.rank("shoes", ITEMS[:n]).source for n in (4, 4, 4, 3, 3, 4, 4, 3)]
    assert sources == ["policy"] * 3 + ["rules"] * 2 + ["policy"] * 2 + ["rules"]
