"""A state with a flipped bit is refused, or the kernels stay within their arrays whatever comes next.

Kernels are run as plain Python over arrays that refuse what machine code would not: any index that is negative or
beyond the end. Like machine code they go on where Python would raise: with NaN, infinity, or a wrapped number.
"""

import math
from types import FunctionType, SimpleNamespace

import numpy as np
import pytest

from clickbandit.compiling.kernel import is_compiled
from clickbandit.policies.base import parse_policy, policy_names
from clickbandit.policies.possible import impossible
from clickbandit.policies.propensities import copy_of

SETTINGS = {
    **{name: [name] for name in policy_names()},
    **{name: [f"{name}:examination=1/0.8/0.5/0.4"] for name in ("pbm-pie", "pbm-ts", "pbm-ucb")},
    "batchrank": ["batchrank", "batchrank:variant=experiment"],
    "bubblerank": ["bubblerank:power=0.3"],
    "click-ts": ["click-ts", "click-ts:goal=clicks", "click-ts:guard=false"],
    "cascade-swucb": ["cascade-swucb:window=7"],
    "dcm-kl-ucb": ["dcm-kl-ucb", "dcm-kl-ucb:termination=0.1/0.9/0.5"],
    "ranked-exp3": ["ranked-exp3", "ranked-exp3:mixing=true"],
}
TOLD = ("given", "optimal")
"""What no live ranker can tell them."""
POLICIES = [spelling for name, all_ in SETTINGS.items() if name not in TOLD for spelling in all_]
HORIZON = 20
LOWEST = -(2**63)
MAX_ACCESSES = 100_000


class Outside(Exception):
    """An index that is outside its array."""


class Guarded(np.ndarray):
    """An array that no kernel may leave."""

    accesses = 0

    def _check(self, index):
        Guarded.accesses += 1
        assert Guarded.accesses < MAX_ACCESSES, "a kernel does not end"
        for i, n in zip(index if isinstance(index, tuple) else (index,), self.shape, strict=False):
            if not isinstance(i, slice | np.ndarray) and not 0 <= i < n:
                raise Outside(f"{i} of {n}")

    def __getitem__(self, index):
        self._check(index)
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        self._check(index)
        super().__setitem__(index, value)

    def __iter__(self):
        return iter(np.asarray(self))


def whole(value):
    """As machine code has it: what is too large or no number is the lowest."""
    return int(value) if math.isfinite(value) and abs(value) < 2**63 else LOWEST


def lenient(function):
    def call(*values):
        try:
            return function(*values)
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.nan

    return call


MATH = SimpleNamespace(
    **{
        name: lenient(value) if callable(value) else value
        for name, value in vars(math).items()
        if not name.startswith("_")
    }
)
MATH.ceil = lambda value: whole(np.ceil(value))
MADE = {}


def as_machine_code(function):
    """The text of a kernel, with the arithmetic of machine code."""
    if not is_compiled(function):
        return function
    if function not in MADE:
        plain = function.py_func
        scope = dict(plain.__globals__)
        MADE[function] = FunctionType(
            plain.__code__, scope, plain.__name__, plain.__defaults__, plain.__closure__
        )
        for name in set(plain.__code__.co_names) & scope.keys():
            scope[name] = as_machine_code(scope[name])
        scope |= {"math": MATH, "int": whole}
    return MADE[function]


class Live:
    """A policy that serves a query: lists, clicks that come late, lists that were never seen."""

    def __init__(self, spelling, n_items, n_positions):
        self.policy = parse_policy(spelling)
        algorithm = self.policy.algorithm
        self.n_positions = n_positions
        self.state = self.policy.start(n_items, n_positions, horizon=HORIZON)
        self.fresh = copy_of(self.state)
        self.memo_size = algorithm.memo_size(n_items, n_positions)
        self.functions = [as_machine_code(f) for f in (algorithm.rank, algorithm.update, algorithm.void)]
        self.propensity = as_machine_code(self.policy.live.propensity or (lambda *given: None))
        self.waiting = []
        self.rng, self.chance = np.random.default_rng(1), np.random.default_rng(2)

    def run(self, state, steps):
        rank, update, void = self.functions
        for _ in range(steps):
            ranking = np.zeros(self.n_positions, np.int64).view(Guarded)
            memo = np.zeros(self.memo_size).view(Guarded)
            rank(state, self.rng, ranking, memo)
            self.propensity(state, ranking, memo, np.zeros(self.n_positions).view(Guarded))
            self.waiting.append((ranking, memo))
            while self.waiting and self.chance.random() < 0.55:
                shown, remembered = self.waiting.pop(int(self.chance.random() * len(self.waiting)))
                if self.chance.random() < 0.85:
                    worth = np.linspace(0.9, 0.05, len(self.fresh[0]) + 10)[np.asarray(shown)]
                    clicks = (self.chance.random(self.n_positions) < worth).astype(np.int64)
                    update(state, shown, clicks.view(Guarded), remembered)
                else:
                    void(state, shown, remembered)

    def flipped(self, field, element, bit):
        """A copy of the state with another bit in one element of an array."""
        state = copy_of(self.state)
        array = getattr(state, field)
        bits = array.reshape(-1).view(np.uint64)
        bits[element] ^= np.uint64(1) << np.uint64(bit)
        return state

    def survives(self, state, steps):
        """Whether the state is refused; else it must be possible to go on with it."""
        if impossible(self.policy, state, self.fresh, self.n_positions) is not None:
            return False
        waiting, rng, chance = self.waiting[:], self.rng.bit_generator.state, self.chance.bit_generator.state
        Guarded.accesses = 0
        try:
            guarded = type(state)(*(v.view(Guarded) if isinstance(v, np.ndarray) else v for v in state))
            self.run(guarded, steps)
        except (ValueError, ZeroDivisionError, OverflowError, FloatingPointError):
            pass  # of Python's own numbers, where machine code has NaN
        finally:
            self.waiting, self.rng.bit_generator.state, self.chance.bit_generator.state = waiting, rng, chance
        return True


def flips(live, chance, per_array):
    """Elements and bits of every array: those that matter most, and some by chance."""
    for name, value in live.state._asdict().items():
        if isinstance(value, np.ndarray) and value.size:
            for n in range(per_array if value.dtype.kind == "i" else max(1, per_array // 4)):
                bit = (62, 0, 63, 1, 2, 51)[n] if n < 6 else int(chance.random() * 64)
                yield name, int(chance.random() * value.size), bit


def try_flips(spelling, n_items, n_positions, per_array, steps, moments=(8, 120)):
    live = Live(spelling, n_items, n_positions)
    with np.errstate(all="ignore"):
        for moment in moments:
            live.run(live.state, moment)
            assert impossible(live.policy, live.state, live.fresh, n_positions) is None
            for flip in flips(live, np.random.default_rng(3), per_array):
                try:
                    live.survives(live.flipped(*flip), steps)
                except Outside as error:
                    raise AssertionError(f"{spelling}, {flip}: {error}") from error


@pytest.mark.parametrize("spelling", POLICIES)
def test_a_flipped_bit_leads_nowhere(spelling):
    try_flips(spelling, 5, 3, per_array=4, steps=5, moments=(50,))


def test_click_ts_with_few_items_where_there_were_many():
    """Its cells are shared since, and that is not undone: such a state was refused, and what was learned lost."""
    policy = parse_policy("click-ts")
    fresh = policy.start(6, 3, horizon=HORIZON)
    many = policy.live.admit(fresh, 200)
    few = many
    for _ in range(200):
        few = policy.live.retire(few, 0)
    assert (len(few.after), len(few.wins), len(fresh.after), len(fresh.wins)) == (0, 0, 6, 6)
    assert impossible(policy, few, fresh, 3) is None
    assert impossible(policy, few._replace(cell=few.cell + 1), fresh, 3) is not None
    assert impossible(policy, few._replace(shown=few.shown[:, :-1]), fresh, 3) is not None


@pytest.mark.long
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (12, 4)])
@pytest.mark.parametrize("spelling", POLICIES)
def test_many_flipped_bits_lead_nowhere(spelling, size):
    if "examination" in spelling or "termination" in spelling:
        size = (size[0] + 2, 3)
    try_flips(spelling, *size, per_array=20, steps=40)
