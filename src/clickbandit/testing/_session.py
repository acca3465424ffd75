"""A policy that is driven by hand: what the checks of its functions share."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted
from clickbandit.policies.propensities import copy_of
from clickbandit.simulation.run import Problem


@contextmanager
def calling(function: str, where: str) -> Iterator[None]:
    """Say in one sentence which function of a policy failed, and how."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{where}: {function} failed: {type(error).__name__}: {error}") from error


class Session:
    """A policy that is driven by hand, as plain Python."""

    def __init__(self, problem: Problem, where: str) -> None:
        self.problem = problem
        self.where = where
        with calling("init", where):
            self.state = problem.start()
        self.rng, self.users = (np.random.default_rng(seed) for seed in (1, 2))
        policy = problem.policy
        self.memo_size = policy.algorithm.memo_size(problem.model.n_items, problem.positions)
        self._rank = interpreted(policy.algorithm.rank)
        self._update = interpreted(policy.algorithm.update)
        self._void = interpreted(policy.algorithm.void)
        self._click, self._params = interpreted(problem.model.functions.click), problem.model.params

    def copy(self) -> "Session":
        """Another one that goes on from here."""
        other = copy(self)
        other.state = copy_of(self.state)
        other.rng, other.users = deepcopy((self.rng, self.users))
        return other

    def rank(self) -> tuple[IntArray, FloatArray]:
        ranking = np.full(self.problem.positions, -1)
        memo = np.full(self.memo_size, np.nan)
        with calling("rank", self.where):
            self._rank(self.state, self.rng, ranking, memo)
        self._check_list(ranking, "rank")
        assert not np.isnan(memo).any(), (
            f"{self.where}: rank must write every entry of the memo, found {memo}"
        )
        return ranking, memo

    def update(self, ranking: IntArray, memo: FloatArray) -> None:
        clicks = np.zeros(len(ranking), np.int64)
        self._click(self._params, self.users, ranking, clicks)
        given = ranking.copy(), clicks.copy(), memo.copy()
        with calling("update", self.where):
            self._update(self.state, *given)
        for before, after in zip((ranking, clicks, memo), given, strict=True):
            unchanged = before.tobytes() == after.tobytes()
            assert unchanged, f"{self.where}: update must not change the list, clicks or memo"

    def step(self) -> IntArray:
        ranking, memo = self.rank()
        self.update(ranking, memo)
        return ranking

    def void(self, ranking: IntArray, memo: FloatArray) -> None:
        with calling("void", self.where):
            self._void(self.state, ranking, memo)

    def best(self) -> None:
        before = copy_of(self.state)
        ranking = np.full(self.problem.positions, -1)
        with calling("best", self.where):
            self.problem.policy.algorithm.best(self.state, ranking)
        self._check_list(ranking, "best")
        assert same(before, self.state), f"{self.where}: best must not change the state"

    def _check_list(self, ranking: IntArray, function: str) -> None:
        shown = ranking.tolist()
        n_items = self.problem.model.n_items
        assert len(set(shown)) == len(shown), f"{self.where}: {function} gave an item twice: {shown}"
        inside = all(0 <= item < n_items for item in shown)
        assert inside, f"{self.where}: {function} must give items from 0 to {n_items - 1}, found {shown}"


def same(state: Any, other: Any) -> bool:
    """Whether two states are the same."""
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(state, other, strict=True))
