"""ClickTS, a page: when to fit, when to draw, what to show, what to count.

Draws of `rank`: where a draw of the law is due, a normal variable for each of its parameters (`fit`), and what to make
of the prior, if there is one (`prior`); then for each
item, in the order of their numbers, whether it is an exception to the prior, where that is trusted, and its attraction
(`draw_beta`); then where items were drawn the same, which hardly
happens, a shuffle of those; then, where there is a guard, what its tests draw (`guard`).
"""

from copy import deepcopy

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.policies.cascading import highest_first, put_highest
from clickbandit.policies.click_ts.change import contradicts, foresee
from clickbandit.policies.click_ts.fit import draw, fit, look_around, unfold
from clickbandit.policies.click_ts.guard import learn_test, maybe_test, obey, set_budget
from clickbandit.policies.click_ts.prior import EXCEPTION_SHAPE
from clickbandit.policies.click_ts.search import n_candidates, search
from clickbandit.policies.click_ts.state import State
from clickbandit.policies.sampling import draw_beta

FIT_AGAIN = 1.02
"""Refit when the number of learned lists has grown by this factor."""
MAX_KEPT = 16
"""A draw is kept for at most this many lists."""
KEPT_AFTER_CHANGE = 100
"""How many lists' worth of evidence is kept when users have changed."""
SEARCHES = 5
"""How many searches `best` makes."""

# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    if state.learned[0] >= state.next_fit[0]:
        learn(state)
        draw(state, rng)
    elif state.since_draw[0] >= min(MAX_KEPT, 1 + state.learned[0] // 64):
        draw(state, rng)
    row = int(state.drawn[0])
    for item in range(len(state.sample)):
        clicks = state.clicks[item]
        unclicked = max(0.0, state.exposure[item] - clicks)
        a, b = state.clicked[item], state.unclicked[item]
        if row >= 0 and rng.random() < state.slab[row, item]:
            a, b = EXCEPTION_SHAPE, max(1.0, state.drawn[1] - EXCEPTION_SHAPE)
        state.sample[item] = draw_beta(rng, a + clicks, b + unclicked)
    if state.for_clicks:
        show_most_clicked(state, ranking)
    else:
        put_highest(state.sample, state.order, rng, ranking)
    memo[0], memo[1] = 0.0, 0.0
    if len(state.wins) > 0:
        obey(state, state.sample, ranking)
        maybe_test(state, rng, ranking, memo)


@slow_path
def learn(state: State) -> None:
    """Fit, after forgetting most of the past if users have changed; then forget what is older than the memory."""
    if contradicts(state):
        shrink(state, KEPT_AFTER_CHANGE)
    fit(state)
    set_budget(state)
    state.next_fit[0] = FIT_AGAIN * state.learned[0]
    if state.memory > 0:
        shrink(state, state.memory)
    foresee(state)


@slow_path
def show_most_clicked(state: State, ranking: IntArray) -> None:
    """The list with the most expected clicks; before there was a list, the search starts from the most attractive."""
    highest_first(state.sample, state.order, max(n_candidates(state), len(ranking)), 0.0)
    if state.last[0] < 0:
        for k in range(len(ranking)):
            state.last[k] = state.order[k]
    search(state, state.sample, state.since_draw[0] == 0)
    for k in range(len(ranking)):
        ranking[k] = state.last[k]


def best(state: State, ranking: IntArray) -> None:
    """By the attraction of the last fit, unless tests contradict it; for clicks, five searches from the last list with
    the fitted law."""
    order = np.argsort(-state.attraction, kind="stable")
    ranking[:] = order[: len(ranking)]
    if len(state.wins) > 0:
        interpreted(obey)(state._replace(order=order), state.attraction, ranking)
    if state.for_clicks:
        state = deepcopy(state)._replace(order=order)
        if state.last[0] < 0:
            state.last[:] = ranking
        interpreted(unfold)(state.x, state.examination, state.carry)
        interpreted(look_around)(state)
        for _ in range(SEARCHES):
            if interpreted(search)(state, state.attraction, True):
                break
        ranking[:] = state.last


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    """Count each display in its cell, and its examination under the drawn law in the item's exposure."""
    r, above = 0, 0  # the last click above: its position, from 1, or 0; and its item
    last_carry = state.look_after.shape[1] - 1
    for k in range(len(ranking)):
        item = ranking[k]
        cell, share = state.cell[k, r], state.share[k]
        clicked = clicks[k]
        state.clicks[item] += clicked
        state.cell_clicks[cell] += share * clicked
        if r == 0:
            state.exposure[item] += state.look[k]
        else:
            state.exposure[item] += state.look_after[k * (k - 1) // 2 + r - 1, min(above, last_carry)]
        if r > 0 and len(state.after) > 0:
            state.carried[item, cell - state.n_fresh, above] += 1
            state.after[above] += clicked
        else:
            state.shown[item, cell] += share
        if share < 1:
            state.shown[item, cell + 1] += 1 - share
            state.cell_clicks[cell + 1] += (1 - share) * clicked
        if clicked:
            r, above = k + 1, item
    if len(state.wins) > 0:
        learn_test(state, ranking, clicks, memo)
    state.learned[0] += 1
    state.since_draw[0] += 1


@slow_path
def shrink(state: State, lists: int) -> None:
    """Shrink all counts to those of `lists` lists, if more were learned from."""
    kept = min(1.0, lists / state.learned[0])
    for item in range(len(state.clicks)):
        state.clicks[item] *= kept
        for c in range(len(state.cell_clicks)):
            state.shown[item, c] *= kept
        for i in range(state.carried.shape[1]):
            for j in range(len(state.after)):
                state.carried[item, i, j] *= kept
        for other in range(len(state.wins)):
            state.wins[item, other] *= kept
    for c in range(len(state.cell_clicks)):
        state.cell_clicks[c] *= kept
    for j in range(len(state.after)):
        state.after[j] *= kept
    for p in range(len(state.gone_slope)):
        state.gone_slope[p] *= kept
        for q in range(len(state.gone_slope)):
            state.gone_precision[p, q] *= kept
    state.learned[0] *= kept
    state.next_fit[0] *= kept
