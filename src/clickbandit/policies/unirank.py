"""UniRank: plays the ordered partition of the items that the clicks support, or one that is a step away from it.

It believes, as TopRank does, that a list gets no worse where a better item changes places with a worse one above it.
Of two items of a shuffled part the one that is clicked more often when only one of both is clicked leads the other.
The leader is the partition in which every item leads, or ties with, all that stand in parts below: the first part
are the items that no other leads, and so on down to position K; where each is led by another, all the rest. To stay
with it would be greedy, so two neighbouring parts are played as one, or one item from below joins the last part, as
long as it is still possible that the lower of two items leads. It needs no horizon, and its regret is
O(L / gap log T).

Gauthier, Gaudel, Fromont: UniRank: Unimodal Bandit Algorithms for Online Ranking (ICML 2022). An item that is not
shown counts as not clicked, as long as its part is: were both to be shown, items would drop out of the list for good.

With m, how often this partition led (with this time), the value of a pair is the KL-UCB bound on the share of j's
wins over i above it, with the budget log m + 3 log log m (1 if m < 3). Of the partitions a step away, from the
highest parts to the lowest and then the items from below by number, the first one is played that has the highest
value, if that is above 1/2. Values nearer than 1e-12 are the same.

Draws of `rank`: for each shown position, which of its part's items that are left comes next. Before, these stand in
increasing order, in a joined part first those of the upper part and then those of the lower one.
"""

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.policies.base import Policy
from clickbandit.policies.blocks import best_of_blocks, describe_blocks, is_peeled, memo_size, peel
from clickbandit.policies.common import draw_index
from clickbandit.policies.contract import Algorithm, Live
from clickbandit.policies.leaders import NOBODY, SLOTS, count_leader, mix
from clickbandit.policies.possible import like, within
from clickbandit.policies.tangents import compute_bound, forget_bound
from clickbandit.priors import Prior

# --- settings and state -------------------------------------------------------------------------------------

TIE = 1e-12
"""Values that are nearer than this are the same, and differ only by rounding."""


class State(NamedTuple):
    """A part is known by the place of its first item; arrays by pair have a row for i and a column for j."""

    items: IntArray
    """The items by part of the leader, those below position K last."""
    part: IntArray
    """By item: its part, or BELOW."""
    end: IntArray
    """By place: the place after the last of the part there."""
    order: IntArray
    """The items as they were shown last, and the others."""
    wins: IntArray
    """By pair: how often i was clicked and j, in the same part, was not. So D_ij = wins_ij + wins_ji, and
    tau_ij = (wins_ij - wins_ji) / D_ij."""
    leads: IntArray
    """By pair: 1 if i has more wins over j than j over i."""
    led: IntArray
    """By item: how many items lead it."""
    ahead: IntArray
    """By item: how many of these are not in a part yet, while the leader is found."""
    bound: FloatArray
    """By pair: the bound on the share of i's wins over j, as last computed."""
    level: FloatArray
    """By pair: its tangent, for a budget of 0."""
    slope: FloatArray
    """By pair: how much the tangent rises with the budget."""
    keys: IntArray
    """By slot: the leader that has it."""
    times: IntArray
    """By slot: how often that leader led."""
    key: IntArray
    """The leader's key, in a single entry."""
    clicked: IntArray
    """By item: 1 if it was clicked, while a list is learned from."""
    highest: IntArray
    """The pair with the highest value at the last step, or the same item twice."""
    n_positions: int


def init(n_items: int, n_positions: int, *, horizon: int) -> State:
    pairs = (n_items, n_items)
    state = State(
        items=np.arange(n_items),
        part=np.zeros(n_items, np.int64),
        end=np.zeros(n_items, np.int64),
        order=np.arange(n_items),
        wins=np.zeros(pairs, np.int64),
        leads=np.zeros(pairs, np.int64),
        led=np.zeros(n_items, np.int64),
        ahead=np.zeros(n_items, np.int64),
        bound=np.ones(pairs),
        level=np.ones(pairs),
        slope=np.zeros(pairs),
        keys=np.full(SLOTS, NOBODY),
        times=np.zeros(SLOTS, np.int64),
        key=np.zeros(1, np.int64),
        clicked=np.zeros(n_items, np.int64),
        highest=np.zeros(2, np.int64),
        n_positions=n_positions,
    )
    interpreted(find_leader)(state)
    return state


def prime(state: State, prior: Prior) -> State:
    """Each item has won once over all behind it in the prior's order: it leads them until they have won as often."""
    for place, item in enumerate(prior.order):
        behind = list(prior.order[place + 1 :])
        state.wins[item, behind] = 1
        state.leads[item, behind] = 1
        state.led[item] = place
    interpreted(find_leader)(state)
    return state


@slow_path
def find_leader(state: State) -> None:
    peel(state.leads, state.led, state.n_positions, state.items, state.part, state.end, state.ahead)
    key = 0
    for place in range(state.end[state.n_positions - 1]):
        starts = state.part[state.items[place]] == place
        key = mix(key, 2 * state.items[place] + starts + 1)
    state.key[0] = key
    state.highest[:] = 0


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    items, end, order = state.items, state.end, state.order
    for i in range(len(items)):
        order[i] = items[i]
        memo[i] = state.part[i]
    joined = choose(state)
    start, stop = 0, 0
    if joined > 0:
        above = min(joined, len(ranking)) - 1
        start = state.part[items[above]]
        if joined < len(ranking):
            stop = end[joined]
            for place in range(joined, stop):
                memo[items[place]] = start
        else:
            stop = end[above] + 1
            order[stop - 1], order[joined] = items[joined], items[stop - 1]
            memo[items[joined]] = start
    for k in range(len(ranking)):
        other = k + draw_index(rng, (stop if start <= k < stop else end[k]) - k)
        order[k], order[other] = order[other], order[k]
        ranking[k] = order[k]


@kernel
def choose(state: State) -> int:
    """The place of what joins the part above it: a part that starts there, or an item from below; 0 for the leader."""
    items, end, n_positions = state.items, state.end, state.n_positions
    times = count_leader(state.key[0], state.keys, state.times)
    if times < 3:
        return int(end[0] if end[0] < len(items) else 0)
    log_times = math.log(times)
    budget = log_times + 3 * math.log(log_times)

    # the highest pair of the last step is still high: nothing that must be lower is computed
    lower, upper = state.highest[0], state.highest[1]
    floor = value_of(state, lower, upper, budget) - TIE if lower != upper else 0.5
    highest, chosen = 0.5, 0
    start = 0
    while end[start] < n_positions:
        below = end[start]
        for i in range(below, end[below]):
            for j in range(start, below):
                value = look(state, items[i], items[j], budget, max(floor, highest + TIE))
                if value > highest + TIE:
                    highest, chosen, lower, upper = value, below, items[i], items[j]
        start = below
    for i in range(end[start], len(items)):
        for j in range(start, end[start]):
            value = look(state, items[i], items[j], budget, max(floor, highest + TIE))
            if value > highest + TIE:
                highest, chosen, lower, upper = value, i, items[i], items[j]
    state.highest[0] = lower
    state.highest[1] = upper if chosen > 0 else lower
    return chosen


@kernel
def look(state: State, lower: int, upper: int, budget: float, least: float) -> float:
    """A pair's value, or 0 if that is below the least that matters."""
    if state.level[lower, upper] + state.slope[lower, upper] * budget < least:
        return 0.0
    return value_of(state, lower, upper, budget)


@slow_path
def value_of(state: State, lower: int, upper: int, budget: float) -> float:
    """The bound on the share of an item's wins over one above it."""
    wins = state.wins[lower, upper]
    n = wins + state.wins[upper, lower]
    return compute_bound(state, lower, upper, wins, n, budget)


@kernel
def propensity(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    """The played part is certain, and each of its items as probable as the others at each of its positions."""
    for k in range(len(ranking)):
        size = 0
        for item in range(len(memo)):
            size += memo[item] == memo[ranking[k]]
        out[k] = 1 / size


def best(state: State, ranking: IntArray) -> None:
    best_of_blocks(state.part, state.wins, ranking)


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    for k in range(len(ranking)):
        state.clicked[ranking[k]] = clicks[k]
    changed = False
    for k in range(len(ranking)):
        if clicks[k]:
            item = ranking[k]
            for other in range(len(memo)):
                if memo[other] == memo[item] and state.clicked[other] == 0:
                    changed |= count_win(state, item, other)
    for k in range(len(ranking)):
        state.clicked[ranking[k]] = 0
    if changed:
        find_leader(state)


@kernel
def count_win(state: State, item: int, other: int) -> bool:
    """An item was clicked and another of its part was not; whether it led or was led, and now it is otherwise."""
    state.wins[item, other] += 1
    forget_bound(state.level, state.slope, item, other)
    lead = state.wins[item, other] - state.wins[other, item]
    if lead == 1:
        state.leads[item, other] = 1
        state.led[other] += 1
    elif lead == 0:
        state.leads[other, item] = 0
        state.led[item] -= 1
    return bool(lead == 0 or lead == 1)


# --- what is learned ----------------------------------------------------------------------------------------


def describe(state: State) -> dict[str, Any]:
    """The parts that are played next: the leader's, two of which may be joined, or the last and an item from below."""
    trial = deepcopy(state)
    memo = np.zeros(memo_size(len(state.items), state.n_positions))
    interpreted(rank)(trial, np.random.default_rng(0), np.zeros(state.n_positions, np.int64), memo)
    return {
        "items": [{"item": item} for item in range(len(state.items))],
        "groups": describe_blocks(memo.astype(np.int64), state.n_positions),
    }


# --- what was stored ----------------------------------------------------------------------------------------


def possible(state: State, fresh: State) -> bool:
    parts = state.items, state.part, state.end
    return (
        like(state, fresh)
        and is_peeled(state.leads, state.led, state.n_positions, *parts)
        and within(state.highest, 0, len(state.items))
    )


@dataclass(frozen=True)
class UniRank(Policy):
    """UniRank: the best partition so far, and those a step away from it.

    >>> from clickbandit import CascadeModel, simulate
    >>> model = CascadeModel(attraction=[0.3, 0.9, 0.6])
    >>> simulate(UniRank(), model, positions=2, steps=2_000, seed=1).summary().final_lists
    [[1, 2]]
    """

    paper = "Gauthier et al. 2022"
    title = "UniRank"
    colour = "purple"
    algorithm = Algorithm(init, memo_size, rank, update, best, prime=prime)
    live = Live(propensity=propensity, describe=describe, possible=possible)
