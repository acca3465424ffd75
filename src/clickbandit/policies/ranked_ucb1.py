"""RankedUCB1: one UCB1 bandit for each position, blind to what the others do.

It believes that what an item earns at a position does not change much, once the learners above have settled. Position
by position a learner draws the item with the highest share of clicks plus sqrt(0.51 log t / n), for n draws; an item
that is in the list already is replaced by a random other one, and then its learner is told that it earned nothing.
It is quicker than RankedExp3 and has no guarantee, since what a learner sees depends on the others; the list that it
settles on may be good only against itself.

Radlinski, Kleinberg, Joachims: Learning Diverse Rankings with Multi-Armed Bandits (ICML 2008), with UCB1.

Draws of `rank`, position by position: which item, where several have the learner's highest index (as all have at
first); and where that is in the list already, the item instead.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.policies import ranked
from clickbandit.policies.base import Policy
from clickbandit.policies.common import check_exploration, draw_index
from clickbandit.policies.contract import Algorithm, Live
from clickbandit.policies.items import by_item
from clickbandit.policies.possible import within
from clickbandit.policies.ranked import (
    describe_learners,
    earned,
    favourites,
    memo_size,
    renumber,
    shares,
    show,
)

# --- settings and state -------------------------------------------------------------------------------------


class State(NamedTuple):
    """Arrays with a row for each position's learner."""

    observed: IntArray
    """By learner and item: how often it drew the item, as far as the feedback is in."""
    clicks: IntArray
    """By learner and item: what it earned with that."""
    share: FloatArray
    """By learner and item: the share of the two, infinite before the first."""
    width: FloatArray
    """By learner and item: 1 / sqrt(n) for n observations, 0 before the first."""
    in_list: IntArray
    """By item: the last step at which it was put in the list."""
    step: IntArray
    """How many lists were made, t."""
    exploration: float


def init(n_items: int, n_positions: int, *, horizon: int, exploration: float = 0.51) -> State:
    return State(
        observed=np.zeros((n_positions, n_items), np.int64),
        clicks=np.zeros((n_positions, n_items), np.int64),
        share=np.full((n_positions, n_items), math.inf),
        width=np.zeros((n_positions, n_items)),
        in_list=np.zeros(n_items, np.int64),
        step=np.zeros(1, np.int64),
        exploration=exploration,
    )


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    state.step[0] += 1
    step = state.step[0]
    n_items = len(state.in_list)
    scale = math.sqrt(state.exploration * math.log(step))
    for k in range(len(ranking)):
        drawn = draw(state.share[k], state.width[k], scale, rng)
        memo[k] = drawn
        ranking[k] = show(drawn, state.in_list, step, rng, n_items - k)


@kernel
def draw(share: FloatArray, width: FloatArray, scale: float, rng: np.random.Generator) -> int:
    """The item with a learner's highest index, a random one of them if there are several."""
    highest = -1.0
    leader = -1
    tied = 0
    for item in range(len(share)):
        upper = share[item] + scale * width[item]
        if upper > highest:
            highest = upper
            leader = item
            tied = 1
        elif upper == highest:
            tied += 1
    return nth_tied(share, width, scale, highest, draw_index(rng, tied)) if tied > 1 else leader


@slow_path
def nth_tied(share: FloatArray, width: FloatArray, scale: float, highest: float, n: int) -> int:
    """The n-th item with the highest index."""
    for item in range(len(share)):
        if share[item] + scale * width[item] == highest:
            if n == 0:
                return item
            n -= 1
    return -1


def best(state: State, ranking: IntArray) -> None:
    """Position by position the item with the highest share of clicks that is not in the list yet."""
    favourites(shares(state.observed, state.clicks), ranking)


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    for k in range(len(ranking)):
        item = int(memo[k])
        state.observed[k, item] += 1
        state.clicks[k, item] += earned(k, ranking, clicks, memo)
        state.share[k, item] = state.clicks[k, item] / state.observed[k, item]
        state.width[k, item] = 1 / math.sqrt(state.observed[k, item])


# --- what is learned ----------------------------------------------------------------------------------------


def describe(state: State) -> dict[str, Any]:
    return describe_learners(state.observed, state.clicks)


# --- items that come and go ---------------------------------------------------------------------------------

admit, retire = by_item(observed=0, clicks=0, share=math.inf, width=0.0, in_list=0)


# --- what was stored ----------------------------------------------------------------------------------------


def possible(state: State, fresh: State) -> bool:
    """Some item has an index, whatever comes."""
    return (
        ranked.possible(state, fresh)
        and all(within(values, 0, math.inf) for values in (state.observed, state.clicks, state.width))
        and not (state.share < 0).any()
    )


@dataclass(frozen=True)
class RankedUCB1(Policy):
    """Ranked bandits with UCB1.

    >>> str(RankedUCB1(exploration=2))
    'ranked-ucb1:exploration=2.0'
    """

    paper = "Radlinski et al. 2008"
    title = "RankedUCB1"
    colour = "gray dotted"
    algorithm = Algorithm(init, memo_size, rank, update, best)
    live = Live(describe=describe, admit=admit, retire=retire, renumber=renumber, possible=possible)

    exploration: float = 0.51
    """How wide the bounds are: the factor of log t / n under the root."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_exploration(self.name, self.exploration)
