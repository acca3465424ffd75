"""BatchRank's invariants at every step, whatever becomes of the feedback; what it shows; and that it learns."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from clickbandit import BatchRank
from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.compiling.kernel import interpreted
from clickbandit.experiments.simulate import simulate
from clickbandit.policies.batchrank.algorithm import display_batch
from clickbandit.policies.batchrank.state import NEVER, NOT_COUNTED, open_stage
from clickbandit.queries import load_queries
from policies.worlds import LEVEL, World, compiled_only, copy, same, worlds

PRINTED = BatchRank().algorithm

# --- the printed algorithm: what holds at every step --------------------------------------------------------


class Batches:
    """What must hold of the batches now, and of what they became since the last look."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.stages: dict[tuple[int, ...], int] = {}
        self.epochs: dict[int, tuple[int, ...]] = {}
        self.issued_evenly: dict[int, bool] = {}
        self.active = set(range(world.n_items))
        self.splits = self.eliminated = self.passed = 0
        self.look()

    def look(self, *, voided: bool = False) -> None:
        state, n_positions = self.world.state, self.world.n_positions
        firsts = np.flatnonzero(state.last >= 0).tolist()
        next_first, active = 0, set()
        for first in firsts:
            last, start, size = (int(a[first]) for a in (state.last, state.start, state.size))
            items = state.items[start : start + size].tolist()
            # positions partition 1..K
            assert first == next_first
            assert last >= first
            next_first = last + 1
            # as many items as positions, and more only in the last batch
            assert size >= last - first + 1
            assert size == last - first + 1 or last == n_positions - 1
            # no item twice, and none that is gone
            assert len(set(items)) == size
            assert not active & set(items)
            assert set(items) <= self.active
            active |= set(items)
            self._look_at_counts(first, items, voided)
            # the same batch only goes on to later stages
            batch = (first, last, int(state.number[first]))
            stage = int(state.stage[first])
            assert self.stages.get(batch, 0) <= stage
            assert batch in self.stages or stage == 0
            # a stage of a batch has a number of its own
            assert self.epochs.setdefault(int(state.epoch[first]), (*batch, stage)) == (*batch, stage)
            self.passed += stage - self.stages.get(batch, 0)
            self.stages[batch] = stage
        assert next_first == n_positions
        assert state.batches[0] == 2 * len(firsts) - 1 <= 2 * n_positions
        if not state.eliminate:
            assert active == self.active
        self.splits = len(firsts) - 1
        self.eliminated += len(self.active) - len(active)
        self.active = active

    def _look_at_counts(self, first: int, items: list[int], voided: bool) -> None:
        state = self.world.state
        length = math.ceil(16 * 4 ** int(state.stage[first]) * state.log_horizon)
        if len(items) == 1:  # nothing to learn: it is never tested
            length = NEVER
        assert state.observations[first] == length
        observed, issued, clicks = (a[items] for a in (state.observed, state.issued, state.clicks))
        assert (clicks >= 0).all()
        assert (clicks <= observed).all()
        assert (observed <= issued).all()
        assert (issued <= length).all()
        # a test is made as soon as all is observed, and then counts start anew
        assert (observed < length).any()
        assert state.missing[first] == (length - observed).sum() > 0
        fresh = items[: int(state.fresh[first])]
        assert set(fresh) == {item for item in items if state.issued[item] == issued.min()}
        epoch = int(state.epoch[first])
        even = self.issued_evenly.get(epoch, True) and not voided
        self.issued_evenly[epoch] = even
        if even:
            assert issued.max() - issued.min() <= 1


def test_the_first_stage_is_the_papers() -> None:
    state = PRINTED.init(4, 2, horizon=1000)
    assert state.observations[0] == math.ceil(16 * math.log(1000)) == 111
    assert state.budget == pytest.approx(math.log(1000) + 3 * math.log(math.log(1000)))
    for stage, length in ((1, 443), (2, 1769)):
        interpreted(open_stage)(state, 0, stage)
        assert state.observations[0] == length


@given(world=worlds(PRINTED))
@settings(max_examples=15)
def test_invariants_with_immediate_feedback(world: World) -> None:
    batches = Batches(world)
    for _ in range(500):
        world.rank()
        world.feedback()
        batches.look()
        state = world.state
        for first in np.flatnonzero(state.last >= 0):
            items = state.items[state.start[first] : state.start[first] + state.size[first]]
            assert np.ptp(state.observed[items]) <= 1
            assert (state.observed[items] == state.issued[items]).all()


@given(world=worlds(PRINTED), data=st.data())
@settings(max_examples=25)
def test_invariants_whatever_becomes_of_the_feedback(world: World, data: st.DataObject) -> None:
    """Late, in another order, void, or lost for good (a list that is out when the steps end, or is forgotten)."""
    void_share = data.draw(st.sampled_from([0.0, 0.05, 0.5]), "share of void lists")
    lost_share = data.draw(st.sampled_from([0.0, 0.002]), "share of lost lists")
    patience = data.draw(st.sampled_from([1, 5, 80]), "lists out")
    chance = np.random.default_rng(data.draw(st.integers(0, 2**32), "seed"))
    batches = Batches(world)
    for _ in range(500):
        world.rank()
        batches.look()
        while len(world.out) > chance.integers(0, patience):
            which = int(chance.integers(len(world.out)))
            if chance.random() < lost_share:
                world.out.pop(which)
            elif chance.random() < void_share:
                world.void(which)
                batches.look(voided=True)
            else:
                world.feedback(which)
                batches.look()


def test_the_random_problems_have_splits_eliminations_and_stages() -> None:
    """The invariants above would say little if nothing happened."""
    world = World(PRINTED, [0.9, 0.05, 0.5, 0.0, 0.7, 0.3], 3, seed=1, horizon=20)
    batches = Batches(world)
    chance = np.random.default_rng(0)
    for _ in range(4000):
        world.rank()
        while len(world.out) > chance.integers(0, 20):
            which = int(chance.integers(len(world.out)))
            void = chance.random() < 0.1
            (world.void if void else world.feedback)(which)
            batches.look(voided=void)
    assert batches.splits == 2
    assert batches.eliminated >= 1
    assert batches.passed >= 4


# --- late, lost and void lists ------------------------------------------------------------------------------


def issue_all(world: World) -> None:
    """Rank until the first stage is issued in full."""
    state = world.state
    while state.issued.min() < state.observations[0]:
        world.rank()


@pytest.mark.parametrize(("n_items", "n_positions"), [(3, 3), (5, 3), (4, 1)])
def test_once_all_is_issued_lists_go_on_and_do_not_count(n_items: int, n_positions: int) -> None:
    world = World(PRINTED, [0.5] * n_items, n_positions, seed=2, horizon=20)
    issue_all(world)
    counted = len(world.out)
    length = world.state.observations[0]
    assert counted == length * math.ceil(n_items / n_positions)  # a round ends with a list that is filled up
    before = copy(world.state)
    lists = set()
    for _ in range(1000):
        world.rank()
        lists.add(tuple(world.shown))
        assert (world.out[-1][1] == NOT_COUNTED).all()
    assert len(lists) == math.perm(n_items, n_positions)
    for _ in range(1000):
        world.feedback(counted)
    unchanged = [name for name in before._fields if name != "items"]
    assert all(np.array_equal(getattr(before, name), getattr(world.state, name)) for name in unchanged)
    # the stage ends with the last feedback that counts, whatever the order
    for left in range(counted, 0, -1):
        assert world.state.stage[0] == 0
        world.feedback(left - 1)
    assert world.state.stage[0] == 1 or world.state.batches[0] == 3


def test_feedback_of_a_stage_that_is_over_is_ignored() -> None:
    world = World(PRINTED, [0.5, 0.5, 0.5], 2, seed=3, horizon=20)
    ranking, memo = np.zeros(2, np.int64), np.zeros(2)
    interpreted(world.algorithm.rank)(world.state, world.rng, ranking, memo)
    world.learn(ranking, [1, 0], memo)
    while world.state.stage[0] == 0:
        world.rank()
        world.feedback()
    before = copy(world.state)
    world.learn(ranking, [1, 1], memo)
    interpreted(world.algorithm.void)(world.state, ranking, memo)
    assert same(before, world.state)


def test_feedback_of_a_batch_that_was_split_is_ignored() -> None:
    world = World(PRINTED, [1.0, 0.0], 2, seed=3, horizon=20)
    ranking, memo = np.zeros(2, np.int64), np.zeros(2)
    interpreted(world.algorithm.rank)(world.state, world.rng, ranking, memo)
    world.learn(ranking, [1, 0], memo)
    while world.state.batches[0] == 1:
        world.rank()
        world.feedback()
    before = copy(world.state)
    world.learn(ranking, [1, 1], memo)
    interpreted(world.algorithm.void)(world.state, ranking, memo)
    assert same(before, world.state)


@given(seed=st.integers(0, 1000), n_items=st.integers(2, 6), data=st.data())
@settings(max_examples=25)
def test_a_void_list_is_shown_again(seed: int, n_items: int, data: st.DataObject) -> None:
    """The items that a void list was to count are next in turn, and the stage ends all the same."""
    n_positions = data.draw(st.integers(1, n_items))
    world = World(PRINTED, [0.5] * n_items, n_positions, seed, horizon=5)
    issue_all(world)
    ranking, memo = world.out[data.draw(st.integers(0, len(world.out) - 1))]
    void = ranking[memo != NOT_COUNTED].tolist()
    issued = world.state.issued.copy()
    world.void(next(i for i, (other, _) in enumerate(world.out) if other is ranking))
    issued[void] -= 1
    assert world.state.issued.tolist() == issued.tolist()
    world.rank()
    again, memo = world.out[-1]
    assert set(again[memo != NOT_COUNTED].tolist()) == set(void)
    assert (world.state.issued == world.state.observations[0]).all()
    while world.out:
        assert world.state.stage[0] == 0
        world.feedback()
    assert world.state.stage[0] == 1


# --- what is shown ------------------------------------------------------------------------------------------


class Scripted:
    """Stands for a generator: goes through all outcomes of all draws, and knows how likely each is."""

    def __init__(self) -> None:
        self.script: list[int] = []
        self.sizes: list[int] = []

    def random(self) -> "Scripted":
        return self

    def __mul__(self, n: int) -> int:
        if len(self.sizes) == len(self.script):
            self.script.append(0)
        self.sizes.append(n)
        return self.script[len(self.sizes) - 1]

    def runs(self) -> Iterator[None]:
        while True:
            self.sizes = []
            yield
            while self.script and self.script[-1] == self.sizes[len(self.script) - 1] - 1:
                self.script.pop()
            if not self.script:
                return
            self.script[-1] += 1

    @property
    def probability(self) -> Fraction:
        return Fraction(1, math.prod(self.sizes))


def lists_to_show(fresh: set[int], others: set[int], length: int) -> list[tuple[int, ...]]:
    """All lists with as many fresh items as fit, and others only where there are too few."""
    lists = itertools.permutations(fresh | others, length)
    return [shown for shown in lists if len(fresh & set(shown)) == min(len(fresh), length)]


@pytest.mark.parametrize(
    ("n_items", "length"), [(n, length) for n in range(2, 6) for length in range(1, min(n, 4) + 1)]
)
def test_what_a_batch_shows_is_exactly_uniform(n_items: int, length: int) -> None:
    """By all outcomes of all draws, for each number of fresh items: those that are issued least."""
    for n_fresh in range(1, n_items + 1):
        start = PRINTED.init(n_items, length, horizon=1000)
        start.items[:] = np.roll(np.arange(n_items), 1)
        start.fresh[0] = n_fresh
        start.issued[start.items] = [3] * n_fresh + [4] * (n_items - n_fresh)
        fresh = set(start.items[:n_fresh].tolist())
        others = set(start.items[n_fresh:].tolist())
        law: Counter[tuple[int, ...]] = Counter()
        draws = Scripted()
        for _ in draws.runs():
            state, ranking, memo = copy(start), np.zeros(length, np.int64), np.zeros(length)
            interpreted(display_batch)(state, 0, draws, ranking, memo)
            law[tuple(ranking.tolist())] += draws.probability  # type: ignore[assignment]
            assert [item in fresh for item in ranking] == (memo != NOT_COUNTED).tolist()
        right = lists_to_show(fresh, others, length)
        assert law == dict.fromkeys(right, Fraction(1, len(right)))


@pytest.mark.parametrize(("n_items", "n_positions"), [(4, 2), (5, 3), (3, 3), (4, 1), (5, 4)])
def test_the_display_is_uniform(n_items: int, n_positions: int) -> None:
    """Chi-square of the lists of a long stage, by which items were fresh (more than fit, or fewer)."""
    world = World(PRINTED, [0.5] * n_items, n_positions, seed=5, horizon=10**9)
    world.state.observations[0] = 10**9  # one endless stage
    seen: dict[frozenset[int], Counter[tuple[int, ...]]] = {}
    for _ in range(20_000):
        fresh = frozenset(world.state.items[: world.state.fresh[0]].tolist())
        world.rank()
        world.out.clear()
        seen.setdefault(fresh, Counter())[tuple(world.shown)] += 1
    sizes = {len(fresh) for fresh in seen}
    assert n_items % n_positions == 0 or min(sizes) < n_positions < max(sizes)
    distance, freedom = 0.0, 0
    for fresh, lists in seen.items():
        right = lists_to_show(set(fresh), set(range(n_items)) - fresh, n_positions)
        assert set(lists) <= set(right)
        expected = lists.total() / len(right)
        if expected >= 5:
            distance += sum((lists[shown] - expected) ** 2 / expected for shown in right)
            freedom += len(right) - 1
    assert freedom > 0
    assert chi2.sf(distance, freedom) > LEVEL


def test_each_item_counts_equally_often_at_each_position() -> None:
    """So that its share of clicks in the PBM is its attraction times the mean examination, the same for all."""
    n_items, length = 3, 2
    places = np.zeros((n_items, length))
    draws = Scripted()
    for _ in draws.runs():
        state = PRINTED.init(n_items, length, horizon=1000)
        counted = []
        for _ in range(2):  # one round: two items count in the first list, the third in the second
            ranking, memo = np.zeros(length, np.int64), np.zeros(length)
            interpreted(display_batch)(state, 0, draws, ranking, memo)
            counted += [(ranking[k], k) for k in range(length) if memo[k] != NOT_COUNTED]
        assert state.issued.tolist() == [1] * n_items
        for place in counted:
            places[place] += float(draws.probability)
    assert places == pytest.approx(np.full((n_items, length), 1 / length))


# --- it learns: the trap of a full batch --------------------------------------------------------------------


def check_sublinear(model: ClickModel, positions: int) -> None:
    """Far less is lost in the last tenth, and over all, than by random lists, which is what a frozen batch shows."""
    steps = 1_000_000
    trace = simulate("batchrank", model, positions=positions, steps=steps, runs=6, seed=1)
    random = simulate("random", model, positions=positions, steps=10_000, seed=1).regret.mean()
    assert trace.regret[:, -10:].mean() < 0.25 * random
    assert trace.cumulative_regret[:, -1].mean() < 0.4 * steps * random


@compiled_only
def test_a_full_batch_goes_on_to_later_stages() -> None:
    """As many items as positions: read literally, the paper's pseudo-code would never test such a batch again."""
    attraction = [0.45, 0.1, 0.3, 0.05, 0.25, 0.4, 0.15, 0.2, 0.35, 0.02]
    examination = [1.0, 0.97, 0.77, 0.6, 0.46, 0.39, 0.33, 0.28, 0.26, 0.25]
    check_sublinear(PositionBasedModel(attraction=attraction, examination=examination), positions=10)


@compiled_only
def test_a_full_batch_goes_on_to_later_stages_on_a_real_query(shared: Path) -> None:
    queries = load_queries(shared / "queries" / "yandex-10.json")
    check_sublinear(queries[0].models["PBM"], positions=10)


@compiled_only
def test_both_learn_the_best_list() -> None:
    model = CascadeModel(attraction=[0.05, 0.8, 0.02, 0.5, 0.2])
    for variant in ("printed", "experiment"):
        trace = simulate(f"batchrank:variant={variant}", model, positions=3, steps=100_000, runs=2, seed=1)
        assert trace.final_lists == [[1, 3, 4]] * 2
