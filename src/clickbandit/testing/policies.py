"""What a policy must keep, as a check that anyone can run on a policy of their own."""

import numpy as np

from clickbandit.click_models.base import ClickModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.policies.base import Policy
from clickbandit.simulation.run import Problem, Run
from clickbandit.testing._leaps import check_leaps
from clickbandit.testing._optional import (
    check_describe,
    check_items,
    check_possible,
    check_prime,
    check_propensity,
    moments_of,
)
from clickbandit.testing._session import Session, calling
from clickbandit.testing.click_models import LEVEL, chi_square

_STEPS = 300
_AGAIN = 100
_RUNS = 200


def check_policy(policy: Policy, model: ClickModel | None = None, positions: int | None = None) -> None:
    """Raise an AssertionError that says how a policy breaks the contract, if it does.

    Its state is a NamedTuple of arrays and plain numbers; every list is of different items, and every entry of the
    memo is written; the same seed gives the same lists, compiled and interpreted; a saved run continues bit for
    bit; and it goes on with feedback that is late, out of order, lost or void, learning from its arguments alone.
    Of the optional functions, `propensity` gives the frequencies of many lists (chi-square at level 1e-6, fixed seed),
    `describe` can be written as JSON and is true of the lists to come, `admit` and `retire` let items come and go, and
    `possible` is true of all these states, so that a live ranker loads them.
    Runs by leaps have the regret and the clicks of runs step by step, within chance (t-test at the same level).
    After `prime` the best list has the prior's first items, in the numbers of the run.
    In simulations, which number the items by chance, the first list has every item as often as any other at each
    position, unless the policy is told about items; then it is told in the numbers of the run.
    Unless a click model is given it is tried on small and larger problems, also with as many positions as items.

    >>> from clickbandit import BatchRank
    >>> check_policy(BatchRank())
    """
    if model is not None:
        problems = [(model, positions or min(model.max_positions, 3))]
    else:
        problems = [(_model(n_items), k) for n_items, k in ((1, 1), (2, 2), (5, 1), (5, 3), (8, 8))]
    for users, n_positions in problems:
        problem = Problem(policy, users, positions=n_positions, horizon=_STEPS)
        where = f"{policy}, {users.n_items} items, {n_positions} positions"
        _check_state(problem, where)
        _check_lists(problem, where)
        _check_saving(problem, where)
        moments = moments_of(problem, _STEPS, where)
        check_describe(moments, where)
        check_possible(moments, where)
        check_items(problem, where)
        check_prime(problem, where)
        if n_positions == min(3, users.n_items) or model is not None:  # what takes long, on the small ones
            check_propensity(moments, where)
            _check_compiled(problem, where)
        if (users.n_items, n_positions) == (5, 3) or model is not None:
            _check_numbers(problem, where)
            check_leaps(problem, where)


def _model(n_items: int) -> ClickModel:
    return PositionBasedModel(
        attraction=np.linspace(0.8, 0.1, n_items).tolist(), examination=np.linspace(1, 0.3, n_items).tolist()
    )


def _check_state(problem: Problem, where: str) -> None:
    with calling("init", where):
        state = problem.start()
    assert isinstance(state, tuple), f"{where}: init must give a NamedTuple, found {type(state)}"
    assert hasattr(state, "_asdict"), f"{where}: init must give a NamedTuple, found a plain tuple"
    for name, value in state._asdict().items():
        fits = isinstance(value, (np.ndarray, bool, int, float))
        assert fits, f"{where}: the state's {name} must be an array or a number, found {type(value)}"
    size = problem.policy.algorithm.memo_size(problem.model.n_items, problem.positions)
    counts = isinstance(size, int) and size >= 0
    assert counts, f"{where}: memo_size must be a whole number, 0 or more, found {size!r}"


def _check_lists(problem: Problem, where: str) -> None:
    """The same run twice, the second time interleaved with another one, which must not affect it."""
    first, again, other = Session(problem, where), Session(problem, where), Session(problem, where)
    other.users = np.random.default_rng(4)
    lists = [first.step() for _ in range(_STEPS)]
    first.best()
    for step, expected in enumerate(lists[:_AGAIN], 1):
        other.step()
        found = again.step()
        assert np.array_equal(found, expected), (
            f"{where}: the same seed must give the same lists, but step {step} gave {expected} and then {found} "
            "(does the policy draw from another generator, or keep something outside its state?)"
        )


def _check_saving(problem: Problem, where: str) -> None:
    whole = Run(problem, seed=1)
    whole.advance(_STEPS // 2)
    snapshot = whole.snapshot()
    expected = whole.advance(_STEPS // 2)
    found = Run(problem, seed=1).restore(snapshot).advance(_STEPS // 2)
    assert found == expected, (
        f"{where}: a saved run must continue as it would have: {expected}, found {found}"
    )


def _check_numbers(problem: Problem, where: str) -> None:
    """Of many runs: the first lists, in the numbers of the query."""
    if problem.model.n_items == 1:
        return
    runs = [Run(problem, run=number) for number in range(_RUNS)]
    backwards = list(range(problem.model.n_items))[::-1]
    if {"best_list", "order"} & set(problem.policy.needs) or problem.policy.renumbered(
        backwards
    ) != problem.policy:
        first = {run.best()[0] for run in runs}
        if len(first) > 1:  # the best list may be another matter
            for run in runs:
                run.advance(1)
            first = {run.numbering[run.slots.rankings[0][0]] for run in runs}
        assert len(first) == 1, (
            f"{where}: a policy that is told about items must begin with the same one in all runs, found "
            f"{sorted(first)} (does `renumbered` give its settings the numbers of the run?)"
        )
        return
    shown = np.zeros((_RUNS, problem.positions), np.int64)
    for run in runs:
        run.advance(1)
        shown[run.run] = np.take(run.numbering, run.slots.rankings[0])
    for k in range(problem.positions):
        seen = np.bincount(shown[:, k], minlength=problem.model.n_items)
        distance, allowed = chi_square(seen, np.full(problem.model.n_items, _RUNS / problem.model.n_items))
        assert distance <= allowed, (
            f"{where}: of {_RUNS} first lists {seen.tolist()} had the items at position {k + 1}, but none may be "
            f"favoured: chi-square is {distance:.1f}, above {allowed:.1f} (level {LEVEL})"
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
