"""BatchRank: divides the items into batches, shows each batch in random order, and splits it once that is safe.

It believes only that a user examines lower positions less and does not care in which order the items above stand,
as in the cascade and the position-based model alike. Random order inside a batch makes every item's clicks a fair
measure of its attraction; a stage ends when each item was observed equally often, and then a batch is split, or
loses the items that cannot belong to it, or explores on with four times the observations. Its regret is
O(K^3 L / gap log T).

Zoghi, Tunys, Ghavamzadeh, Kveton, Szepesvári, Wen: Online Learning to Rank in Stochastic Click Models (ICML 2017),
Algorithms 1 to 4 and Theorem 1. One deliberate difference: the stage of a batch that could not be split always
advances. The printed Algorithm 4 advances it only while items can be eliminated, and a batch with as many items as
positions would then never be tested again; Lemma 7 needs the test.

Draws of `rank`, batch by batch and position by position: which of the least observed items comes next, or, where
too few of them are left, first whether one of them comes next and if not which other item of the batch.
"""

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Literal, NamedTuple

import numpy as np

from clickbandit.bounds import interval
from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.errors import InputError
from clickbandit.policies import _batchrank_experiment
from clickbandit.policies._batchrank_live import admit as admit
from clickbandit.policies._batchrank_live import describe as describe
from clickbandit.policies._batchrank_live import fade
from clickbandit.policies._batchrank_live import propensity as propensity
from clickbandit.policies._batchrank_live import retire as retire
from clickbandit.policies.base import Policy
from clickbandit.policies.common import draw_index, sort_by_decreasing

# --- settings and state -------------------------------------------------------------------------------------

NOT_COUNTED = -1.0
"""Stands in the memo for a position whose item was only shown to fill the list."""
NEVER = 1 << 60
"""More observations than any run has."""
STAGES = 64
"""More stages than a batch can have: stage l takes more than 16 * 4^l steps."""


class State(NamedTuple):
    """A batch is known by its first position; arrays by batch have an entry for each position."""

    items: IntArray
    """All items: each batch holds a run of them, the least issued first; the eliminated stand last."""
    last: IntArray
    """By batch: its last position, -1 where no batch starts."""
    start: IntArray
    """By batch: where its run of items starts."""
    size: IntArray
    """By batch: how many items it has."""
    number: IntArray
    """By batch: how many batches had been made with it, its name in the paper."""
    stage: IntArray
    """By batch: its stage l."""
    observations: IntArray
    """By batch: n_l, how often each item is observed in this stage."""
    missing: IntArray
    """By batch: observations that this stage still waits for, over all its items."""
    fresh: IntArray
    """By batch: how many of its items are issued least, and so come next."""
    epoch: FloatArray
    """By batch: a number for this batch in this stage that no other has."""
    uneven: IntArray
    """By batch: 1 once a list was void in this stage, for then some items are issued less than others."""
    issued: IntArray
    """By item: times shown in this stage where that counts."""
    observed: IntArray
    """By item: times the feedback to that came in, n(d)."""
    clicks: IntArray
    """By item: clicks among these, c(d)."""
    earlier_observed: IntArray
    """By item: observations in stages that are over."""
    earlier_clicks: IntArray
    """By item: clicks in stages that are over."""
    upper: FloatArray
    """By item: U(d) at its last test."""
    lower: FloatArray
    """By item: L(d) at its last test."""
    newcomer: IntArray
    """By item: 1 if it came later than others, and may be better than the batches above (see `climb`)."""
    batches: IntArray
    """How many batches were ever made."""
    log_horizon: float
    budget: float
    """delta_T, the budget of the confidence bounds."""
    hoeffding: bool
    eliminate: bool


def init(
    n_items: int,
    n_positions: int,
    *,
    horizon: int,
    bounds: str = "kl",
    eliminate: bool = True,
    variant: str = "printed",
) -> State:
    if horizon < 5:
        raise InputError(f"batchrank needs a horizon of at least 5 steps, found {horizon}")
    state = State(
        items=np.arange(n_items),
        last=np.full(n_positions, -1),
        start=np.zeros(n_positions, np.int64),
        size=np.zeros(n_positions, np.int64),
        number=np.zeros(n_positions, np.int64),
        stage=np.zeros(n_positions, np.int64),
        observations=np.zeros(n_positions, np.int64),
        missing=np.zeros(n_positions, np.int64),
        fresh=np.zeros(n_positions, np.int64),
        epoch=np.zeros(n_positions),
        uneven=np.zeros(n_positions, np.int64),
        issued=np.zeros(n_items, np.int64),
        observed=np.zeros(n_items, np.int64),
        clicks=np.zeros(n_items, np.int64),
        earlier_observed=np.zeros(n_items, np.int64),
        earlier_clicks=np.zeros(n_items, np.int64),
        upper=np.ones(n_items),
        lower=np.zeros(n_items),
        newcomer=np.zeros(n_items, np.int64),
        batches=np.zeros(1, np.int64),
        log_horizon=math.log(horizon),
        budget=math.log(horizon) + 3 * math.log(math.log(horizon)),
        hoeffding=bounds == "hoeffding",
        eliminate=eliminate,
    )
    interpreted(make_batch)(state, 0, n_positions - 1, 0, n_items)
    return state


def memo_size(n_items: int, n_positions: int) -> int:
    """For each position the epoch of its batch, or NOT_COUNTED."""
    return n_positions


@slow_path
def open_stage(state: State, batch: int, stage: int) -> None:
    """Start a stage of a batch with zero counts: n_l = ceil(16 * 4^l * log T)."""
    state.stage[batch] = stage
    state.observations[batch] = math.ceil(16 * 4.0**stage * state.log_horizon)
    if state.size[batch] == 1:  # nothing is left to learn here
        state.observations[batch] = NEVER
    state.missing[batch] = state.size[batch] * state.observations[batch]
    state.epoch[batch] = STAGES * state.number[batch] + stage
    state.uneven[batch] = 0
    for i in range(state.start[batch], state.start[batch] + state.size[batch]):
        item = state.items[i]
        state.earlier_observed[item] += state.observed[item]
        state.earlier_clicks[item] += state.clicks[item]
        state.issued[item] = 0
        state.observed[item] = 0
        state.clicks[item] = 0
    state.fresh[batch] = state.size[batch]


@slow_path
def make_batch(state: State, first: int, last: int, start: int, size: int) -> None:
    state.batches[0] += 1
    state.number[first] = state.batches[0]
    state.last[first] = last
    state.start[first] = start
    state.size[first] = size
    if first == 0:  # there is no batch above
        for i in range(start, start + size):
            state.newcomer[state.items[i]] = 0
    open_stage(state, first, 0)


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    for batch in range(len(ranking)):
        if state.last[batch] >= 0:
            display_batch(state, batch, rng, ranking, memo)


@kernel
def display_batch(
    state: State, batch: int, rng: np.random.Generator, ranking: IntArray, memo: FloatArray
) -> None:
    """The paper's DisplayBatch: the least observed items, in random order, filled up with others at random.

    Goes by the observations that are issued rather than in, so that feedback may come late. When all are issued
    the batch goes on in random order, and nothing counts until the stage's last feedback is in.
    """
    items = state.items
    start = state.start[batch]
    if state.size[batch] == 1:
        ranking[batch] = items[start]
        memo[batch] = NOT_COUNTED
        return
    stop = state.last[batch] + 1
    counts = state.issued[items[start]] < state.observations[batch]
    epoch = state.epoch[batch]
    fresh = state.fresh[batch]
    others = start + fresh
    end = start + state.size[batch]
    for k in range(batch, stop):
        i = draw_index(rng, max(fresh, stop - k))
        if i < fresh:
            fresh -= 1
            i, taken = start + i, start + fresh
        else:
            end -= 1
            i, taken = others + draw_index(rng, end + 1 - others), end
        item = items[i]
        items[i], items[taken] = items[taken], item
        ranking[k] = item
        if counts and taken < others:
            state.issued[item] += 1
            memo[k] = epoch
        else:
            memo[k] = NOT_COUNTED
    if fresh == 0 or not counts:
        fresh = state.size[batch]
    state.fresh[batch] = fresh
    if state.uneven[batch]:
        find_fresh(state, batch)


@slow_path
def find_fresh(state: State, batch: int) -> None:
    """Put the items that are issued least in front."""
    items = state.items
    start = state.start[batch]
    stop = start + state.size[batch]
    least = state.issued[items[start]]
    for i in range(start + 1, stop):
        least = min(least, state.issued[items[i]])
    fresh = start
    for i in range(start, stop):
        if state.issued[items[i]] == least:
            items[i], items[fresh] = items[fresh], items[i]
            fresh += 1
    state.fresh[batch] = fresh - start


def best(state: State, ranking: IntArray) -> None:
    """In each batch the items by their share of clicks, over all stages: there all were shown equally often."""
    observed = np.maximum(state.earlier_observed + state.observed, 1)
    share = (state.earlier_clicks + state.clicks) / observed
    for batch in np.flatnonzero(state.last >= 0):
        items = np.sort(state.items[state.start[batch] : state.start[batch] + state.size[batch]])
        end = state.last[batch] + 1
        ranking[batch:end] = items[np.argsort(-share[items], kind="stable")][: end - batch]


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    over = 0
    for batch in range(len(ranking)):
        if state.last[batch] >= 0:
            over += collect_clicks(state, batch, ranking, clicks, memo)
    if over > 0:
        test(state, len(ranking))


@slow_path
def test(state: State, n_positions: int) -> None:
    """Update the batches whose stage is over."""
    for batch in range(n_positions):
        if state.last[batch] >= 0 and state.missing[batch] == 0:
            update_batch(state, batch)
            climb(state, batch)


@kernel
def collect_clicks(state: State, batch: int, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> bool:
    """The paper's CollectClicks: count the positions that showed a least observed item, in this stage.

    Whether that was all that the stage waited for.
    """
    epoch = state.epoch[batch]
    counted = 0
    for k in range(batch, state.last[batch] + 1):
        if memo[k] == epoch:
            state.observed[ranking[k]] += 1
            state.clicks[ranking[k]] += clicks[k]
            counted += 1
    state.missing[batch] -= counted
    return bool(state.missing[batch] == 0)


@slow_path
def update_batch(state: State, batch: int) -> None:
    """The paper's UpdateBatch: split at the lowest safe place, else go to the next stage without the hopeless."""
    start = state.start[batch]
    size = state.size[batch]
    last = state.last[batch]
    length = last - batch + 1
    items = state.items[start : start + size]
    for item in items:
        n = state.observations[batch]
        state.lower[item], state.upper[item] = interval(
            state.clicks[item] / n, n, state.budget, state.hoeffding
        )
    sort_by_decreasing(state.lower, items)

    split = 0
    highest_below = 0.0
    for above in range(size - 1, 0, -1):
        highest_below = max(highest_below, state.upper[items[above]])
        if split == 0 and above < length and state.lower[items[above - 1]] > highest_below:
            split = above

    if split > 0:
        place_newcomers(state, items, split)
        make_batch(state, batch, batch + split - 1, start, split)
        make_batch(state, batch + split, last, start + split, size - split)
        return
    kept = length
    if state.eliminate:
        for i in range(length, size):
            if state.upper[items[i]] >= state.lower[items[length - 1]]:
                items[i], items[kept] = items[kept], items[i]
                kept += 1
        state.size[batch] = kept
    open_stage(state, batch, state.stage[batch] + 1)


@slow_path
def place_newcomers(state: State, items: IntArray, split: int) -> None:
    """At a split those below an item that is no newcomer are known to be worse than the batches above."""
    for i in range(split):
        if state.newcomer[items[i]] == 0:
            for j in range(split, len(items)):
                state.newcomer[items[j]] = 0
            return


@slow_path
def climb(state: State, batch: int) -> None:
    """Merge a batch of newcomers alone with the batch above it: they may be better than that, too."""
    start, end = state.start[batch], state.start[batch] + state.size[batch]
    for i in range(start, end):
        if state.newcomer[state.items[i]] == 0:
            return
    last, state.last[batch] = state.last[batch], -1
    above = batch - 1
    while state.last[above] < 0:
        above -= 1
    make_batch(state, above, last, state.start[above], end - state.start[above])
    fade(state, state.start[above], state.size[above])


# --- leaps over steps that cannot change the batches --------------------------------------------------------

IN_ROUNDS = True
"""A batch with more items than positions shows each of them once before any of them again."""
IN_PAIRS = False
"""It does not matter which items were clicked together."""


@kernel
def quiet(state: State, n_positions: int) -> int:
    """For how many steps the batches stay as they are; 0 while a batch has shown some items more often than others."""
    steps = NEVER
    for batch in range(n_positions):
        if state.last[batch] >= 0:
            if state.fresh[batch] < state.size[batch]:
                return 0
            length = state.last[batch] - batch + 1
            round_length = -(-state.size[batch] // length)
            steps = min(steps, state.missing[batch] // state.size[batch] * round_length)
    return steps


@kernel
def blocks(state: State, block: IntArray, size: IntArray) -> None:
    """For each position the first one of its batch, and for each of those how many items the batch has."""
    for batch in range(len(block)):
        for k in range(batch, state.last[batch] + 1):
            block[k] = batch
            size[k] = state.size[batch]


@kernel
def member(state: State, batch: int, i: int) -> int:
    """The i-th item of a batch."""
    return int(state.items[state.start[batch] + i])


@kernel
def absorb(state: State, observed: IntArray, clicked: IntArray, together: IntArray) -> None:
    """Learn how often each item was observed and clicked in quiet steps."""
    for batch in range(len(state.last)):
        if state.last[batch] >= 0 and state.size[batch] > 1:
            for i in range(state.start[batch], state.start[batch] + state.size[batch]):
                item = state.items[i]
                state.issued[item] += observed[item]
                state.observed[item] += observed[item]
                state.clicks[item] += clicked[item]
                state.missing[batch] -= observed[item]


# --- void ---------------------------------------------------------------------------------------------------


@kernel
def void(state: State, ranking: IntArray, memo: FloatArray) -> None:
    """The list was never seen: what it would have counted is to be shown again."""
    for batch in range(len(ranking)):
        for k in range(batch, state.last[batch] + 1):
            if memo[k] == state.epoch[batch]:
                state.issued[ranking[k]] -= 1
                state.uneven[batch] = 1
                find_fresh(state, batch)


@dataclass(frozen=True)
class BatchRank(Policy):
    """BatchRank, as printed in the paper or as its figures were run.

    >>> from clickbandit import PositionBasedModel, simulate
    >>> model = PositionBasedModel(attraction=[0.9, 0.6, 0.3], examination=[1, 0.5])
    >>> simulate(BatchRank(), model, positions=2, steps=20_000, seed=1).summary().final_lists
    [[0, 1]]
    """

    paper = "Zoghi et al. 2017"

    variant: Literal["printed", "experiment"] = "printed"
    """The algorithm as printed, or the version behind the paper's figures, with about half the regret."""
    bounds: Literal["kl", "hoeffding"] = "kl"
    """The confidence bounds; with Hoeffding's the regret grows as users examine less."""
    eliminate: bool = True
    """Whether items that cannot belong to the list are dropped; else the regret is quadratic in their number."""

    @property
    def module(self) -> ModuleType:
        return _batchrank_experiment if self.variant == "experiment" else super().module
