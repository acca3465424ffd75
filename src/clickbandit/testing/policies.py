"""What a policy must keep, as a check that anyone can run on a policy of their own."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from clickbandit.clicks._base import ClickModel
from clickbandit.clicks.pbm import PositionBasedModel
from clickbandit.kernel import FloatArray, IntArray, interpreted
from clickbandit.policies._base import Policy
from clickbandit.simulation.run import Problem, Run

_STEPS = 300


def check_policy(policy: Policy, model: ClickModel | None = None, positions: int | None = None) -> None:
    """Raise an AssertionError that says how a policy breaks the contract, if it does.

    Its state is a NamedTuple of arrays and plain numbers; every list is of different items, and every entry of the
    memo is written; the same seed gives the same lists, compiled and interpreted; a saved run continues bit for
    bit; and it goes on with feedback that is late, out of order, lost or void, learning from its arguments alone.
    Unless a click model is given it is tried on small and larger problems, also with as many positions as items.

    >>> from clickbandit import BatchRank
    >>> check_policy(BatchRank())
    """
    if model is not None:
        problems = [(model, positions or min(model.max_positions, 3))]
    else:
        problems = [(_model(n_items), k) for n_items, k in ((1, 1), (2, 2), (5, 1), (5, 3), (12, 12))]
    for users, n_positions in problems:
        problem = Problem(policy, users, positions=n_positions, horizon=_STEPS)
        where = f"{policy}, {users.n_items} items, {n_positions} positions"
        _check_state(problem, where)
        _check_lists(problem, where)
        _check_feedback(problem, where)
        _check_saving(problem, where)
        if n_positions == min(3, users.n_items) or model is not None:  # one problem is enough to compile for
            _check_compiled(problem, where)


def _model(n_items: int) -> ClickModel:
    return PositionBasedModel(
        attraction=np.linspace(0.8, 0.1, n_items).tolist(), examination=np.linspace(1, 0.3, n_items).tolist()
    )


def _check_state(problem: Problem, where: str) -> None:
    state = problem.start()
    assert isinstance(state, tuple), f"{where}: init must give a NamedTuple, found {type(state)}"
    assert hasattr(state, "_asdict"), f"{where}: init must give a NamedTuple, found a plain tuple"
    for name, value in state._asdict().items():
        fits = isinstance(value, (np.ndarray, bool, int, float))
        assert fits, f"{where}: the state's {name} must be an array or a number, found {type(value)}"
    assert problem.policy.function("memo_size")(problem.model.n_items, problem.positions) >= 0


class _Session:
    """A policy that is driven by hand, as plain Python."""

    def __init__(self, problem: Problem, where: str) -> None:
        self.problem = problem
        self.where = where
        self.state = problem.start()
        self.rng, self.users = (np.random.default_rng(seed) for seed in (1, 2))
        policy = problem.policy
        self.memo_size = policy.function("memo_size")(problem.model.n_items, problem.positions)
        self._rank = interpreted(policy.function("rank"))
        self._update = interpreted(policy.function("update"))
        self._void: Callable[..., None] | None = (
            interpreted(policy.function("void")) if policy.has("void") else None
        )

    def rank(self) -> tuple[IntArray, FloatArray]:
        ranking = np.full(self.problem.positions, -1)
        memo = np.full(self.memo_size, np.nan)
        self._rank(self.state, self.rng, ranking, memo)
        self._check_list(ranking, "rank")
        assert not np.isnan(memo).any(), (
            f"{self.where}: rank must write every entry of the memo, found {memo}"
        )
        return ranking, memo

    def update(self, ranking: IntArray, memo: FloatArray) -> None:
        clicks = self.problem.model.click(ranking.tolist(), self.users)
        given = ranking.copy(), clicks.copy(), memo.copy()
        self._update(self.state, *given)
        for before, after in zip((ranking, clicks, memo), given, strict=True):
            assert np.array_equal(before, after), (
                f"{self.where}: update must not change the list, clicks or memo"
            )

    def step(self) -> IntArray:
        ranking, memo = self.rank()
        self.update(ranking, memo)
        return ranking

    def void(self, ranking: IntArray, memo: FloatArray) -> None:
        if self._void is not None:
            self._void(self.state, ranking, memo)

    def best(self) -> None:
        before = deepcopy(self.state)
        ranking = np.full(self.problem.positions, -1)
        self.problem.policy.function("best")(self.state, ranking)
        self._check_list(ranking, "best")
        assert _same(before, self.state), f"{self.where}: best must not change the state"

    def _check_list(self, ranking: IntArray, function: str) -> None:
        shown = ranking.tolist()
        n_items = self.problem.model.n_items
        assert len(set(shown)) == len(shown), f"{self.where}: {function} gave an item twice: {shown}"
        inside = all(0 <= item < n_items for item in shown)
        assert inside, f"{self.where}: {function} must give items from 0 to {n_items - 1}, found {shown}"


def _same(state: Any, other: Any) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(state, other, strict=True))


def _check_lists(problem: Problem, where: str) -> None:
    """The same run twice, the second time beside another one that nothing may pass to it from."""
    first, again, other = _Session(problem, where), _Session(problem, where), _Session(problem, where)
    other.users = np.random.default_rng(4)
    lists = [first.step() for _ in range(_STEPS)]
    first.best()
    for step, expected in enumerate(lists, 1):
        other.step()
        found = again.step()
        assert np.array_equal(found, expected), (
            f"{where}: the same seed must give the same lists, but step {step} gave {expected} and then {found} "
            "(does the policy draw from another generator, or keep something outside its state?)"
        )


def _check_feedback(problem: Problem, where: str) -> None:
    """Feedback that is late, out of order, lost or void, from a generator of its own."""
    session = _Session(problem, where)
    chance = np.random.default_rng(3)
    waiting: list[tuple[IntArray, FloatArray]] = []
    for _ in range(_STEPS):
        waiting.append(session.rank())
        while waiting and chance.random() < 0.5:
            impression = waiting.pop(int(chance.random() * len(waiting)))
            fate = chance.random()
            if fate < 0.8:
                session.update(*impression)
            elif fate < 0.9:
                session.void(*impression)
    session.best()


def _check_saving(problem: Problem, where: str) -> None:
    whole = Run(problem, seed=1)
    whole.advance(_STEPS // 2)
    snapshot = whole.snapshot()
    expected = whole.advance(_STEPS // 2)
    found = Run(problem, seed=1).restore(snapshot).advance(_STEPS // 2)
    assert found == expected, (
        f"{where}: a saved run must continue as it would have: {expected}, found {found}"
    )


def _check_compiled(problem: Problem, where: str) -> None:
    """The same run as plain Python."""
    compiled, plain = Run(problem, seed=1), Run(problem, seed=1)
    plain.loop = problem.make_loop(compiled=False)
    fast, slow = compiled.advance(_STEPS), plain.advance(_STEPS)
    assert np.isclose(fast[0], slow[0], rtol=1e-9, atol=1e-9), (
        f"{where}: compiled and interpreted runs must show the same lists, found regret {fast[0]} and {slow[0]}"
    )
    assert fast[1] == slow[1], f"{where}: found {fast[1]} clicks compiled and {slow[1]} interpreted"
    for name, value in compiled.state._asdict().items():
        assert np.allclose(value, getattr(plain.state, name), rtol=1e-9, equal_nan=True), (
            f"{where}: compiled and interpreted runs must leave the same state, but {name} differs"
        )
