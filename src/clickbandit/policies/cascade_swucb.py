"""CascadeSWUCB: CascadeUCB1 that knows the last lists only, for users whose taste may change at any time.

It believes in the cascade model with an attraction that now and then changes. All that counts is the window of the
last w = 2 sqrt(T log T) lists, rounded up: an item's index is its share of clicks there plus
sqrt(0.5 log min(t, w) / n) for n observations there, and an item that was not observed in it comes first. Its regret
is of the order sqrt(T log T) times the number of changes, which is near the best possible; while nothing changes it
loses more than a policy that does not forget.

Li, de Rijke: Cascading Non-Stationary Bandits: Online Learning to Rank in the Non-Stationary Cascade Model (IJCAI
2019); Garivier, Moulines: On Upper-Confidence Bound Policies for Switching Bandit Problems (ALT 2011).

The window is of the lists that were made last, whether or not their feedback came. Feedback that is late enters it
where its list stands, and leaves with it; when that list has left already the feedback is ignored.

Draws of `rank`: see `cascading`.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel
from clickbandit.errors import InputError
from clickbandit.policies import cascading
from clickbandit.policies.cascading import (
    FEEDBACK,
    CascadingPolicy,
    best,
    count,
    describe_around,
    examined,
    look_first,
    propensity,
    put_highest,
)
from clickbandit.policies.common import check_exploration
from clickbandit.policies.contract import Algorithm, Live
from clickbandit.policies.possible import within

# --- settings and state -------------------------------------------------------------------------------------

MAX_REMEMBERED = 2**27
"""The window holds no more positions than this: a gigabyte."""


class State(NamedTuple):
    """What was observed of each item in the window, and the lists in it: that of step t has row t modulo w."""

    observed: IntArray
    clicks: IntArray
    looks: IntArray
    """By list in the window: how many of its positions were examined, 0 as long as nothing is known."""
    seen: IntArray
    """By list in the window and examined position: twice the number of the item, plus 1 if it was clicked."""
    value: FloatArray
    """By item: its index when the last list was made."""
    order: IntArray
    """All items, those shown last in front."""
    step: IntArray
    """How many lists were made, t."""
    feedback: int
    exploration: float


def init(
    n_items: int,
    n_positions: int,
    *,
    horizon: int,
    feedback: str = "first",
    window: int = 0,
    exploration: float = 0.5,
) -> State:
    window = window or math.ceil(2 * math.sqrt(horizon * math.log(horizon)))
    if window * n_positions > MAX_REMEMBERED:
        raise InputError(
            f"cascade-swucb would remember {window:,} lists of {n_positions} positions: set a smaller window"
        )
    return State(
        observed=np.zeros(n_items, np.int64),
        clicks=np.zeros(n_items, np.int64),
        looks=np.zeros(window, np.int64),
        seen=np.zeros((window, n_positions), np.int64),
        value=np.zeros(n_items),
        order=np.arange(n_items),
        step=np.zeros(1, np.int64),
        feedback=FEEDBACK[feedback],
        exploration=exploration,
    )


def memo_size(n_items: int, n_positions: int) -> int:
    """The step at which the list was made."""
    return 1


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    memo[0] = state.step[0] + 1
    if not look_first(state, rng, ranking):
        budget = state.exploration * math.log(min(state.step[0], len(state.looks)))
        for item in range(len(state.value)):
            n = state.observed[item]
            state.value[item] = state.clicks[item] / n + radius(n, budget) if n > 0 else math.inf
        put_highest(state.value, state.order, rng, ranking)
    forget(state, state.step[0] % len(state.looks))


@kernel
def radius(n: float, budget: float) -> float:
    """How far the index is above the share of clicks."""
    return math.sqrt(budget / n)


@kernel
def forget(state: State, row: int) -> None:
    """The list of w steps ago leaves the window, since the one just made takes its row."""
    for k in range(state.looks[row]):
        item = state.seen[row, k] // 2
        state.observed[item] -= 1
        state.clicks[item] -= state.seen[row, k] % 2
    state.looks[row] = 0


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    step = int(memo[0])
    if state.step[0] - step >= len(state.looks):
        return
    row = step % len(state.looks)
    looks = examined(clicks, state.feedback)
    state.looks[row] = looks
    for k in range(looks):
        state.seen[row, k] = 2 * ranking[k] + clicks[k]
    count(state.observed, state.clicks, ranking, clicks, looks)


# --- what is learned ----------------------------------------------------------------------------------------


def describe(state: State) -> dict[str, Any]:
    """Observations and clicks are those in the window."""
    budget = state.exploration * math.log(min(int(state.step[0]) + 1, len(state.looks)))
    return describe_around(state, lambda share, n: interpreted(radius)(n, budget))


# --- what was stored ----------------------------------------------------------------------------------------


def possible(state: State, fresh: State) -> bool:
    """Every list in the window is of items that there are."""
    return (
        cascading.possible(state, fresh)
        and within(state.looks, 0, state.seen.shape[1] + 1)
        and within(state.seen, 0, 2 * len(state.order))
    )


@dataclass(frozen=True)
class CascadeSWUCB(CascadingPolicy):
    """Cascading bandits for users who change: only the last lists count.

    >>> str(CascadeSWUCB(window=10_000))
    'cascade-swucb:window=10000'
    """

    paper = "Li and de Rijke 2019"
    title = "CascadeSWUCB"
    colour = "black dashed"
    algorithm = Algorithm(init, memo_size, rank, update, best)
    live = Live(propensity=propensity, describe=describe, possible=possible)

    window: int = 0
    """How many lists are remembered; 0 stands for 2 sqrt(T log T), rounded up."""
    exploration: float = 0.5
    """How wide the bounds are: the factor of log min(t, w) / n under the root."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window < 0:
            raise InputError(
                f"{self.name}: window must be a number of lists, or 0 to derive it from the horizon, "
                f"found {self.window}"
            )
        check_exploration(self.name, self.exploration)
