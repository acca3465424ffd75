"""TopRank: shows blocks of items in random order, and parts two items once the clicks say which is better.

It believes that a list gets no worse where a better item changes places with a worse one above it, as in the cascade
model, the position-based model and most others. It keeps a relation "i beats j" that only grows. The items that
none beats are the first block, those that none of the rest beats the second, and so on; the blocks are shown in
this order, each shuffled, down to position K. Shuffling makes the clicks on two items of a block a fair comparison
(an item that is not shown is not clicked), and i beats j as soon as i's lead is more than chance. Its regret is
O(K L / gap log T), and with probability 1 - L^2 / T the relation is never wrong, so it has no cycle; should there be
one, the items from there on stay one block. It cannot start from a prior: its tests are fair because items that it
cannot tell apart are shuffled, so there is no order to start from, nor ties to break by one.

Lattimore, Kveton, Li, Szepesvári: TopRank: A Practical Algorithm for Online Stochastic Ranking (NeurIPS 2018),
Algorithm 1 with delta = 1 / T.

Draws of `rank`: for each shown position, which of its block's items that are left comes next. The items of a block
stand in increasing order when it is made, and stay as they were shuffled until the relation grows again.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.policies.base import Policy
from clickbandit.policies.blocks import BELOW, best_of_blocks, describe_blocks, is_peeled, memo_size, peel
from clickbandit.policies.common import draw_index
from clickbandit.policies.contract import Algorithm, Leaps, Live
from clickbandit.policies.possible import like

# --- settings and state -------------------------------------------------------------------------------------

NEVER = 1 << 60
"""More wins than any run has."""


class State(NamedTuple):
    """A block is known by the place of its first item; arrays by pair have a row for i and a column for j."""

    items: IntArray
    """The items by block, those below position K last."""
    block: IntArray
    """By item: its block, or BELOW."""
    end: IntArray
    """By place: the place after the last of the block there."""
    wins: IntArray
    """By pair: how often i was clicked and j, in the same block, was not. So S_ij = wins_ij - wins_ji, and
    N_ij = wins_ij + wins_ji."""
    next_test: IntArray
    """By pair: with fewer wins than this i cannot be found to beat j; NEVER once it was."""
    beats: IntArray
    """By pair: 1 if i beats j."""
    beaten: IntArray
    """By item: how many items beat it."""
    ahead: IntArray
    """By item: how many of these are not in a block yet, while blocks are made."""
    clicked: IntArray
    """By item: 1 if it was clicked, while a list is learned from."""
    n_positions: int
    scale: float
    """c / delta in the test."""


def init(n_items: int, n_positions: int, *, horizon: int) -> State:
    pairs = (n_items, n_items)
    state = State(
        items=np.arange(n_items),
        block=np.zeros(n_items, np.int64),
        end=np.zeros(n_items, np.int64),
        wins=np.zeros(pairs, np.int64),
        next_test=np.ones(pairs, np.int64),
        beats=np.zeros(pairs, np.int64),
        beaten=np.zeros(n_items, np.int64),
        ahead=np.zeros(n_items, np.int64),
        clicked=np.zeros(n_items, np.int64),
        n_positions=n_positions,
        scale=4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2)) * horizon,
    )
    np.fill_diagonal(state.next_test, NEVER)
    interpreted(make_blocks)(state)
    return state


@slow_path
def make_blocks(state: State) -> None:
    peel(state.beats, state.beaten, state.n_positions, state.items, state.block, state.end, state.ahead)


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    items = state.items
    for k in range(len(ranking)):
        other = k + draw_index(rng, state.end[k] - k)
        items[k], items[other] = items[other], items[k]
        ranking[k] = items[k]
    for item in range(len(items)):
        memo[item] = state.block[item]


@kernel
def propensity(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    """Each item of a block is as probable as the others at each of its positions."""
    for k in range(len(ranking)):
        out[k] = 1 / (state.end[k] - state.block[ranking[k]])


def best(state: State, ranking: IntArray) -> None:
    best_of_blocks(state.block, state.wins, ranking)


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    for k in range(len(ranking)):
        state.clicked[ranking[k]] = clicks[k]
    grown = False
    for k in range(len(ranking)):
        if clicks[k]:
            item = ranking[k]
            due = False
            for other in range(len(memo)):  # without a branch, so that it runs on several at once
                won = (memo[other] == memo[item]) & (state.clicked[other] == 0)
                state.wins[item, other] += won
                due |= state.wins[item, other] >= state.next_test[item, other]
            if due:
                grown |= find_beaten(state, item)
    for k in range(len(ranking)):
        state.clicked[ranking[k]] = 0
    if grown:
        make_blocks(state)


@slow_path
def find_beaten(state: State, item: int) -> bool:
    """Find whom else the item beats: S_ij >= sqrt(2 N_ij log(c / delta sqrt(N_ij))); whether there was any."""
    grown = False
    for other in range(len(state.items)):
        if state.wins[item, other] >= state.next_test[item, other]:
            missing = missing_lead(state, item, other)
            if missing <= 0:
                state.beats[item, other] = 1
                state.beaten[other] += 1
                state.next_test[item, other] = NEVER
                grown = True
            else:
                put_off(state, item, other, missing)
    return grown


@kernel
def missing_lead(state: State, item: int, other: int) -> float:
    """By how much the item's lead over the other is too small."""
    n = max(1, state.wins[item, other] + state.wins[other, item])
    enough = math.sqrt(2 * n * math.log(state.scale * math.sqrt(n)))
    return float(enough - (state.wins[item, other] - state.wins[other, item]))


@kernel
def put_off(state: State, item: int, other: int, missing: float) -> None:
    """Wait for the wins that are missing at least: a win adds 1 to the lead, and nothing makes less enough."""
    state.next_test[item, other] = state.wins[item, other] + max(1, int(missing))


# --- leaps over steps that cannot make the relation grow -----------------------------------------------------


@slow_path
def quiet(state: State, n_positions: int) -> int:
    """For how many steps no pair can have the wins that it needs: each step brings it at most one."""
    steps = NEVER
    place = 0
    while place < n_positions:
        start, place = place, state.end[place]
        for i in range(start, place):
            item = state.items[i]
            for j in range(start, place):
                other = state.items[j]
                if state.next_test[item, other] != NEVER:
                    put_off(state, item, other, missing_lead(state, item, other))
                    steps = min(steps, state.next_test[item, other] - state.wins[item, other])
    return steps


@kernel
def batches(state: State, batch: IntArray, size: IntArray) -> None:
    """For each position the first one of its block, and how many items that has."""
    for k in range(len(batch)):
        batch[k] = state.block[state.items[k]]
        size[k] = state.end[k] - batch[k]


@kernel
def member(state: State, block: int, i: int) -> int:
    """The i-th item of a block."""
    return int(state.items[block + i])


@kernel
def absorb(state: State, observed: IntArray, clicked: IntArray, together: IntArray) -> None:
    """Learn how often each item was clicked, and each pair together, in quiet steps."""
    place = 0
    while place < state.n_positions:
        start, place = place, state.end[place]
        for i in range(start, place):
            for j in range(start, place):
                item, other = state.items[i], state.items[j]
                if item != other:
                    both = together[item, other] + together[other, item]
                    state.wins[item, other] += clicked[item] - both


@slow_path
def test(state: State, n_positions: int) -> None:
    """Let the relation grow where the wins are enough."""
    grown = False
    for item in range(len(state.items)):
        grown |= find_beaten(state, item)
    if grown:
        make_blocks(state)


# --- what is learned ----------------------------------------------------------------------------------------


def describe(state: State) -> dict[str, Any]:
    """The blocks, and for how many impressions each stays as it is: a pair has at most one win in each."""
    wait = np.where(state.next_test == NEVER, NEVER, state.next_test - state.wins)
    groups = describe_blocks(state.block, state.n_positions)
    quiet = NEVER
    for group in groups:
        if "first" in group:  # what leaves a block moves to one below it
            quiet = min(quiet, int(wait[np.ix_(group["items"], group["items"])].min()))
            group |= {} if quiet == NEVER else {"at_least": quiet}
    return {
        "items": [
            {"item": item, "eliminated": bool(n >= state.n_positions)} for item, n in enumerate(state.beaten)
        ],
        "groups": groups,
        "settled": quiet == NEVER,
    } | ({} if quiet == NEVER else {"next_decision": quiet})


# --- items that come and go ---------------------------------------------------------------------------------


def admit(state: State, n_new: int) -> State:
    """New items are beaten by none, so they join the first block, and each pair is compared as usual."""
    pairs = ((0, n_new), (0, n_new))
    next_test = np.pad(state.next_test, pairs, constant_values=1)
    np.fill_diagonal(next_test, NEVER)
    return _rebuilt(state, np.pad(state.wins, pairs), next_test, np.pad(state.beats, pairs))


def retire(state: State, item: int) -> State:
    """Items that this one beat may be shown again."""
    pairs = (
        np.delete(np.delete(pair, item, 0), item, 1) for pair in (state.wins, state.next_test, state.beats)
    )
    return _rebuilt(state, *pairs)


def _rebuilt(state: State, wins: IntArray, next_test: IntArray, beats: IntArray) -> State:
    n_items = len(wins)
    blank: dict[str, Any] = {
        name: np.zeros(n_items, np.int64) for name in ("block", "end", "ahead", "clicked")
    }
    state = state._replace(
        **blank,
        items=np.arange(n_items),
        wins=wins,
        next_test=next_test,
        beats=beats,
        beaten=beats.sum(axis=0),
    )
    interpreted(make_blocks)(state)
    return state


def renumber(memo: FloatArray, numbers: IntArray, n_items: int) -> FloatArray:
    """The blocks at the time of ranking; items added since belong to none."""
    blocks = np.full(n_items, float(BELOW))
    blocks[numbers[numbers >= 0]] = memo[numbers >= 0]
    return blocks


# --- what was stored ----------------------------------------------------------------------------------------


def possible(state: State, fresh: State) -> bool:
    blocks = state.items, state.block, state.end
    return like(state, fresh) and is_peeled(state.beats, state.beaten, state.n_positions, *blocks)


@dataclass(frozen=True)
class TopRank(Policy):
    """TopRank: a relation between items, from clicks on both.

    >>> from clickbandit import PositionBasedModel, simulate
    >>> model = PositionBasedModel(attraction=[0.9, 0.6, 0.3], examination=[1, 0.5])
    >>> simulate(TopRank(), model, positions=2, steps=2_000, seed=1).summary().final_lists
    [[0, 1]]
    """

    paper = "Lattimore et al. 2018"
    title = "TopRank"
    colour = "green"
    algorithm = Algorithm(init, memo_size, rank, update, best)
    leaps = Leaps(quiet, batches, member, absorb, test, in_pairs=True)
    live = Live(
        propensity=propensity,
        describe=describe,
        admit=admit,
        retire=retire,
        renumber=renumber,
        possible=possible,
    )
