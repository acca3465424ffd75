"""BatchRank as the paper's figures were run: `BatchRank(variant="experiment")`.

Items are in ordered groups; each group is shuffled at every step and the first K items of all are shown and
observed, every time. A group is tested when each of its items was observed log(L T) / delta^2 times: items that
cannot reach the list are dropped, and the group is cut at every place where that is safe. Counts start anew only
when something changed; otherwise delta halves and they are kept, which is what makes it better than the printed
version (about half the regret).

Draws of `rank`: for each shown position, which of its group's items that are left comes next.
"""

import math
from typing import NamedTuple

import numpy as np

from clickbandit.bounds import interval
from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.errors import InputError
from clickbandit.policies._batchrank_experiment_live import admit as admit
from clickbandit.policies._batchrank_experiment_live import describe as describe
from clickbandit.policies._batchrank_experiment_live import propensity as propensity
from clickbandit.policies._batchrank_experiment_live import retire as retire
from clickbandit.policies._batchrank_live import fade
from clickbandit.policies.common import draw_index, sort_by_decreasing

# --- settings and state -------------------------------------------------------------------------------------


class State(NamedTuple):
    """A group is known by the place of its first item; arrays by group have an entry for each place."""

    items: IntArray
    """The items by group, the dropped ones last."""
    group: IntArray
    """By place: the group of the item there, -1 where only dropped items stand."""
    end: IntArray
    """By group: the place after its last item."""
    halvings: IntArray
    """By group: how often delta was halved."""
    needed: IntArray
    """By group: observations of each item before the next test."""
    lacking: IntArray
    """By group: items that were observed less often than that."""
    version: IntArray
    """By group: a number that no group before had."""
    observed: IntArray
    """By item: n(d) since its group was made."""
    clicks: IntArray
    """By item: c(d) since its group was made."""
    earlier_observed: IntArray
    """By item: observations in groups that are gone."""
    earlier_clicks: IntArray
    """By item: clicks in groups that are gone."""
    upper: FloatArray
    """By item: the upper bound at its last test."""
    lower: FloatArray
    """By item: the lower bound at its last test."""
    newcomer: IntArray
    """By item: 1 if it came later than others, and may be better than the groups above (see `climb`)."""
    groups: IntArray
    """How many groups were ever made."""
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
    if horizon < 5:
        raise InputError(f"batchrank needs a horizon of at least 5 steps, found {horizon}")
    state = State(
        items=np.arange(n_items),
        group=np.zeros(n_items, np.int64),
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
        groups=np.zeros(1, np.int64),
        budget=math.log(n_items * horizon),
        hoeffding=bounds == "hoeffding",
        eliminate=eliminate,
        n_positions=n_positions,
    )
    interpreted(make_group)(state, 0, n_items)
    return state


def memo_size(n_items: int, n_positions: int) -> int:
    """For each position the version of its group."""
    return n_positions


@slow_path
def make_group(state: State, start: int, end: int) -> None:
    state.groups[0] += 1
    state.version[start] = state.groups[0]
    state.end[start] = end
    for i in range(start, end):
        item = state.items[i]
        state.group[i] = start
        state.earlier_observed[item] += state.observed[item]
        state.earlier_clicks[item] += state.clicks[item]
        state.observed[item] = 0
        state.clicks[item] = 0
        if start == 0:  # there is no group above
            state.newcomer[item] = 0
    expect(state, start, 1)


@slow_path
def expect(state: State, group: int, halvings: int) -> None:
    """Set when a group is tested next: after log(L T) / delta^2 observations, with delta = 2^-halvings."""
    state.halvings[group] = halvings
    state.needed[group] = math.ceil(state.budget * 4.0**halvings)
    state.lacking[group] = 0
    for i in range(group, state.end[group]):
        if state.observed[state.items[i]] < state.needed[group]:
            state.lacking[group] += 1


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    items = state.items
    for k in range(len(ranking)):
        group = state.group[k]
        other = k + draw_index(rng, state.end[group] - k)
        items[k], items[other] = items[other], items[k]
        ranking[k] = items[k]
        memo[k] = state.version[group]


def best(state: State, ranking: IntArray) -> None:
    """In each group the items by their share of clicks, since all of them were shown equally often."""
    observed = np.maximum(state.earlier_observed + state.observed, 1)
    share = (state.earlier_clicks + state.clicks) / observed
    for group in set(state.group[: len(ranking)].tolist()):
        items = np.sort(state.items[group : state.end[group]])
        end = min(state.end[group], len(ranking))
        ranking[group:end] = items[np.argsort(-share[items], kind="stable")][: end - group]


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    for k in range(len(ranking)):
        group = state.group[k]
        if memo[k] == state.version[group]:
            item = ranking[k]
            state.observed[item] += 1
            state.clicks[item] += clicks[k]
            if state.observed[item] == state.needed[group]:
                state.lacking[group] -= 1
    test(state, len(ranking))


@kernel
def test(state: State, n_positions: int) -> None:
    """Test the groups in which every item was observed often enough."""
    for group in range(n_positions):
        if state.group[group] == group and state.lacking[group] == 0 and state.end[group] > group + 1:
            cut_group(state, group, n_positions)


@slow_path
def cut_group(state: State, group: int, n_positions: int) -> None:
    """Drop what cannot be shown, cut wherever it is safe, and start anew; or go on with a smaller delta."""
    end = state.end[group]
    items = state.items[group:end]
    for item in items:
        n = state.observed[item]
        state.lower[item], state.upper[item] = interval(
            state.clicks[item] / n, n, state.budget, state.hoeffding
        )
    sort_by_decreasing(state.lower, items)

    kept = len(items)
    if state.eliminate and end > n_positions:
        at_last = state.lower[items[n_positions - 1 - group]]
        kept = n_positions - group
        for i in range(kept, len(items)):
            if state.upper[items[i]] >= at_last:
                items[i], items[kept] = items[kept], items[i]
                kept += 1
        state.group[group + kept : end] = -1

    changed = kept < len(items)
    highest_below = 0.0
    part_end = group + kept
    for place in range(group + kept - 1, group, -1):
        highest_below = max(highest_below, state.upper[state.items[place]])
        if place < n_positions and state.lower[state.items[place - 1]] > highest_below:
            make_group(state, place, part_end)
            part_end = place
            changed = True
    if changed:
        make_group(state, group, part_end)
        climb(state, group, group + kept)
    else:
        expect(state, group, state.halvings[group] + 1)


@slow_path
def climb(state: State, group: int, end: int) -> None:
    """After a group was cut: newcomers alone join the group above; those below an item that is none are in place."""
    top = state.end[group]
    old = group
    while old < end and state.newcomer[state.items[old]] == 1:
        old += 1
    if old < end:
        for place in range(state.end[state.group[old]], end):
            state.newcomer[state.items[place]] = 0
    if old >= top:
        above = state.group[group - 1]
        make_group(state, above, top)
        fade(state, above, top - above)


# --- leaps over steps that cannot change the groups ---------------------------------------------------------

IN_ROUNDS = False
"""A group with more items than positions shows some of them at random at each step."""
IN_PAIRS = False
"""It does not matter which items were clicked together."""
_MOST_STEPS = 1 << 62


@kernel
def quiet(state: State, n_positions: int) -> int:
    """For how many steps no group can be tested: an item is observed at most once a step."""
    steps = _MOST_STEPS
    for group in range(n_positions):
        if state.group[group] == group and state.end[group] > group + 1:
            least = _MOST_STEPS
            for i in range(group, state.end[group]):
                least = min(least, state.observed[state.items[i]])
            steps = min(steps, state.needed[group] - least)
    return steps


@kernel
def blocks(state: State, block: IntArray, size: IntArray) -> None:
    """For each position the first one of its group, and how many items that has."""
    for k in range(len(block)):
        block[k] = state.group[k]
        size[k] = state.end[block[k]] - block[k]


@kernel
def member(state: State, group: int, i: int) -> int:
    """The i-th item of a group."""
    return int(state.items[group + i])


@kernel
def absorb(state: State, observed: IntArray, clicked: IntArray, together: IntArray) -> None:
    """Learn how often each item was observed and clicked in quiet steps."""
    for place in range(len(state.items)):
        item, group = state.items[place], state.group[place]
        if observed[item] > 0:
            before = state.observed[item]
            state.observed[item] += observed[item]
            state.clicks[item] += clicked[item]
            if before < state.needed[group] <= state.observed[item]:
                state.lacking[group] -= 1
