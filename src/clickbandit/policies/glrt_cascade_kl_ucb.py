"""GLRT-CascadeKL-UCB: CascadeKL-UCB that starts afresh when a test finds that users have changed.

It believes in the cascade model with attractions that now and then change. For each item it asks after every 16
observations whether two attractions, one before and one after some moment, explain its clicks better than one: by the
generalized likelihood ratio, above log(3 n sqrt(n) / d) for n observations. If so, it forgets everything. So that no
change goes unseen, each item is put in front once in every L / p lists. With p and d chosen by the horizon its regret
is of the order sqrt(N L T log T) for N - 1 changes, which is near the best possible.

Wang, Zhou, Li, Varshney, Zhao: Nearly Optimal Algorithms for Piecewise-Stationary Cascading Bandits (arXiv 1909.05886,
2019); the test: Besson, Kaufmann: The Generalized Likelihood Ratio Test Meets klUCB (2019).

Choices of ours. The threshold is the one that the test's authors use in their experiments; the proof has a higher one.
The paper tests at every observation and for every moment, which takes time and memory that grow with n: here moments
are those between blocks of 16 observations, of which two neighbours become one when more than four have the same size,
so that moments s observations ago are no more than about s / 3 apart. p, the share of lists that put an item in front,
is sqrt(L log T / T) and at most a half, and d is 1 / T: the paper's for one change, as we remember it. Feedback on
lists that were made before the last restart is ignored.

Draws of `rank`: see `cascading`.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit.bounds import kl
from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.errors import InputError
from clickbandit.policies import cascade_kl_ucb, cascading
from clickbandit.policies.bounds_on_demand import look_closely
from clickbandit.policies.cascade_kl_ucb import describe, highest_propensity, show_highest
from clickbandit.policies.cascading import CascadingPolicy, best, examined, first_propensity, put_in_front
from clickbandit.policies.contract import Algorithm, Live
from clickbandit.policies.items import NUMBERS, by_item
from clickbandit.policies.possible import MAX_ENTRY, within

# --- settings and state -------------------------------------------------------------------------------------

BLOCK = 16
"""Observations of an item from one test to the next."""
SAME_SIZE = 4
"""Blocks of one size, at most."""
SIZES = 32
"""How many sizes there are, each twice the one before: enough for 2^36 observations of an item."""
MAX_EXPLORATION = 0.5


class State(NamedTuple):
    """What was observed of each item since the last restart, and what that says of its bound (`bounds_on_demand`)."""

    observed: IntArray
    clicks: IntArray
    low: FloatArray
    high: FloatArray
    slope: FloatArray
    at_budget: FloatArray
    order: IntArray
    """All items, those shown last in front."""
    step: IntArray
    """How many lists were made since the last restart."""
    tied: IntArray
    """The last of these at which items had the same bound."""
    recent: IntArray
    """By item: the clicks of the block that is not complete."""
    blocks: IntArray
    """By size, number and item: the clicks of a block, the oldest of its size first."""
    filled: IntArray
    """By size and item: how many blocks there are."""
    restarts: IntArray
    feedback: int
    iterated: float
    """How many times log log t is part of the budget."""
    exploration: float
    false_alarm: float


def init(
    n_items: int,
    n_positions: int,
    *,
    horizon: int,
    feedback: str = "first",
    exploration: float = 0.0,
    false_alarm: float = 0.0,
) -> State:
    share = exploration or math.sqrt(n_items * math.log(max(horizon, 2)) / horizon)
    cascade = cascade_kl_ucb.init(n_items, n_positions, horizon=horizon, feedback=feedback)
    return State(
        **cascade._asdict(),
        recent=np.zeros(n_items, np.int64),
        blocks=np.zeros((SIZES, SAME_SIZE, n_items), np.int64),
        filled=np.zeros((SIZES, n_items), np.int64),
        restarts=np.zeros(1, np.int64),
        exploration=min(share, MAX_EXPLORATION),
        false_alarm=false_alarm or 1 / horizon,
    )


def memo_size(n_items: int, n_positions: int) -> int:
    """How often it had started afresh when the list was made."""
    return 1


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    memo[0] = state.restarts[0]
    state.step[0] += 1
    turn = turn_of(state)
    if turn < len(state.order):
        put_in_front(state.order, turn, rng, ranking)
    else:
        show_highest(state, rng, ranking)


@kernel
def turn_of(state: State) -> int:
    """The item whose turn it is to be put in front; none if that is not one."""
    n_items = len(state.order)
    return int((state.step[0] - 1) % int(n_items / state.exploration))


@kernel
def propensity(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    if turn_of(state) < len(state.order):
        first_propensity(len(state.order), out)
    else:
        highest_propensity(state, ranking, out)


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    if memo[0] != state.restarts[0]:
        return
    changed = False
    for k in range(examined(clicks, state.feedback)):
        item = ranking[k]
        look_closely(state, item, clicks[k])
        state.recent[item] += clicks[k]
        if state.observed[item] % BLOCK == 0:
            close_block(state, item)
            changed = is_changed(state, item) or changed
    if changed:
        restart(state)


@slow_path
def close_block(state: State, item: int) -> None:
    """Add a block to those of the least size; where there are too many of a size, the two oldest become one."""
    newest = state.recent[item]
    state.recent[item] = 0
    for size in range(SIZES):
        n = state.filled[size, item]
        if n < SAME_SIZE:
            state.blocks[size, n, item] = newest
            state.filled[size, item] = n + 1
            return
        oldest = state.blocks[size, 0, item] + state.blocks[size, 1, item]
        for i in range(2, SAME_SIZE):
            state.blocks[size, i - 2, item] = state.blocks[size, i, item]
        state.blocks[size, SAME_SIZE - 2, item] = newest
        state.filled[size, item] = SAME_SIZE - 1
        newest = oldest


@slow_path
def is_changed(state: State, item: int) -> bool:
    """Whether the item's clicks before and after some moment are too different for one attraction."""
    n, clicks = state.observed[item], state.clicks[item]
    threshold = math.log(3 * n * math.sqrt(n) / state.false_alarm)
    after, clicks_after, length = 0, 0, BLOCK
    for size in range(SIZES):
        for i in range(state.filled[size, item] - 1, -1, -1):
            after += length
            clicks_after += state.blocks[size, i, item]
            before = n - after
            if before <= 0:
                return False
            ratio = after * kl(clicks_after / after, clicks / n)
            ratio += before * kl((clicks - clicks_after) / before, clicks / n)
            if ratio >= threshold:
                return True
        length *= 2
    return False


@slow_path
def restart(state: State) -> None:
    """Forget everything."""
    state.restarts[0] += 1
    state.step[0] = 0
    state.tied[0] = 0
    for item in range(len(state.order)):
        state.observed[item] = 0
        state.clicks[item] = 0
        state.low[item] = 0.0
        state.high[item] = 1.0
        state.slope[item] = 0.0
        state.at_budget[item] = -1.0
        state.recent[item] = 0
        for size in range(SIZES):
            state.filled[size, item] = 0


# --- items that come and go ---------------------------------------------------------------------------------

admit, retire = by_item(
    observed=0,
    clicks=0,
    low=0.0,
    high=1.0,
    slope=0.0,
    at_budget=-1.0,
    order=NUMBERS,
    recent=0,
    blocks=0,
    filled=0,
)


# --- what was stored ----------------------------------------------------------------------------------------


def possible(state: State, fresh: State) -> bool:
    return (
        cascading.possible(state, fresh)
        and within(state.filled, 0, SAME_SIZE + 1)
        and len(state.order) / MAX_ENTRY < state.exploration <= MAX_EXPLORATION
    )


@dataclass(frozen=True)
class GLRTCascadeKLUCB(CascadingPolicy):
    """Cascading bandits with KL bounds that start afresh when users change.

    >>> str(GLRTCascadeKLUCB(exploration=0.01))
    'glrt-cascade-kl-ucb:exploration=0.01'
    """

    paper = "Wang et al. 2019"
    title = "GLRT-CascadeKL-UCB"
    colour = "blue dashed"
    algorithm = Algorithm(init, memo_size, rank, update, best)
    live = Live(propensity=propensity, describe=describe, admit=admit, retire=retire, possible=possible)

    exploration: float = 0.0
    """p, the share of lists that put an item in front to see whether it has changed, at most a half; 0 stands for
    sqrt(L log T / T)."""
    false_alarm: float = 0.0
    """d, about how probably a test finds a change of an item where there is none; 0 stands for 1 / T."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.exploration <= MAX_EXPLORATION:
            raise InputError(
                f"{self.name}: exploration must be above 0 and at most a half, or 0 to derive it from the horizon, "
                f"found {self.exploration}"
            )
        if not 0 <= self.false_alarm < 1:
            raise InputError(
                f"{self.name}: false_alarm must be above 0 and below 1, or 0 to derive it from the horizon, found "
                f"{self.false_alarm}"
            )
