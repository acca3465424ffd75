"""What the optional functions of a policy must keep: `propensity`, `describe`, `admit`, `retire` and `possible`."""

import json
from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted
from clickbandit.policies.possible import impossible
from clickbandit.policies.propensities import copy_of
from clickbandit.priors import Prior
from clickbandit.simulation.run import Problem, Run
from clickbandit.testing._session import Session, same
from clickbandit.testing.click_models import LEVEL, chi_square

_MOMENTS = (0, 3, 200)
"""Lists that were made before a policy is looked at."""
_SAMPLES, _CERTAIN_SAMPLES, _MIN_SAMPLES = 1000, 100, 10
"""Fewer lists of a policy that claims to know them, and fewest of a single item."""
_TOLERANCE = 1e-9
_ITEM_KEYS: dict[str, Any] = {
    "item": int,
    "observed": (int, float),
    "clicks": (int, float),
    "estimate": float,
    "low": float,
    "high": float,
    "eliminated": bool,
    "carry": float,
    "in_list": float,
    "in_place": float,
}
_GROUP_KEYS: dict[str, Any] = {"first": int, "last": int, "items": list, "stage": int, "at_least": int}
_USERS_KEYS: dict[str, Any] = {"examination": list, "law": str, "certainty": float, "after_click": dict}
_MAX_STEPS_AHEAD = 200


def moments_of(problem: Problem, steps: int, where: str) -> list[Session]:
    """The policy at a few moments of `steps` steps, with feedback that is late, out of order, lost or void."""
    found = []
    session = Session(problem, where)
    chance = np.random.default_rng(5)
    waiting: list[tuple[IntArray, FloatArray]] = []
    for step in range(steps):
        if step in _MOMENTS:
            found.append(session.copy())
        waiting.append(session.rank())
        while waiting and chance.random() < 0.5:
            impression = waiting.pop(int(chance.random() * len(waiting)))
            fate = chance.random()
            if fate < 0.8:
                session.update(*impression)
            elif fate < 0.9:
                session.void(*impression)
    session.best()
    return found


def check_propensity(moments: list[Session], where: str) -> None:
    """Lists made again and again from the same state have items at positions as often as it says."""
    problem = moments[0].problem
    if problem.policy.live.propensity is None:
        return
    propensity = interpreted(problem.policy.live.propensity)
    n_items, n_positions = problem.model.n_items, problem.positions
    positions = np.arange(n_positions)
    samples = _SAMPLES if n_items > 1 else _MIN_SAMPLES
    for moment in moments:
        session, before = moment.copy(), moment.state
        shown, said = np.zeros((samples, n_positions), np.int64), np.zeros((samples, n_positions))
        for sample in range(samples):
            if sample == _CERTAIN_SAMPLES and (said[:sample] == 1).all():
                shown, said = shown[:sample], said[:sample]
                break
            session.state = copy_of(before)
            ranking, memo = session.rank()
            out = np.full(n_positions, np.nan)
            state = copy_of(session.state) if sample < _MIN_SAMPLES else None
            given = ranking.tobytes(), memo.tobytes()
            propensity(session.state, ranking, memo, out)
            unchanged = given == (ranking.tobytes(), memo.tobytes())
            unchanged = unchanged and (state is None or same(state, session.state))
            assert unchanged, f"{where}: propensity must change nothing but `out`"
            shown[sample], said[sample] = ranking, out
        wrong = ~((said > 0) & (said <= 1 + _TOLERANCE)).all(axis=1)
        assert not wrong.any(), (
            f"{where}: propensity must be a probability above 0 of what has happened, found {said[wrong][0]} for "
            f"{shown[wrong][0]}"
        )
        stated = np.full((n_positions, n_items), np.nan)
        stated[positions, shown] = said
        known = stated[positions, shown]
        wrong = (abs(known - said) >= _TOLERANCE).any(axis=1)
        assert not wrong.any(), (
            f"{where}: the propensity of an item at a position depends on what was known before `rank` alone, "
            f"found {known[wrong][0]} and {said[wrong][0]} for {shown[wrong][0]}"
        )
        seen = np.array([np.bincount(column, minlength=n_items) for column in shown.T])
        for k in range(n_positions):
            expected = np.nan_to_num(stated[k])
            rest = 1 - expected.sum()
            assert rest > -_TOLERANCE * n_items, (
                f"{where}: the propensities of all items at position {k + 1} sum to {expected.sum()}, more than 1"
            )
            cells = np.append(expected, max(rest, 0.0)) * len(shown)
            possible = cells > _TOLERANCE
            distance, allowed = chi_square(np.append(seen[k], 0)[possible], cells[possible])
            assert distance <= allowed, (
                f"{where}: of {len(shown)} lists {seen[k].tolist()} had the items at position {k + 1}, but propensity "
                f"says {expected.tolist()}: chi-square is {distance:.1f}, above {allowed:.1f} (level {LEVEL})"
            )


def check_prime(problem: Problem, where: str) -> None:
    """A sure prior is what the best list comes from, in the numbers of the run; lists are made and learned from."""
    if problem.policy.algorithm.prime is None:
        return
    n_items = problem.model.n_items
    numbering = np.random.default_rng(1).permutation(n_items).tolist()
    attraction = np.linspace(0.8, 0.1, n_items)[np.argsort(numbering)]
    prior = Prior(attraction=attraction.tolist(), strength=[100.0] * n_items)
    primed = problem.with_prior(prior)
    fresh, state = problem.start(numbering), primed.start(numbering)
    for name, before, now in zip(fresh._fields, fresh, state, strict=True):
        assert type(before) is type(now), (
            f"{where}: prime must keep the types of the state, but {name} is {type(now)}"
        )
        if isinstance(now, np.ndarray):
            kept = now.dtype == before.dtype and now.ndim == before.ndim
            assert kept, f"{where}: prime must keep the types of the state, but {name} is another array"
    found, expected = sorted(Run(primed).best()), sorted(prior.order[: problem.positions])
    assert found == expected, (
        f"{where}: after prime the best list must be of the prior's first items, {expected}, found {found}"
    )
    session = Session(primed, where)
    for _ in range(50):
        session.step()


def check_describe(moments: list[Session], where: str) -> None:
    """It has the agreed keys, changes nothing, and lists keep to the groups until the next decision."""
    problem = moments[0].problem
    describe = problem.policy.live.describe
    if describe is None:
        return
    n_items = problem.model.n_items
    first = describe(problem.start()).keys() & {"groups", "settled"}
    for moment in moments:
        session, before = moment.copy(), moment.state
        told = describe(session.state)
        assert told.keys() & {"groups", "settled"} == first, (
            f"{where}: describe must have groups and settled from the first state on, or never"
        )
        assert same(before, session.state), f"{where}: describe must not change the state"
        json.dumps(told, allow_nan=False)
        unknown = set(told) - {"items", "groups", "next_decision", "settled", "users", "budget"}
        assert not unknown, f"{where}: describe has unknown keys {unknown}"
        assert [entry["item"] for entry in told["items"]] == list(range(n_items)), (
            f"{where}: describe must have an entry for each item, in the order of their numbers"
        )
        users = [told["users"]] if "users" in told else []
        for entries, keys in (
            (told["items"], _ITEM_KEYS),
            (told.get("groups", []), _GROUP_KEYS),
            (users, _USERS_KEYS),
        ):
            for entry in entries:
                for name, value in entry.items():
                    assert isinstance(value, keys.get(name, ())), (
                        f"{where}: describe says {name}: {value!r}, expected {keys.get(name, 'no such key')}"
                    )
        if "groups" in told:
            _check_groups(session, told, describe, where)


def _check_groups(session: Session, told: dict[str, Any], describe: Any, where: str) -> None:
    n_positions = session.problem.positions
    groups = told["groups"]
    members = [item for group in groups for item in group["items"]]
    assert len(set(members)) == len(members), f"{where}: an item is in two groups: {groups}"
    shown = [group for group in groups if "first" in group]
    covered = [k for group in shown for k in range(group["first"], group["last"] + 1)]
    assert covered == list(range(1, n_positions + 1)), (
        f"{where}: groups must cover the positions, found {groups}"
    )
    quiet = _MAX_STEPS_AHEAD if told.get("settled") else told.get("next_decision", 0) - 1
    for _ in range(min(max(quiet, 1), _MAX_STEPS_AHEAD)):
        ranking, memo = session.rank()
        for group in shown:
            there = ranking[group["first"] - 1 : group["last"]].tolist()
            assert set(there) <= set(group["items"]), f"{where}: found {there} where only {group} may stand"
        if quiet < 1:
            return
        session.update(ranking, memo)
        now = describe(session.state)["groups"]
        assert [group["items"] for group in now] == [group["items"] for group in groups], (
            f"{where}: the groups must stay as they are for {quiet} impressions, found {groups} and then {now}"
        )


def check_possible(moments: list[Session], where: str) -> None:
    """A live ranker would load every state that the policy reaches."""
    for moment in moments:
        _check_possible(moment.problem, moment.state, moment.problem.model.n_items, where)


def _check_possible(problem: Problem, state: Any, n_items: int, where: str) -> None:
    if problem.policy.needs:  # which a live ranker cannot tell it
        return
    fresh = problem.policy.start(n_items, problem.positions, horizon=problem.horizon)
    wrong = impossible(problem.policy, state, fresh, problem.positions)
    assert wrong is None, (
        f"{where}: possible must be true of every state that the policy reaches, found {wrong}"
    )


class _PendingFeedback:
    """An impression whose feedback is still to come, while items come and go."""

    def __init__(self, ranking: IntArray, memo: FloatArray, n_items: int) -> None:
        self.ranking = ranking
        self.memo = memo
        self.numbers = np.arange(n_items)

    def retire(self, item: int) -> None:
        numbers = self.numbers
        self.numbers = np.where(numbers == item, -1, np.where(numbers > item, numbers - 1, numbers))


def check_items(problem: Problem, where: str) -> None:
    """Items come and go while feedback is late, and what is shown is always of the items at hand."""
    algorithm, live = problem.policy.algorithm, problem.policy.live
    if live.admit is None or live.retire is None or problem.model.n_items == 1:
        return
    state = problem.start()
    kinds = _kinds(state)
    n_items, n_positions = problem.model.n_items, problem.positions
    rank, update, void = map(interpreted, (algorithm.rank, algorithm.update, algorithm.void))
    rng, chance = np.random.default_rng(1), np.random.default_rng(2)
    waiting: list[_PendingFeedback] = []
    for _ in range(400):
        if chance.random() < 0.1:
            n_new = 1 + int(chance.random() * 2)
            state = live.admit(state, n_new)
            n_items += n_new
        while n_items > n_positions and chance.random() < 0.1:
            item = int(chance.random() * n_items)
            state = live.retire(state, item)
            n_items -= 1
            for impression in waiting:
                impression.retire(item)
        assert _kinds(state) == kinds, (
            f"{where}: admit and retire must keep the types of the state, found {_kinds(state)}, expected {kinds}"
        )
        _check_possible(problem, state, n_items, where)
        ranking = np.full(n_positions, -1)
        memo = np.full(algorithm.memo_size(n_items, n_positions), np.nan)
        rank(state, rng, ranking, memo)
        best = np.full(n_positions, -1)
        algorithm.best(state, best)
        for name, found in (("rank", ranking.tolist()), ("best", best.tolist())):
            in_order = len(set(found)) == n_positions and set(found) <= set(range(n_items))
            assert in_order, f"{where}: with {n_items} items after some came and went, {name} gave {found}"
        waiting.append(_PendingFeedback(ranking, memo, n_items))
        while waiting and chance.random() < 0.55:
            impression = waiting.pop(int(chance.random() * len(waiting)))
            ranking, memo = impression.numbers[impression.ranking], impression.memo
            if live.renumber is not None:
                memo = live.renumber(memo, impression.numbers, n_items)
            if (ranking >= 0).all():
                clicks = (chance.random(n_positions) < 0.4).astype(np.int64)
                update(state, ranking, clicks, memo)
            else:
                try:
                    void(state, np.where(ranking >= 0, ranking, n_items), memo)
                except IndexError:
                    raise AssertionError(f"{where}: void must not look at an item that is gone") from None


def _kinds(state: Any) -> dict[str, Any]:
    """The types of a state's fields, as the compiler sees them."""
    return {
        name: (value.dtype, value.ndim, value.flags.c_contiguous)
        if isinstance(value, np.ndarray)
        else type(value)
        for name, value in state._asdict().items()
    }
