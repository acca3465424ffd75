"""What a policy gives, as types: its functions, what leaps need of it, and what the live ranker can use.

A policy's settings class names its functions in three records. mypy holds them to the Protocols here, and so does
Python when the class is made, which says in one sentence what does not fit.

State is data, functions work on it, and randomness is an argument. The state is a NamedTuple of arrays, which are
learned and changed in place, and of plain numbers, which are fixed. `ranking` has the numbers of the items shown, by
position, `clicks` a 1 for each position that was clicked. `memo` is all that learning must remember of the moment of
ranking: it comes back with the clicks, which may be late, out of order, or never, so that `update` uses its arguments
alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.contracts import Contract
from clickbandit.errors import InputError
from clickbandit.priors import Lesson, Prior

State = Any
"""A NamedTuple of the policy's own."""

# --- every policy -------------------------------------------------------------------------------------------


Init = Callable[..., State]
"""`init(n_items, n_positions, *, horizon, ...)`: the first state; each setting is an argument too."""


class MemoSize(Protocol):
    """How many numbers a memo has."""

    def __call__(self, n_items: int, n_positions: int, /) -> int: ...


def no_memo(n_items: int, n_positions: int) -> int:
    """Learning needs nothing but the list and its clicks."""
    return 0


class Rank(Protocol):
    """Fill in a list of different items, and the memo. A kernel."""

    def __call__(
        self, state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray, /
    ) -> None: ...


class Update(Protocol):
    """Learn from the clicks on a list that was shown. A kernel."""

    def __call__(self, state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray, /) -> None: ...


class Best(Protocol):
    """Fill in the list to show if exploring stopped now. Plain Python; leaves the state as it is."""

    def __call__(self, state: State, ranking: IntArray, /) -> None: ...


class Void(Protocol):
    """The list was never seen, or its clicks are lost: nothing is to be expected of it any more. A kernel."""

    def __call__(self, state: State, ranking: IntArray, memo: FloatArray, /) -> None: ...


@kernel
def ignore(state: State, ranking: IntArray, memo: FloatArray) -> None:
    """A list that was never seen changes nothing."""


class Prime(Protocol):
    """The first state, given what is known before the first click. Plain Python; called right after `init`."""

    def __call__(self, state: State, prior: Prior, /) -> State: ...


@dataclass(frozen=True)
class Algorithm(Contract):
    """The functions of every policy."""

    init: Init
    memo_size: MemoSize
    rank: Rank
    update: Update
    best: Best
    void: Void = ignore
    prime: Prime | None = None
    """Without this, the policy cannot start from a prior."""
    any_list: bool = False
    """Whether `update` also learns from a list that `rank` did not make, with a memo of zeros; without memo it does."""

    @property
    def learns_any_list(self) -> bool:
        return self.any_list or self.memo_size(2, 1) == 0


# --- leaps --------------------------------------------------------------------------------------------------


class Quiet(Protocol):
    """For how many steps no outcome can change the batches; 0 while a round is not complete. A kernel."""

    def __call__(self, state: State, n_positions: int, /) -> int: ...


class Batches(Protocol):
    """Fill in, for each position, the first position of its batch and how many items that has. A kernel."""

    def __call__(self, state: State, batch: IntArray, size: IntArray, /) -> None: ...


class Member(Protocol):
    """The i-th item of the batch that starts at a position. A kernel."""

    def __call__(self, state: State, batch: int, i: int, /) -> int: ...


class Absorb(Protocol):
    """Learn how often each item was observed and clicked over many steps, and each pair together. A kernel."""

    def __call__(
        self, state: State, observed: IntArray, clicked: IntArray, together: IntArray, /
    ) -> None: ...


class TestDue(Protocol):
    """Change the batches that are due. A kernel."""

    def __call__(self, state: State, n_positions: int, /) -> None: ...


@dataclass(frozen=True)
class Leaps(Contract):
    """What a policy gives that shows ordered batches of items, each in random order, and can be leaped over
    (docs/decisions/0006-leaps.md)."""

    quiet: Quiet
    batches: Batches
    member: Member
    absorb: Absorb
    test: TestDue
    in_rounds: bool = False
    """Whether a batch with more items than positions shows each of them once before any of them again."""
    in_pairs: bool = False
    """Whether it matters which items were clicked together."""


class Budget(Protocol):
    """The exploration budget that the indices depend on besides the counts, and grow with, for the list `steps` steps
    from now. A kernel."""

    def __call__(self, state: State, steps: int, /) -> float: ...


class Span(Protocol):
    """Lower and upper limits of an item's index while the budget grows to `later` and the item gets this many looks and
    clicks, in any order. The item is given by its place in the order. A kernel.

    Both are near its index without looks and growth. Of an item that is not shown the lower one does not matter.
    """

    def __call__(
        self, state: State, place: int, looks: float, clicks: float, budget: float, later: float, /
    ) -> tuple[float, float]: ...


class LookedAt(Protocol):
    """How many positions are learned from, given the clicks. A kernel."""

    def __call__(self, state: State, clicks: IntArray, /) -> int: ...


class AbsorbList(Protocol):
    """Learn how often each item was observed and clicked while one list was shown for `steps` steps. A kernel."""

    def __call__(
        self, state: State, ranking: IntArray, observed: IntArray, clicked: IntArray, steps: int, /
    ) -> None: ...


@dataclass(frozen=True)
class Margins(Contract):
    """What a policy gives that shows the items with the highest indices, those that `state.order` has in front, and
    can be leaped over (docs/decisions/0014-leaps-by-margin.md); `state.step` counts its lists."""

    budget: Budget
    span: Span
    looked_at: LookedAt
    absorb: AbsorbList


# --- the live ranker ----------------------------------------------------------------------------------------


class Propensity(Protocol):
    """Called right after `rank`: fill in the exact probability, given what was known just before, that each item
    of the list stands at its position. A kernel. Without it, `propensities.by_draws` estimates them."""

    def __call__(self, state: State, ranking: IntArray, memo: FloatArray, out: FloatArray, /) -> None: ...


@kernel
def certain(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    """The propensities of a policy that leaves nothing to chance."""
    for k in range(len(out)):
        out[k] = 1.0


class Prefix(Protocol):
    """Called right after `rank`: for each position the exact probability, given what was known just before, that the
    list is the same down to there."""

    def __call__(self, state: State, ranking: IntArray, memo: FloatArray, out: FloatArray, /) -> None: ...


class Describe(Protocol):
    """What was learned, for people, as values that JSON can hold: see `clickbandit.testing.check_policy`.

    A policy that ever has groups, settles or eliminates items says so from the first state on.
    """

    def __call__(self, state: State, /) -> dict[str, Any]: ...


class Admit(Protocol):
    """The state with further items, which have the next numbers."""

    def __call__(self, state: State, n_new: int, /) -> State: ...


class Retire(Protocol):
    """The state without an item; those with higher numbers have one less."""

    def __call__(self, state: State, item: int, /) -> State: ...


class Renumber(Protocol):
    """Translates an old memo after items were added or removed: `numbers` maps old item numbers to current ones, or to
    -1 where an item is gone."""

    def __call__(self, memo: FloatArray, numbers: IntArray, n_items: int, /) -> FloatArray: ...


class Teach(Protocol):
    """What was learned of the page, for other queries to start from. Plain Python; leaves the state as it is."""

    def __call__(self, state: State, /) -> Lesson: ...


class Possible(Protocol):
    """Whether a stored state is possible, so far as kernels use it to index arrays; its fields have the
    types of a fresh one's. See `clickbandit.policies.possible`, which has the parts to make it of."""

    def __call__(self, state: State, fresh: State, /) -> bool: ...


class Expect(Protocol):
    """Sets the expected attraction of the newest items and its weight in examinations; called after `admit`."""

    def __call__(self, state: State, expected: Sequence[tuple[float, float]], /) -> State: ...


@dataclass(frozen=True)
class Live(Contract):
    """What the live ranker uses of a policy; all of it is optional."""

    propensity: Propensity | None = None
    describe: Describe | None = None
    admit: Admit | None = None
    """Without this and `retire`, a query starts afresh when its items change."""
    retire: Retire | None = None
    renumber: Renumber | None = None
    """Only for a policy whose memo has numbers of items."""
    prefix: Prefix | None = None
    """Only for a policy with propensities whose lists are not groups of equal propensity in random order."""
    teach: Teach | None = None
    possible: Possible | None = None
    """Without this the shapes of a fresh state are enough: for a policy whose state points into arrays only by orders
    of all items."""
    expect: Expect | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.admit is None) != (self.retire is None):
            raise InputError(
                "Live.admit and Live.retire must be given together, found "
                f"{'retire' if self.admit is None else 'admit'} alone"
            )
