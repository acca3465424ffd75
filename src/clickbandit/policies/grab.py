"""GRAB: plays the assignment of items to positions with the highest means, or a neighbour that may be better.

It believes in the position-based model, but knows neither how often the positions are examined nor which of them most:
the mean of each item's clicks at each position is learned by itself. The leader is the assignment with the highest
sum of means. Its neighbours are those that differ by one exchange: of the items at two positions that follow each
other when these are ordered by the leader's means, or of the item at the worst position and one that is not shown.
In that graph every assignment that is not the best has a better neighbour, so to look there is enough. Every
(L - 1)-th time that an assignment leads it is played itself (with two items every second time, or nothing would be
learned); else the neighbour with the largest optimistic gain, or still the leader if none is above 0. Its regret is
O(L / gap log T), and it needs no horizon.

Gauthier, Gaudel, Fromont, Lompo: Parametric Graph for Unimodal Ranking Bandit (ICML 2021).

The gain of a neighbour is the sum of the optimistic indices of what it changes, less the leader's means there. An
index is the KL-UCB bound on the mean with the budget log n + 3 log log n, where n is how often this assignment led
(with this time); 1 if n < 3 or the item was never shown there. Of equal gains (nearer than 1e-12) the first counts,
from the best positions to the worst and then the unshown items by number. Of equal assignments the one with items of
low numbers on top leads: to the mean of item i at position k, both from 0, is added -1e-8 i / L ((K - k) / K)^0.7.

`rank` draws nothing.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.policies.assignment import FREE, assign, best_exchange
from clickbandit.policies.base import Policy
from clickbandit.policies.contract import Algorithm, Live, certain, no_memo
from clickbandit.policies.leaders import NOBODY, SLOTS, count_leader, mix
from clickbandit.policies.possible import is_order, like, within
from clickbandit.policies.tangents import compute_bound, forget_bound
from clickbandit.priors import Prior

# --- settings and state -------------------------------------------------------------------------------------

TIE = 1e-12
"""Gains that are nearer than this are the same, and differ only by rounding."""
UNBOUNDED = -1.0
"""Stands for the budget of an assignment that led less than three times."""


class State(NamedTuple):
    """Arrays by item and position have a row for each item."""

    shown: IntArray
    """By item and position: how often it was shown there, N."""
    clicks: IntArray
    """By item and position: clicks among these."""
    mean: FloatArray
    """By item and position: their share, rho."""
    value: FloatArray
    """By item and position: the mean with its handicap."""
    handicap: FloatArray
    """By item and position: what is added to the mean, so that no two assignments are equal."""
    leader: IntArray
    """By position: the leader's item."""
    position: IntArray
    """By item: its position in the leader, or FREE."""
    order: IntArray
    """The positions by the leader's means, highest first."""
    margin: FloatArray
    """How far the values may move before another assignment can lead, in a single entry."""
    bound: FloatArray
    """By item and position: the optimistic index, as last computed."""
    level: FloatArray
    """By item and position: its tangent, for a budget of 0."""
    slope: FloatArray
    """By item and position: how much the tangent rises with the budget."""
    keys: IntArray
    """By slot: the leader that has it."""
    times: IntArray
    """By slot: how often that leader led."""
    key: IntArray
    """The leader's key, in a single entry."""
    highest: IntArray
    """The neighbour that was played last, as its number in their order, or none (-1)."""
    distance: FloatArray
    chain: IntArray
    gain: FloatArray
    """These are for counting while the leader is found."""


def init(n_items: int, n_positions: int, *, horizon: int) -> State:
    cells = (n_items, n_positions)
    low_on_top = np.outer(np.arange(n_items) / n_items, (1 - np.arange(n_positions) / n_positions) ** 0.7)
    state = State(
        shown=np.zeros(cells, np.int64),
        clicks=np.zeros(cells, np.int64),
        mean=np.zeros(cells),
        value=-1e-8 * low_on_top,
        handicap=-1e-8 * low_on_top,
        leader=np.arange(n_positions),
        position=np.where(np.arange(n_items) < n_positions, np.arange(n_items), FREE),
        order=np.arange(n_positions),
        margin=np.zeros(1),
        bound=np.ones(cells),
        level=np.ones(cells),
        slope=np.zeros(cells),
        keys=np.full(SLOTS, NOBODY),
        times=np.zeros(SLOTS, np.int64),
        key=np.zeros(1, np.int64),
        highest=np.full(1, -1),
        distance=np.zeros((3, n_items)),
        chain=np.zeros((2, n_items), np.int64),
        gain=np.zeros((n_positions + 1, n_positions + 1)),
    )
    interpreted(name_leader)(state)  # it is the best, and after the first clicks it is known for how long
    return state


def prime(state: State, prior: Prior) -> State:
    """The prior's order leads first, and of equal assignments those that keep to it."""
    order, n_positions = list(prior.order), len(state.leader)
    by_number = state.handicap.copy()
    state.handicap[order] = by_number
    state.value[:] = state.handicap
    state.leader[:] = order[:n_positions]
    state.position[:] = FREE
    state.position[state.leader] = np.arange(n_positions)
    interpreted(name_leader)(state)
    return state


@slow_path
def check_leader(state: State) -> None:
    """Find out for how long the leader will be the best assignment, and look for another if it is not."""
    lacks = -best_exchange(state.value, state.leader, state.position, state.gain)
    if lacks < 0:
        find_leader(state)
    else:
        state.margin[0] = lacks


@slow_path
def find_leader(state: State) -> None:
    assign(state.value, state.leader, state.position, state.distance, state.chain)
    state.margin[0] = max(0.0, -best_exchange(state.value, state.leader, state.position, state.gain))
    name_leader(state)


@slow_path
def name_leader(state: State) -> None:
    key = 0
    for k in range(len(state.leader)):
        key = mix(key, state.leader[k] + 1)
    state.key[0] = key
    state.highest[0] = -1


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    n_items, n_positions = state.mean.shape
    for k in range(n_positions):
        ranking[k] = state.leader[k]
    times = count_leader(state.key[0], state.keys, state.times)
    if n_items == 1 or times % max(2, n_items - 1) == 0:
        return
    sort_positions(state)
    neighbour = choose(state, times)
    if neighbour >= n_positions - 1:
        ranking[state.order[n_positions - 1]] = neighbour - (n_positions - 1)
    elif neighbour >= 0:
        better, worse = state.order[neighbour], state.order[neighbour + 1]
        ranking[better], ranking[worse] = ranking[worse], ranking[better]


@kernel
def sort_positions(state: State) -> None:
    """Order the positions by the leader's means, of equal ones the upper first."""
    order = state.order
    for s in range(1, len(order)):
        k = order[s]
        mean = state.mean[state.leader[k], k]
        place = s
        while place > 0:
            other = order[place - 1]
            other_mean = state.mean[state.leader[other], other]
            if other_mean > mean or (other_mean == mean and other < k):
                break
            order[place] = other
            place -= 1
        order[place] = k


@kernel
def choose(state: State, times: int) -> int:
    """The neighbour with the largest gain above 0, or -1: the number of an exchange of positions that follow each
    other, or n_positions - 1 plus the item that moves to the worst position."""
    n_items, n_positions = state.mean.shape
    budget = UNBOUNDED
    if times >= 3:
        log_times = math.log(times)
        budget = log_times + 3 * math.log(log_times)
    # the best neighbour of the last step is still good: nothing that must be worse is computed
    floor = gain_of(state, state.highest[0], budget, -math.inf) - TIE if state.highest[0] >= 0 else 0.0
    most, chosen = 0.0, -1
    for neighbour in range(n_positions - 1 + n_items):
        item = neighbour - (n_positions - 1)
        if item < 0 or state.position[item] == FREE:
            gain = gain_of(state, neighbour, budget, max(floor, most + TIE))
            if gain > most + TIE:
                most, chosen = gain, neighbour
    state.highest[0] = chosen
    return chosen


@kernel
def gain_of(state: State, neighbour: int, budget: float, least: float) -> float:
    """A neighbour's optimistic gain, or -inf if that is below the least that matters."""
    n_positions = len(state.leader)
    if neighbour >= n_positions - 1:
        k = state.order[n_positions - 1]
        item = neighbour - (n_positions - 1)
        mean = state.mean[state.leader[k], k]
        if most_of(state, item, k, budget) - mean < least:
            return -math.inf
        return index_of(state, item, k, budget) - float(mean)
    better, worse = state.order[neighbour], state.order[neighbour + 1]
    item, other = state.leader[better], state.leader[worse]
    mean = state.mean[item, better] + state.mean[other, worse]
    if most_of(state, item, worse, budget) + most_of(state, other, better, budget) - mean < least:
        return -math.inf
    return index_of(state, item, worse, budget) + index_of(state, other, better, budget) - float(mean)


@kernel
def most_of(state: State, item: int, k: int, budget: float) -> float:
    """What an index is at most."""
    return 1.0 if budget == UNBOUNDED else float(state.level[item, k] + state.slope[item, k] * budget)


@slow_path
def index_of(state: State, item: int, k: int, budget: float) -> float:
    """How high the mean of an item at a position may be."""
    if budget == UNBOUNDED:
        return 1.0
    n, clicks = state.shown[item, k], state.clicks[item, k]
    return compute_bound(state, item, k, clicks, n, budget)


def best(state: State, ranking: IntArray) -> None:
    ranking[:] = state.leader


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    margin = state.margin[0]
    for k in range(len(ranking)):
        item = ranking[k]
        state.shown[item, k] += 1
        if clicks[k]:
            state.clicks[item, k] += 1
            forget_bound(state.level, state.slope, item, k)
        mean = state.clicks[item, k] / state.shown[item, k]
        change = mean - state.mean[item, k]
        # only what lowers the leader's sum or raises another's can bring another to the lead
        margin -= max(0.0, -change if state.position[item] == k else change)
        state.mean[item, k] = mean
        state.value[item, k] = mean + state.handicap[item, k]
    state.margin[0] = margin
    if margin <= 0:
        check_leader(state)


def describe(state: State) -> dict[str, Any]:
    """How often each item was shown and clicked, wherever it stood."""
    shown, clicks = state.shown.sum(axis=1).tolist(), state.clicks.sum(axis=1).tolist()
    return {
        "items": [
            {"item": item, "observed": shown[item], "clicks": clicks[item]} for item in range(len(shown))
        ]
    }


# --- what was stored ----------------------------------------------------------------------------------------


def possible(state: State, fresh: State) -> bool:
    """Every position has an item of its own, which knows that it stands there."""
    n_items, n_positions = fresh.mean.shape
    if not (like(state, fresh) and within(state.leader, 0, n_items) and is_order(state.order, n_positions)):
        return False
    position = np.full(n_items, FREE)
    position[state.leader] = np.arange(n_positions)
    return (
        np.array_equal(position, state.position)
        and len(set(state.leader.tolist())) == n_positions
        and within(state.highest, -1, n_positions - 1 + n_items)
        and within(state.chain, FREE, n_items)
    )


@dataclass(frozen=True)
class GRAB(Policy):
    """GRAB: the best assignment so far, and its neighbours.

    >>> from clickbandit import PositionBasedModel, simulate
    >>> model = PositionBasedModel(attraction=[0.3, 0.9, 0.6], examination=[0.5, 1])
    >>> simulate(GRAB(), model, positions=2, steps=2_000, seed=1).summary().final_lists
    [[2, 1]]
    """

    paper = "Gauthier et al. 2021"
    title = "GRAB"
    colour = "purple dashed"
    algorithm = Algorithm(init, no_memo, rank, update, best, prime=prime)
    live = Live(propensity=certain, describe=describe, possible=possible)
