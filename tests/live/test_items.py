"""Items that come and go, with feedback that is late: every policy that takes them in learns what they are worth."""

import numpy as np
import pytest

from clickbandit.live.algorithm import Algorithms
from clickbandit.live.learner import Learner
from clickbandit.live.records import StartRecord
from clickbandit.policies.base import parse_policy, policy_names

YARDSTICKS = ("random", "given")
"""They learn nothing."""
OPEN = [name for name in policy_names() if parse_policy(name).live.admit and name not in YARDSTICKS]
WORTH = {"good": 0.7, "fair": 0.4, "poor": 0.05, "bad": 0.04, "better": 0.95, "new and bad": 0.01}


class Shop:
    """Users who look down the list to the first item that they like."""

    def __init__(self, policy: str, algorithms: Algorithms, items: list[str]) -> None:
        self.learner = Learner("shoes", algorithms)
        self.learner.apply(StartRecord(policy, 2, 300, 1, items))
        self.items = items
        self.users = np.random.default_rng(3)
        self.waiting: list[tuple[int, bytes, bytes, list[int]]] = []
        self.void = 0

    def open(self, steps: int) -> None:
        learner = self.learner
        for _ in range(steps):
            change = learner.plan(self.items, grace=1)
            if change is not None:
                learner.apply(change)
            learner.rank()
            shown = [learner.items[item] for item in learner.ranking]
            assert set(shown) <= set(self.items)
            likes = [k for k, item in enumerate(shown) if self.users.random() < WORTH[item]]
            clicks = [int(k == min(likes, default=-1)) for k in range(len(shown))]
            ranking = learner.ranking.astype("<i2").tobytes()
            self.waiting.append((learner.version, ranking, learner.memo.tobytes(), clicks))
            if len(self.waiting) > 5:
                self.feed(*self.waiting.pop(0))

    def feed(self, version: int, ranking: bytes, memo: bytes, clicks: list[int]) -> None:
        complete = True
        if version != self.learner.version:
            ranking, memo, complete = self.learner.feedback(version, ranking, memo)
        arrays = np.frombuffer(ranking, "<i2").astype(np.int64), np.frombuffer(memo).copy()
        if complete:
            self.learner.settle(arrays[0], np.array(clicks), arrays[1])
        else:
            self.void += 1
            self.learner.void(*arrays)


@pytest.mark.parametrize("policy", OPEN)
def test_a_better_item_comes_and_the_old_best_goes(policy, plain):
    steps = (
        8000 if policy == "batchrank" else 2500
    )  # it wants to be sure, and few look at the second position
    shop = Shop(policy, plain, ["bad", "good", "poor", "fair"])
    shop.open(1500)
    shop.items = ["bad", "new and bad", "good", "better", "poor", "fair"]
    shop.open(steps)
    assert shop.learner.generation == 1
    if "ranked" not in policy:  # which are in no hurry
        assert shop.learner.best() == ["better", "good"]
    shop.items = ["bad", "better", "poor", "fair", "new and bad"]
    shop.open(steps)
    if policy in ("batchrank", "toprank"):  # which show the best all the time
        assert shop.void > 0
    assert shop.learner.generation == 1
    assert shop.learner.best()[0] == "better"
    if "ranked" not in policy:
        assert shop.learner.best()[1] == "fair"
    snapshot = shop.learner.to_bytes()
    assert Learner.from_bytes("shoes", plain, snapshot).to_bytes() == snapshot
