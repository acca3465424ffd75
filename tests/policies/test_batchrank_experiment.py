"""The version of BatchRank behind the paper's figures: its invariants at every step, and what it shows."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from clickbandit import BatchRank
from clickbandit.compiling.kernel import interpreted
from policies.worlds import LEVEL, World, copy, same, worlds

EXPERIMENT = BatchRank(variant="experiment").algorithm


class Batches:
    """What must hold of the ordered batches now, and of what they became since the last look."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.active = set(range(world.n_items))
        self.known: dict[int, tuple[list[int], int, Any]] = {}
        self.cut = self.dropped = self.halved = 0
        self.look()

    def look(self) -> None:
        state = self.world.state
        place, active = 0, set()
        known = {}
        while place < len(state.items) and state.batch[place] >= 0:
            # an ordered partition: each batch starts where the one before ends
            end = int(state.end[place])
            assert place < end <= len(state.items)
            assert (state.batch[place:end] == place).all()
            items = sorted(state.items[place:end].tolist())
            assert not active & set(items)
            active |= set(items)
            known[int(state.version[place])] = self._look_at_group(place, items)
            place = end
        assert (state.batch[place:] == -1).all()
        assert sorted(state.items.tolist()) == list(range(self.world.n_items))
        # nothing dropped returns, and the list can always be filled
        assert active <= self.active
        assert len(active) >= self.world.n_positions
        if not state.eliminate:
            assert active == self.active
        self.dropped += len(self.active) - len(active)
        self.cut += len(known) - max(len(self.known), 1)
        self.active, self.known = active, known

    def _look_at_group(self, place: int, items: list[int]) -> tuple[list[int], int, Any]:
        state = self.world.state
        version, halvings = int(state.version[place]), int(state.halvings[place])
        observed = state.observed[items].copy()
        assert (state.clicks[items] <= observed).all()
        assert state.needed[place] == math.ceil(state.budget / (2.0**-halvings) ** 2)
        assert state.lacking[place] == (observed < state.needed[place]).sum()
        if place < self.world.n_positions and len(items) > 1:
            assert state.lacking[place] > 0
        if version in self.known:
            # counts stay, and delta can only halve, when a test is due
            old_items, old_halvings, old_observed = self.known[version]
            assert items == old_items
            assert (observed >= old_observed).all()
            assert halvings - old_halvings in (0, 1)
            assert halvings == old_halvings or observed.min() >= state.budget / (2.0**-old_halvings) ** 2
            self.halved += halvings - old_halvings
        else:
            # counts start anew only when something changed
            assert self.known == {} or (observed == 0).all()
            assert halvings == 1
            assert all(items != old_items for old_items, _, _ in self.known.values())
        return items, halvings, observed


@given(world=worlds(EXPERIMENT), patience=st.sampled_from([1, 5, 80]))
@settings(max_examples=25)
def test_invariants_of_the_experiment_variant(world: World, patience: int) -> None:
    batches = Batches(world)
    chance = np.random.default_rng(1)
    for _ in range(500):
        world.rank()
        while len(world.out) > chance.integers(0, patience):
            world.feedback(int(chance.integers(len(world.out))))
            batches.look()


def test_the_experiment_variant_cuts_drops_and_halves() -> None:
    world = World(EXPERIMENT, [0.9, 0.05, 0.5, 0.0, 0.7, 0.3], 3, seed=1, horizon=20)
    batches = Batches(world)
    for _ in range(4000):
        world.rank()
        world.feedback()
        batches.look()
    assert batches.cut >= 2
    assert batches.dropped >= 2
    assert batches.halved >= 1


def test_feedback_of_an_older_batch_is_ignored() -> None:
    world = World(EXPERIMENT, [1.0, 0.0, 0.5], 2, seed=3, horizon=20)
    ranking, memo = np.zeros(2, np.int64), np.zeros(2)
    interpreted(world.algorithm.rank)(world.state, world.rng, ranking, memo)
    while world.state.batches[0] == 1:
        world.rank()
        world.feedback()
    before = copy(world.state)
    world.learn(ranking, [1, 1], memo)
    assert same(before, world.state)


def test_feedback_counts_where_only_another_batch_changed() -> None:
    """Positions 1 and 2 are a batch of their own; what becomes of the items below is nothing to them."""
    world = World(EXPERIMENT, [0.9, 0.9, 0.1, 0.0, 0.0], 3, seed=3, horizon=100)
    while world.state.batches[0] == 1:
        world.rank()
        world.feedback()
    assert world.state.end[0] == 2
    world.rank()
    ranking, memo = world.out.pop()
    version = int(world.state.version[2])
    while world.state.version[2] == version:
        world.rank()
        world.feedback()
    assert memo[0] == memo[1] == world.state.version[0]
    assert memo[2] != world.state.version[2]
    before = copy(world.state)
    world.learn(ranking, [1, 0, 1], memo)
    gained = world.state.observed - before.observed
    assert gained[ranking].tolist() == [1, 1, 0]
    assert (world.state.clicks - before.clicks)[ranking].tolist() == [1, 0, 0]


def test_the_batches_are_shown_uniformly() -> None:
    world = World(EXPERIMENT, [0.5] * 5, 3, seed=4, horizon=1000)
    lists: Counter[tuple[int, ...]] = Counter()
    for _ in range(20_000):
        world.rank()
        world.out.clear()
        lists[tuple(world.shown)] += 1
    right = list(itertools.permutations(range(5), 3))
    expected = 20_000 / len(right)
    distance = sum((lists[shown] - expected) ** 2 / expected for shown in right)
    assert chi2.sf(distance, len(right) - 1) > LEVEL
