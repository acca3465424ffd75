"""BatchRank as the paper's figures were run: `BatchRank(variant="experiment")`.

Items are in ordered batches; each batch is shuffled at every step and the first K items of all are shown and
observed, every time. A batch is tested when each of its items was observed log(L T) / delta^2 times: items that
cannot reach the list are dropped, and the batch is cut at every place where that is safe. Counts start over only
when something changed; otherwise delta halves and they are kept, which is what makes it better than the printed
version (about half the regret).

Draws of `rank`: for each shown position, which of its batch's items that are left comes next.
"""

import math
from typing import NamedTuple

import numpy as np

from clickbandit.bounds import interval
from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.policies.batchrank.items import fade
from clickbandit.policies.batchrank.state import check_horizon
from clickbandit.policies.common import draw_index, sort_by_decreasing
from clickbandit.policies.contract import Algorithm

# --- settings and state -------------------------------------------------------------------------------------


class State(NamedTuple):
    """A batch is known by the place of its first item; arrays by batch have an entry for each place."""

    items: IntArray
    """The items by batch, the dropped ones last."""
    batch: IntArray
    """By place: the batch of the item there, -1 where only dropped items stand."""
    end: IntArray
    """By batch: the place after its last item."""
    halvings: IntArray
    """By batch: how often delta was halved."""
    needed: IntArray
    """By batch: observations of each item before the next test."""
    lacking: IntArray
    """By batch: items that were observed less often than that."""
    version: IntArray
    """By batch: a number that no batch before had."""
    observed: IntArray
    """By item: n(d) since its batch was made."""
    clicks: IntArray
    """By item: c(d) since its batch was made."""
    earlier_observed: IntArray
    """By item: observations in batches that are gone."""
    earlier_clicks: IntArray
    """By item: clicks in batches that are gone."""
    upper: FloatArray
    """By item: the upper bound at its last test."""
    lower: FloatArray
    """By item: the lower bound at its last test."""
    newcomer: IntArray
    """By item: 1 if it came later than others, and may be better than the batches above (see `climb`)."""
    batches: IntArray
    """How many batches were ever made."""
    budget: float
    """log(L T), the budget of the confidence bounds."""
    hoeffding: bool
    eliminate: bool
    n_positions: int


def init(
    n_items: int,
    n_positions: int,
    *,
    horizon: int,
    bounds: str = "kl",
    eliminate: bool = True,
    variant: str = "experiment",
) -> State:
    check_horizon(horizon)
    state = State(
        items=np.arange(n_items),
        batch=np.zeros(n_items, np.int64),
        end=np.zeros(n_items, np.int64),
        halvings=np.zeros(n_items, np.int64),
        needed=np.zeros(n_items, np.int64),
        lacking=np.zeros(n_items, np.int64),
        version=np.zeros(n_items, np.int64),
        observed=np.zeros(n_items, np.int64),
        clicks=np.zeros(n_items, np.int64),
        earlier_observed=np.zeros(n_items, np.int64),
        earlier_clicks=np.zeros(n_items, np.int64),
        upper=np.ones(n_items),
        lower=np.zeros(n_items),
        newcomer=np.zeros(n_items, np.int64),
        batches=np.zeros(1, np.int64),
        budget=math.log(n_items * horizon),
        hoeffding=bounds == "hoeffding",
        eliminate=eliminate,
        n_positions=n_positions,
    )
    interpreted(make_batch)(state, 0, n_items)
    return state


def memo_size(n_items: int, n_positions: int) -> int:
    """For each position the version of its batch."""
    return n_positions


@slow_path
def make_batch(state: State, start: int, end: int) -> None:
    state.batches[0] += 1
    state.version[start] = state.batches[0]
    state.end[start] = end
    for i in range(start, end):
        item = state.items[i]
        state.batch[i] = start
        state.earlier_observed[item] += state.observed[item]
        state.earlier_clicks[item] += state.clicks[item]
        state.observed[item] = 0
        state.clicks[item] = 0
        if start == 0:  # there is no batch above
            state.newcomer[item] = 0
    expect(state, start, 1)


@slow_path
def expect(state: State, batch: int, halvings: int) -> None:
    """Set when a batch is tested next: after log(L T) / delta^2 observations, with delta = 2^-halvings."""
    state.halvings[batch] = halvings
    state.needed[batch] = math.ceil(math.ldexp(state.budget, int(2 * halvings)))
    state.lacking[batch] = 0
    for i in range(batch, state.end[batch]):
        if state.observed[state.items[i]] < state.needed[batch]:
            state.lacking[batch] += 1


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    items = state.items
    for k in range(len(ranking)):
        batch = state.batch[k]
        other = k + draw_index(rng, state.end[batch] - k)
        items[k], items[other] = items[other], items[k]
        ranking[k] = items[k]
        memo[k] = state.version[batch]


def best(state: State, ranking: IntArray) -> None:
    """In each batch the items by their share of clicks, since all of them were shown equally often."""
    observed = np.maximum(state.earlier_observed + state.observed, 1)
    share = (state.earlier_clicks + state.clicks) / observed
    for batch in set(state.batch[: len(ranking)].tolist()):
        items = np.sort(state.items[batch : state.end[batch]])
        end = min(state.end[batch], len(ranking))
        ranking[batch:end] = items[np.argsort(-share[items], kind="stable")][: end - batch]


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    for k in range(len(ranking)):
        batch = state.batch[k]
        if memo[k] == state.version[batch]:
            item = ranking[k]
            state.observed[item] += 1
            state.clicks[item] += clicks[k]
            if state.observed[item] == state.needed[batch]:
                state.lacking[batch] -= 1
    test(state, len(ranking))


@kernel
def test(state: State, n_positions: int) -> None:
    """Test the batches in which every item was observed often enough."""
    for batch in range(n_positions):
        if state.batch[batch] == batch and state.lacking[batch] == 0 and state.end[batch] > batch + 1:
            cut_batch(state, batch, n_positions)


@slow_path
def cut_batch(state: State, batch: int, n_positions: int) -> None:
    """Drop what cannot be shown, cut wherever it is safe, and start over; or go on with a smaller delta."""
    end = state.end[batch]
    items = state.items[batch:end]
    for item in items:
        n = state.observed[item]
        state.lower[item], state.upper[item] = interval(
            state.clicks[item] / n, n, state.budget, state.hoeffding
        )
    sort_by_decreasing(state.lower, items)

    kept = len(items)
    if state.eliminate and end > n_positions:
        at_last = state.lower[items[n_positions - 1 - batch]]
        kept = n_positions - batch
        for i in range(kept, len(items)):
            if state.upper[items[i]] >= at_last:
                items[i], items[kept] = items[kept], items[i]
                kept += 1
        state.batch[batch + kept : end] = -1

    changed = kept < len(items)
    highest_below = 0.0
    part_end = batch + kept
    for place in range(batch + kept - 1, batch, -1):
        highest_below = max(highest_below, state.upper[state.items[place]])
        if place < n_positions and state.lower[state.items[place - 1]] > highest_below:
            make_batch(state, place, part_end)
            part_end = place
            changed = True
    if changed:
        make_batch(state, batch, part_end)
        climb(state, batch, batch + kept)
    else:
        expect(state, batch, state.halvings[batch] + 1)


@slow_path
def climb(state: State, batch: int, end: int) -> None:
    """After a batch was cut: newcomers alone join the batch above; those below an established item are settled."""
    top = state.end[batch]
    old = batch
    while old < end and state.newcomer[state.items[old]] == 1:
        old += 1
    if old < end:
        for place in range(state.end[state.batch[old]], end):
            state.newcomer[state.items[place]] = 0
    if old >= top:
        above = state.batch[batch - 1]
        make_batch(state, above, top)
        fade(state, above, top - above)


ALGORITHM = Algorithm(init, memo_size, rank, update, best)
