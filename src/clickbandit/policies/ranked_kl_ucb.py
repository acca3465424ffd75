"""RankedKL-UCB: one KL-UCB bandit for each position, blind to what the others do.

It believes that what an item earns at a position does not change much, once the learners above have settled. Position
by position a learner draws the item with the highest KL upper bound, of budget log t; an item that is in the list
already is replaced by a random other one, and then its learner is told that it earned nothing. It explores less than
RankedUCB1 where clicks are rare, and has no guarantee either.

Radlinski, Kleinberg, Joachims: Learning Diverse Rankings with Multi-Armed Bandits (ICML 2008), with the bounds of
Garivier, Cappé: The KL-UCB Algorithm for Bounded Stochastic Bandits and Beyond (COLT 2011).

Draws of `rank`, position by position: which item, where several have the learner's highest bound (as all have at
first); and where that is in the list already, the item instead.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.policies import ranked
from clickbandit.policies.base import Policy
from clickbandit.policies.bounds_on_demand import compare, look
from clickbandit.policies.common import draw_index
from clickbandit.policies.contract import Algorithm, Live
from clickbandit.policies.possible import within
from clickbandit.policies.ranked import describe_learners, earned, favourites, memo_size, shares, show

# --- settings and state -------------------------------------------------------------------------------------


class State(NamedTuple):
    """What each learner observed of its arms, and what that says of their bounds (see `bounds_on_demand`).

    Learner k has the arms from k L on, one for each item.
    """

    observed: IntArray
    """By arm: how often its learner drew it, as far as the feedback is in."""
    clicks: IntArray
    """By arm: what its learner earned with that."""
    low: FloatArray
    high: FloatArray
    slope: FloatArray
    at_budget: FloatArray
    leader: IntArray
    """By learner: the arm that it drew last."""
    in_list: IntArray
    """By item: the last step at which it was put in the list."""
    step: IntArray
    """How many lists were made, t."""


def init(n_items: int, n_positions: int, *, horizon: int) -> State:
    n_arms = n_positions * n_items
    return State(
        observed=np.zeros(n_arms, np.int64),
        clicks=np.zeros(n_arms, np.int64),
        low=np.zeros(n_arms),
        high=np.ones(n_arms),
        slope=np.zeros(n_arms),
        at_budget=np.full(n_arms, -1.0),
        leader=np.arange(n_positions) * n_items,
        in_list=np.zeros(n_items, np.int64),
        step=np.zeros(1, np.int64),
    )


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    state.step[0] += 1
    step = state.step[0]
    n_items = len(state.in_list)
    budget = math.log(step)
    for k in range(len(ranking)):
        state.leader[k] = draw(state, k, budget, rng)
        drawn = state.leader[k] - k * n_items
        memo[k] = drawn
        ranking[k] = show(drawn, state.in_list, step, rng, n_items - k)


@kernel
def draw(state: State, learner: int, budget: float, rng: np.random.Generator) -> int:
    """The arm with the learner's highest bound, a random one of them if there are several.

    Starts from the last one drawn, which is often still the highest: then few bounds have to be computed.
    """
    n_items = len(state.in_list)
    first = learner * n_items
    leader = state.leader[learner]
    tied = 1
    for arm in range(first, first + n_items):
        if arm != leader:
            outcome = compare(state, arm, leader, budget)
            if outcome > 0:
                leader = arm
                tied = 1
            elif outcome == 0:
                tied += 1
    return nth_tied(state, first, leader, budget, draw_index(rng, tied)) if tied > 1 else leader


@slow_path
def nth_tied(state: State, first: int, leader: int, budget: float, n: int) -> int:
    """The n-th arm, from `first` on, with the leader's bound."""
    for arm in range(first, first + len(state.in_list)):
        if arm == leader or compare(state, arm, leader, budget) == 0:
            if n == 0:
                return arm
            n -= 1
    return leader


def best(state: State, ranking: IntArray) -> None:
    """Position by position the item with the highest share of clicks that is not in the list yet."""
    favourites(shares(*by_learner(state)), ranking)


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    for k in range(len(ranking)):
        look(state, k * len(state.in_list) + int(memo[k]), earned(k, ranking, clicks, memo))


# --- what is learned ----------------------------------------------------------------------------------------


def describe(state: State) -> dict[str, Any]:
    return describe_learners(*by_learner(state))


def by_learner(state: State) -> tuple[IntArray, IntArray]:
    """Observations and clicks, with a row for each learner."""
    shape = (len(state.leader), len(state.in_list))
    return state.observed.reshape(shape), state.clicks.reshape(shape)


# --- what was stored ----------------------------------------------------------------------------------------


def possible(state: State, fresh: State) -> bool:
    """Each learner drew one of its own arms."""
    return ranked.possible(state, fresh) and within(state.leader - fresh.leader, 0, len(state.in_list))


@dataclass(frozen=True)
class RankedKLUCB(Policy):
    """Ranked bandits with KL-UCB.

    >>> RankedKLUCB().name
    'ranked-kl-ucb'
    """

    paper = "Radlinski et al. 2008"
    title = "RankedKL-UCB"
    colour = "gray dash-dotted"
    algorithm = Algorithm(init, memo_size, rank, update, best)
    live = Live(describe=describe, possible=possible)
