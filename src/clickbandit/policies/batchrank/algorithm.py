"""BatchRank alongside the paper: Algorithms 1 to 4 of Zoghi et al. 2017, with their line numbers.

A step shows every batch (`rank`: DisplayBatch), and its clicks are collected and the batches updated (`update`:
CollectClicks, UpdateBatch). What the paper calls n(d) while a list is made is `issued` here and `observed` once the
clicks are in, so that feedback may come late; when it comes at once they are the same.

Draws of `rank`, batch by batch and position by position: which of the least observed items comes next, or, where
too few of them are left, first whether one of them comes next and if not which other item of the batch.
"""

import numpy as np

from clickbandit.bounds import interval
from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.policies.batchrank.items import climb, place_newcomers
from clickbandit.policies.batchrank.late import find_fresh
from clickbandit.policies.batchrank.state import NOT_COUNTED, State, make_batch, open_stage
from clickbandit.policies.common import draw_index, sort_by_decreasing

# --- Algorithm 1, lines 8 to 10 -----------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    for batch in range(len(ranking)):
        if state.last[batch] >= 0:
            display_batch(state, batch, rng, ranking, memo)


# --- Algorithm 2: DisplayBatch ------------------------------------------------------------------------------


@kernel
def display_batch(
    state: State, batch: int, rng: np.random.Generator, ranking: IntArray, memo: FloatArray
) -> None:
    """The least observed items, in random order, filled up with others of the batch at random.

    Once all n_l are issued the batch goes on in random order, and nothing counts until the last feedback is in.
    """
    items = state.items
    start = state.start[batch]
    if state.size[batch] == 1:
        ranking[batch] = items[start]
        memo[batch] = NOT_COUNTED
        return
    # line 2: the items with n(d) = n_min stand first
    stop = state.last[batch] + 1
    counts = state.issued[items[start]] < state.observations[batch]
    epoch = state.epoch[batch]
    fresh = state.fresh[batch]
    others = start + fresh
    end = start + state.size[batch]
    # lines 3 to 6: both permutations are drawn at once, position by position
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


def best(state: State, ranking: IntArray) -> None:
    """In each batch the items by their share of clicks, over all stages: there all were shown equally often."""
    observed = np.maximum(state.earlier_observed + state.observed, 1)
    share = (state.earlier_clicks + state.clicks) / observed
    for batch in np.flatnonzero(state.last >= 0):
        items = np.sort(state.items[state.start[batch] : state.start[batch] + state.size[batch]])
        end = state.last[batch] + 1
        ranking[batch:end] = items[np.argsort(-share[items], kind="stable")][: end - batch]


# --- Algorithm 1, lines 11 to 14 ----------------------------------------------------------------------------


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
    """Update the batches whose stage is over (line 4 of Algorithm 4)."""
    for batch in range(n_positions):
        if state.last[batch] >= 0 and state.missing[batch] == 0:
            update_batch(state, batch)
            climb(state, batch)


# --- Algorithm 3: CollectClicks -----------------------------------------------------------------------------


@kernel
def collect_clicks(state: State, batch: int, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> bool:
    """Count the positions that showed a least observed item in this stage; whether that was all it waited for."""
    epoch = state.epoch[batch]
    counted = 0
    for k in range(batch, state.last[batch] + 1):  # lines 3 and 4
        if memo[k] == epoch:
            state.clicks[ranking[k]] += clicks[k]  # line 5
            state.observed[ranking[k]] += 1  # line 6
            counted += 1
    state.missing[batch] -= counted
    return bool(state.missing[batch] == 0)


# --- Algorithm 4: UpdateBatch -------------------------------------------------------------------------------


@slow_path
def update_batch(state: State, batch: int) -> None:
    """Split at the lowest safe place, else go to the next stage without the items that cannot belong here."""
    start = state.start[batch]
    size = state.size[batch]
    last = state.last[batch]
    length = last - batch + 1
    items = state.items[start : start + size]
    # lines 5 to 7: the bounds U(d) and L(d), and the items by decreasing L(d)
    for item in items:
        n = state.observations[batch]
        state.lower[item], state.upper[item] = interval(
            state.clicks[item] / n, n, state.budget, state.hoeffding
        )
    sort_by_decreasing(state.lower, items)

    # lines 8 to 15: the highest s with L(d_s) > max U(d) over the items below
    split = 0
    highest_below = 0.0
    for above in range(size - 1, 0, -1):
        highest_below = max(highest_below, state.upper[items[above]])
        if split == 0 and above < length and state.lower[items[above - 1]] > highest_below:
            split = above

    # lines 20 to 27: split
    if split > 0:
        place_newcomers(state, items, split)
        make_batch(state, batch, batch + split - 1, start, split)
        make_batch(state, batch + split, last, start + split, size - split)
        return
    # lines 16 to 19: the next stage, always (see the package's docstring)
    kept = length
    if state.eliminate:
        for i in range(length, size):
            if state.upper[items[i]] >= state.lower[items[length - 1]]:
                items[i], items[kept] = items[kept], items[i]
                kept += 1
        state.size[batch] = kept
    open_stage(state, batch, state.stage[batch] + 1)
