"""What Rank1Elim and Rank1ElimKL share: the best pair of an item and a position, by elimination in stages.

Items are the rows of a matrix, positions its columns, and an entry is the probability of a click on that item there.
In the position-based model this matrix has rank 1: the best row is the same in every column. So a row is judged by
its clicks in columns drawn at random, and a column by those of rows drawn at random.

Stage l ends when each row and column that is left was observed n_l = ceil(c 4^l log T) times, counted from the start.
It goes in rounds: a column and a row are drawn, each row left is shown in that column, one list each, and then each
column left is shown that row. What is drawn is any of all columns, those eliminated included, each of which stands
for the one that eliminated it: so the columns drawn only get better. At the end of the stage a row whose upper
confidence bound is below the highest lower bound of all rows is eliminated, and stands for the row with that bound
from then on; and so for columns. When one row and one column are left they are shown for good.

The paper says nothing about the rest of the list. It is filled from the top down with the other items, those with the
highest shares of clicks first, as they were at the end of the last stage; in random order during the first. In the
position-based model that does not touch what is learned, since a click there depends on no other position.

Live, and with late feedback: rows and columns are shown by what was issued, and a stage ends when all of it was
observed. Until then the row and the column with the highest lower bounds are shown, which does not count. A list that
was void is shown again, in the column (with the row) of the round at that time.

Draws of `rank`: at the start of a round the column and then the row, as numbers below K and L; in the first stage then
a shuffle of all items down to the last position, from which the rest of the list is filled.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from clickbandit.bounds import interval
from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.errors import InputError
from clickbandit.policies.common import draw_index, sort_by_decreasing
from clickbandit.policies.possible import like, within

# --- settings and state -------------------------------------------------------------------------------------

NO_LINE = -1
"""In the memo: nothing is observed by this list."""
NEVER = 1 << 60
"""More observations than any run has."""


class State(NamedTuple):
    """Rows and columns are both lines: line i is the row of item i, line L + k the column of position k."""

    issued: IntArray
    """By line: how many lists that observe it were made."""
    observed: IntArray
    """By line: for how many of these the feedback is in."""
    clicks: IntArray
    """By line: clicks among these."""
    stands_in: IntArray
    """By line: the line that is shown in its place; itself until it is eliminated."""
    share: FloatArray
    """By line: its share of clicks at its last test."""
    order: IntArray
    """All items, in the order in which the rest of the list is filled."""
    leaders: IntArray
    """The row and the column with the highest lower bounds at the last test, as item and position."""
    drawn: IntArray
    """The row and the column drawn for this round, as item and position."""
    stage: IntArray
    """The stage l."""
    needed: IntArray
    """n_l, how often each line is observed by the end of this stage."""
    missing: IntArray
    """Observations that this stage still waits for, over all lines."""
    round: IntArray
    """How many rounds were begun, and so how often each line that is left is to be issued."""
    next_line: IntArray
    """All lines before this one were issued in this round."""
    log_horizon: float
    factor: float
    """c, which the length of a stage is a multiple of."""
    budget: float
    """The budget of the confidence bounds."""
    hoeffding: bool


def start(
    n_items: int, n_positions: int, *, name: str, horizon: int, factor: float, hoeffding: bool
) -> State:
    """The first state; Hoeffding's budget makes the bounds the mean +- sqrt(log T / n)."""
    if horizon < 5:
        raise InputError(f"{name} needs a horizon of at least 5 steps, found {horizon}")
    n_lines = n_items + n_positions
    log_horizon = math.log(horizon)
    state = State(
        issued=np.zeros(n_lines, np.int64),
        observed=np.zeros(n_lines, np.int64),
        clicks=np.zeros(n_lines, np.int64),
        stands_in=np.arange(n_lines),
        share=np.zeros(n_lines),
        order=np.arange(n_items),
        leaders=np.zeros(2, np.int64),
        drawn=np.zeros(2, np.int64),
        stage=np.zeros(1, np.int64),
        needed=np.zeros(1, np.int64),
        missing=np.zeros(1, np.int64),
        round=np.zeros(1, np.int64),
        next_line=np.full(1, n_lines),
        log_horizon=log_horizon,
        factor=factor,
        budget=2 * log_horizon if hoeffding else log_horizon + 3 * math.log(log_horizon),
        hoeffding=hoeffding,
    )
    interpreted(open_stage)(state, 0)
    return state


def memo_size(n_items: int, n_positions: int) -> int:
    """The stage, the line that the list observes or NO_LINE, and the position of the pair."""
    return 3


@slow_path
def open_stage(state: State, stage: int) -> None:
    """n_l = ceil(c 4^l log T), unless one row and one column are all that is left."""
    n_left = 0
    for line in range(len(state.issued)):
        n_left += state.stands_in[line] == line
    state.stage[0] = stage
    if n_left == 2:
        state.missing[0] = NEVER
        return
    needed = math.ceil(math.ldexp(state.factor, int(2 * stage)) * state.log_horizon)
    state.missing[0] = n_left * (needed - state.needed[0])
    state.needed[0] = needed


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    n_items = len(state.order)
    line = next_line(state, rng, len(ranking))
    row, column = state.leaders[0], state.leaders[1]
    if 0 <= line < n_items:
        row, column = line, state.drawn[1]
    elif line >= n_items:
        row, column = state.drawn[0], line - n_items
    memo[0], memo[1], memo[2] = state.stage[0], line, column
    if state.stage[0] == 0:
        for k in range(len(ranking)):
            other = k + draw_index(rng, n_items - k)
            state.order[k], state.order[other] = state.order[other], state.order[k]
    fill(state.order, row, column, ranking)


@kernel
def next_line(state: State, rng: np.random.Generator, n_positions: int) -> int:
    """The line that is observed next, or NO_LINE when all that this stage needs was issued."""
    n_lines = len(state.issued)
    for _ in range(2):
        for line in range(state.next_line[0], n_lines):
            if state.stands_in[line] == line and state.issued[line] < state.round[0]:
                state.next_line[0] = line  # once more if lists of this and of an earlier round were void
                state.issued[line] += 1
                return line
        state.next_line[0] = n_lines
        if state.round[0] == state.needed[0]:
            break
        state.round[0] += 1
        state.next_line[0] = 0
        n_items = n_lines - n_positions
        column = state.stands_in[n_items + draw_index(rng, n_positions)] - n_items
        state.drawn[0], state.drawn[1] = state.stands_in[draw_index(rng, n_items)], column
    return NO_LINE


@kernel
def fill(order: IntArray, row: int, column: int, ranking: IntArray) -> None:
    """The pair, and around it the other items in this order."""
    i = 0
    for k in range(len(ranking)):
        if k == column:
            ranking[k] = row
            continue
        if order[i] == row:
            i += 1
        ranking[k] = order[i]
        i += 1


def best(state: State, ranking: IntArray) -> None:
    """The row and the column with the most clicks among those that are left, and the rest by its share of clicks."""
    n_items = len(state.order)
    share = state.clicks / np.maximum(state.observed, 1)
    left = np.where(state.stands_in == np.arange(len(share)), share, -1.0)
    order = np.argsort(-share[:n_items], kind="stable")
    interpreted(fill)(order, int(left[:n_items].argmax()), int(left[n_items:].argmax()), ranking)


def describe(state: State) -> dict[str, Any]:
    items = []
    for item in range(len(state.order)):
        n, clicks = int(state.observed[item]), int(state.clicks[item])
        row: dict[str, Any] = {"item": item, "observed": n, "clicks": clicks}
        if n > 0:
            low, high = interpreted(interval)(clicks / n, n, state.budget, state.hoeffding)
            row |= {"estimate": clicks / n, "low": float(low), "high": float(high)}
        items.append({**row, "eliminated": bool(state.stands_in[item] != item)})
    settled = bool(state.missing[0] >= NEVER)
    return {"items": items, "settled": settled} | (
        {} if settled else {"next_decision": int(state.missing[0])}
    )


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    if memo[1] != NO_LINE and memo[0] == state.stage[0]:
        line = int(memo[1])
        state.observed[line] += 1
        state.clicks[line] += clicks[int(memo[2])]
        state.missing[0] -= 1
        if state.missing[0] == 0:
            end_stage(state)


@slow_path
def end_stage(state: State) -> None:
    n_items, n_lines = len(state.order), len(state.issued)
    state.leaders[0] = eliminate(state, 0, n_items)
    state.leaders[1] = eliminate(state, n_items, n_lines) - n_items
    sort_by_decreasing(state.share[:n_items], state.order)
    open_stage(state, state.stage[0] + 1)


@slow_path
def eliminate(state: State, first: int, end: int) -> int:
    """Eliminate the lines that cannot be the best of these; the one with the highest lower bound.

    All that are left were observed equally often, so that is the one with the most clicks.
    """
    leader = NO_LINE
    for line in range(first, end):
        if state.stands_in[line] == line:
            state.share[line] = state.clicks[line] / state.observed[line]
            if leader == NO_LINE or state.clicks[line] > state.clicks[leader]:
                leader = line
    n = state.observed[leader]
    highest_low, _ = interval(state.share[leader], n, state.budget, state.hoeffding)
    for line in range(first, end):
        if state.stands_in[line] == line:
            _, high = interval(state.share[line], n, state.budget, state.hoeffding)
            if high < highest_low:
                state.stands_in[line] = leader
    # those that stood for a line that is now eliminated
    for line in range(first, end):
        state.stands_in[line] = state.stands_in[state.stands_in[line]]
    return leader


# --- void ---------------------------------------------------------------------------------------------------


@kernel
def void(state: State, ranking: IntArray, memo: FloatArray) -> None:
    """The list was never seen: what it would have observed is to be shown again."""
    if memo[1] != NO_LINE and memo[0] == state.stage[0]:
        line = int(memo[1])
        state.issued[line] -= 1
        state.next_line[0] = min(state.next_line[0], line)


# --- what was stored ----------------------------------------------------------------------------------------


def possible(state: State, fresh: State) -> bool:
    """Lines stand in for themselves, or rows for rows and columns for columns that do."""
    n_items, n_lines = len(state.order), len(state.issued)
    stands_in = state.stands_in
    ends = np.array([n_items, n_lines - n_items])
    return (
        like(state, fresh)
        and within(stands_in[:n_items], 0, n_items)
        and within(stands_in[n_items:], n_items, n_lines)
        and np.array_equal(stands_in[stands_in], stands_in)
        and within(state.leaders, 0)
        and within(state.drawn, 0)
        and bool((state.leaders < ends).all() and (state.drawn < ends).all())
        and within(state.next_line, 0, n_lines + 1)
    )
