"""Learners: the simulator's lists, seed for seed; and the log that gives the same bytes however it is replayed."""

import sys
from typing import Any

import numpy as np
import pytest

from clickbandit import InputError, PositionBasedModel, Problem, Run
from clickbandit.compiling.specialise import specialise
from clickbandit.live import algorithm, records
from clickbandit.live.algorithm import Algorithms
from clickbandit.live.learner import Learner
from clickbandit.policies.base import policy_class, policy_names
from clickbandit.randomness import generators
from naive.recorded import Recorded

ATTRACTION = [0.1, 0.9, 0.3, 0.02, 0.6, 0.5]
MODEL = PositionBasedModel(attraction=ATTRACTION, examination=[1, 0.7, 0.4])
ITEMS = list("ABCDEF")
LIVE = [name for name in policy_names() if not policy_class(name).knows]
COMPILED = ["batchrank", "cascade-kl-ucb", "ranked-exp3"]
"""Enough to compile for: that policies are the same compiled and as plain Python is tested elsewhere."""
OTHERS = [
    *(name for name in LIVE if name not in COMPILED),
    "batchrank:variant=experiment",
    "ranked-exp3:mixing=true",
]
ALGORITHMS = Algorithms()


@pytest.fixture
def algorithms(policy: str, plain: Algorithms) -> Algorithms:
    return ALGORITHMS if policy in COMPILED else plain


@pytest.mark.parametrize("policy", [*COMPILED, *OTHERS])
def test_with_immediate_feedback_lists_are_the_simulators(policy, algorithms):
    problem = Problem(policy, Recorded(MODEL), positions=3, horizon=500, query="shoes", method="step")
    problem.loop = problem.make_loop(compiled=policy in COMPILED)
    run = Run(problem, seed=7)
    run.rng, _ = generators(7, "shoes", "live", policy, 0)  # where the users' model would be named
    learner = Learner("shoes", algorithms)
    learner.apply(records.StartRecord(policy, 3, 500, 7, ITEMS))
    for step in range(1500 if policy in COMPILED else 300):
        run.advance(1)
        learner.rank()
        assert learner.ranking.tolist() == run.slots.rankings[0].tolist(), step
        learner.settle(learner.ranking, run.slots.clicks[0], learner.memo)
    for found, expected in zip(learner.state, run.state, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert learner.best() == [ITEMS[run.numbering.index(item)] for item in run.best()]


class Log:
    """A learner with late, lost and void feedback, and all that happened to it written down."""

    def __init__(self, policy: str, algorithms: Algorithms) -> None:
        first = records.StartRecord(policy, 3, 200, 1, ITEMS)
        self.learner = Learner("shoes", algorithms)
        self.learner.apply(first)
        self.rows = [records.text(first)]
        self.waiting: list[tuple[Any, Any]] = []

    def go_on(self, steps: int, chance: np.random.Generator) -> None:
        for _ in range(steps):
            self.learner.rank()
            row = records.RANK
            self.waiting.append((self.learner.ranking.copy(), self.learner.memo.copy()))
            while self.waiting and chance.random() < 0.5:
                ranking, memo = self.waiting.pop(int(chance.random() * len(self.waiting)))
                short = ranking.astype("<i2").tobytes()
                if chance.random() < 0.9:
                    mask = int(chance.random() * 8)
                    self.learner.settle(ranking, records.bits(mask, 3), memo)
                    row += records.settle(short, mask, memo.tobytes())
                else:
                    self.learner.void(ranking, memo)
                    row += records.void(short, memo.tobytes())
            self.rows.append(row)


@pytest.mark.parametrize("policy", [*COMPILED, *OTHERS])
def test_replaying_the_log_or_its_tail_gives_the_same_bytes(policy, algorithms):
    chance = np.random.default_rng(2)
    log = Log(policy, algorithms)
    steps = 400 if policy in COMPILED else 150
    log.go_on(steps, chance)
    middle, n = log.learner.to_bytes(), len(log.rows)
    log.go_on(steps, chance)
    expected = log.learner.to_bytes()

    whole = Learner("shoes", algorithms)
    whole.replay(b"".join(log.rows))
    assert whole.to_bytes() == expected

    resumed = Learner.from_bytes("shoes", algorithms, middle)
    assert resumed.to_bytes() == middle
    for row in log.rows[n:]:
        resumed.replay(row)
    assert resumed.to_bytes() == expected
    assert resumed.number == sum(len(list(records.read(row))) for row in log.rows)


def test_records_are_read_as_they_were_written():
    memo = np.array([0.5, np.pi])
    ranking = np.array([3, -1, 700])
    row = (
        records.RANK
        + records.settle(ranking.astype("<i2").tobytes(), 0b101, memo.tobytes())
        + records.void(ranking.astype("<i2").tobytes(), b"")
        + records.text(records.ItemsRecord(["Größe"], ["B"], {"C": 2}))
    )
    rank, settled, voided, items = records.read(row)
    assert rank == records.RankRecord()
    assert isinstance(settled, records.SettleRecord)
    assert settled.ranking.tolist() == [3, -1, 700]
    assert settled.clicks.tolist() == [1, 0, 1]
    assert settled.memo.tolist() == memo.tolist()
    assert isinstance(voided, records.VoidRecord)
    assert voided.memo.tolist() == []
    assert items == records.ItemsRecord(["Größe"], ["B"], {"C": 2})
    with pytest.raises(records.Damaged, match="kind 9"):
        list(records.read(b"\x09"))


def test_a_policy_that_must_be_told_about_users_is_refused():
    with pytest.raises(InputError, match="only a simulation knows"):
        ALGORITHMS.add("optimal")


def test_lists_leave_nothing_behind():
    """numba must let go of the generator, or a service that runs for weeks is out of memory."""
    learner = Learner("shoes", ALGORITHMS)
    learner.apply(records.StartRecord("batchrank", 2, 1000, 0, ["A", "B", "C"]))
    learner.rank()
    before = sys.getrefcount(learner.rng)
    for _ in range(100):
        learner.rank()
    after = sys.getrefcount(learner.rng)
    assert after == before


def test_a_snapshot_is_read_by_the_order_of_its_fields_whatever_they_were_called_then(plain: Algorithms):
    """As in a store of version 0.1, where the value that CTS draws for an item was called otherwise."""
    learner = Log("cts", plain).learner
    learner.rank()
    older = learner.to_bytes().replace(b'"value"', b'"drawn"')
    assert older != learner.to_bytes()
    assert Learner.from_bytes("shoes", plain, older).to_bytes() == learner.to_bytes()


def started(policy: str, algorithms: Algorithms) -> Learner:
    learner = Learner("shoes", algorithms)
    learner.apply(records.StartRecord(policy, 3, 200, 1, ITEMS))
    return learner


def test_estimated_propensities_leave_no_trace(plain):
    """The lists, the state and the stream are those of a learner without them."""
    one, other = (started("cts", plain) for _ in range(2))
    for _ in range(5):
        one.rank(draws=20)
        other.rank()
        assert one.ranking.tolist() == other.ranking.tolist()
        assert one.estimate is not None
        assert other.estimate is None
        chance, error, *_ = one.estimate
        assert ((chance > 0) & (chance <= 1) & (error > 0)).all()
        assert np.isnan(other.chances).all()
    assert one.to_bytes() == other.to_bytes()


def test_exact_propensities_are_not_estimated(plain):
    learner = started("random", plain)
    learner.rank(draws=20)
    assert learner.estimate is None
    assert learner.chances.tolist() == [1 / len(learner.items)] * learner.shown


def test_machine_code_is_made_once_for_all_settings_of_a_policy(monkeypatch):
    made = []

    def plainly(*args, **parts):
        made.append(args)
        return specialise(*args, **{**parts, "compiled": False})

    monkeypatch.setattr(algorithm, "specialise", plainly)
    algorithms = Algorithms()
    for policy in ("cascade-ducb", "cascade-ducb:exploration=0.5", "cascade-ducb:exploration=0.25", "random"):
        algorithms.add(policy)
    assert len(made) == 2


def test_only_those_that_divide_items_are_asked_how(plain):
    """The others may take long to describe themselves, and have nothing to say of groups; what was said is kept."""
    learner = started("cts", plain)
    assert (learner.divided(), learner.never_shows(["A"]), learner.always_shows("A", 1)) == ({}, False, False)
    assert learner.described is None
    said = learner.describe()
    assert learner.describe() is said
    learner.rank()
    assert learner.describe() is not said
    assert "groups" in started("batchrank", plain).divided()


def test_names_are_written_once_however_many_items_leave(plain, monkeypatch):
    learner = Learner("shoes", plain)
    learner.apply(records.StartRecord("cts", 2, 100, 1, list("ABCDEF")))
    named = []
    name = Learner._name
    monkeypatch.setattr(Learner, "_name", lambda self, items: (named.append(items), name(self, items)))
    learner.apply(records.ItemsRecord(["G", "H"], ["E", "A", "G"], {}))
    assert named == [["B", "C", "D", "F", "H"]]
    assert learner.changes == [[2, -5, -1, -5]]
    assert [learner.index[item] for item in learner.items] == list(range(5))
