"""Items that come and go in BatchRank: its batches stay in order, and the best list is found all the same."""

from typing import Any

import numpy as np
import pytest

from clickbandit import BatchRank
from clickbandit.compiling.kernel import interpreted

VARIANTS = {variant: BatchRank(variant=variant) for variant in ("printed", "experiment")}
HORIZON = 50


def batches(policy: Any, state: Any) -> list[tuple[int, int, list[int]]]:
    return [
        (batch["first"], batch["last"], batch["items"]) for batch in policy.live.describe(state)["groups"]
    ]


def check_printed(state: Any) -> None:
    """Batches follow each other, in positions and in items; only the last one has more items than positions."""
    n_items, n_positions = len(state.items), len(state.last)
    assert sorted(state.items.tolist()) == list(range(n_items))
    position = place = 0
    while position < n_positions:
        last = int(state.last[position])
        assert position <= last < n_positions
        assert (state.last[position + 1 : last + 1] == -1).all()
        assert state.start[position] == place
        size = int(state.size[position])
        assert size >= last - position + 1
        assert size == last - position + 1 or last == n_positions - 1
        items = state.items[place : place + size]
        if size > 1:
            waits = state.observations[position] * size - state.observed[items].sum()
            assert state.missing[position] == waits
            assert (state.issued[items] >= state.observed[items]).all()
        if position == 0:
            assert state.newcomer[items].sum() == 0
        else:
            assert state.newcomer[items].sum() < size  # else they would have climbed
        position, place = last + 1, place + size


def check_experiment(state: Any) -> None:
    n_items = len(state.items)
    assert sorted(state.items.tolist()) == list(range(n_items))
    place = 0
    while place < state.n_positions:
        end = int(state.end[place])
        assert (state.batch[place:end] == place).all()
        items = state.items[place:end]
        assert state.lacking[place] == (state.observed[items] < state.needed[place]).sum()
        assert state.newcomer[items].sum() < max(place, 1) * len(items)
        assert end <= state.n_positions or (state.batch[end:] == -1).all()
        place = end


CHECKS = {"printed": check_printed, "experiment": check_experiment}


class Page:
    """A page with users of a position-based model, whose items come and go; feedback is late."""

    def __init__(self, variant: str, attraction: list[float], n_positions: int, seed: int) -> None:
        self.policy = VARIANTS[variant]
        self.check = CHECKS[variant]
        self.attraction = list(attraction)
        self.examination = 0.9 ** np.arange(n_positions)
        self.state = self.policy.algorithm.init(len(attraction), n_positions, horizon=HORIZON)
        self.rng, self.users = np.random.default_rng(seed), np.random.default_rng(seed + 1)
        self.waiting: list[Any] = []
        self.rank = interpreted(self.policy.algorithm.rank)
        self.update = interpreted(self.policy.algorithm.update)

    def step(self, delay: int = 3) -> None:
        ranking, memo = np.zeros(len(self.examination), np.int64), np.zeros(len(self.examination))
        self.rank(self.state, self.rng, ranking, memo)
        attracted = np.array(self.attraction)[ranking] * self.examination
        clicks = (self.users.random(len(ranking)) < attracted).astype(np.int64)
        self.waiting.append([ranking, clicks, memo])
        if len(self.waiting) > delay:
            ranking, clicks, memo = self.waiting.pop(0)
            if (ranking >= 0).all():
                self.update(self.state, ranking, clicks, memo)
            else:
                interpreted(self.policy.algorithm.void)(self.state, ranking, memo)
            self.check(self.state)

    def admit(self, *attraction: float) -> None:
        self.state = self.policy.live.admit(self.state, len(attraction))
        self.attraction += attraction
        self.check(self.state)

    def retire(self, item: int) -> None:
        self.state = self.policy.live.retire(self.state, item)
        del self.attraction[item]
        for impression in self.waiting:
            ranking = impression[0]
            impression[0] = np.where(ranking == item, -1, np.where(ranking > item, ranking - 1, ranking))
        self.check(self.state)

    def settle(self, most: int = 60_000) -> None:
        """Go on until nothing changes any more."""
        for _ in range(most):
            if self.policy.live.describe(self.state)["settled"]:
                return
            for _ in range(100):
                self.step()
        raise AssertionError(f"still in doubt: {batches(self.policy, self.state)}")

    def best(self) -> list[float]:
        """The attractions of the list that it would show now."""
        ranking = np.zeros(len(self.examination), np.int64)
        self.policy.algorithm.best(self.state, ranking)
        return [self.attraction[item] for item in ranking]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_new_item_finds_its_place_wherever_that_is(variant):
    """Also above the batch that it entered, and through several batches."""
    page = Page(variant, [0.8, 0.5, 0.2, 0.01], 3, seed=1)
    page.settle()
    assert page.best() == [0.8, 0.5, 0.2]
    page.admit(0.99)
    page.settle()
    assert page.best() == [0.99, 0.8, 0.5]
    page.admit(0.02)
    page.settle()
    assert page.best() == [0.99, 0.8, 0.5]
    page.admit(0.65, 0.25)
    page.settle()
    assert page.best() == [0.99, 0.8, 0.65]


@pytest.mark.parametrize("variant", VARIANTS)
def test_where_an_item_leaves_the_best_of_the_rest_moves_up(variant):
    """Also one that was eliminated before."""
    page = Page(variant, [0.95, 0.7, 0.45, 0.2, 0.02], 3, seed=3)
    page.settle()
    assert page.best() == [0.95, 0.7, 0.45]
    page.retire(1)
    assert batches(page.policy, page.state)[-1][2][-2:] == [2, 3]  # they had been eliminated, and are back
    page.settle()
    assert page.best() == [0.95, 0.45, 0.2]
    page.retire(0)
    page.settle()
    assert page.best() == [0.45, 0.2, 0.02]


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_above_keeps_its_counts(variant):
    page = Page(variant, [0.95, 0.9, 0.3, 0.25, 0.2], 4, seed=5)
    while batches(page.policy, page.state)[0][2] != [0, 1]:
        page.step()
    for _ in range(40):
        page.step()
    before = page.state.observed[:2].copy()
    assert before.min() > 10
    page.admit(0.1)
    page.retire(4)
    assert page.state.observed[:2].tolist() == before.tolist()
    assert page.state.observed[2:].sum() == 0
    for _ in range(4):  # feedback to lists from before counts in the batch above, and below it does not
        page.step()
    assert (page.state.observed[:2] > before).any()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(4))
def test_the_batches_stay_in_order_whatever_comes_and_goes(variant, seed):
    chance = np.random.default_rng(seed)
    page = Page(variant, [0.9, 0.5, 0.1, 0.3], 1 + seed % 4, seed=7)
    for _ in range(1500):
        page.step(delay=5)
        if chance.random() < 0.01:
            page.admit(*chance.random(1 + int(chance.random() * 3)))
        if chance.random() < 0.02 and len(page.attraction) > len(page.examination):
            page.retire(int(chance.random() * len(page.attraction)))
    page.settle()
    assert len(page.best()) == len(page.examination)
