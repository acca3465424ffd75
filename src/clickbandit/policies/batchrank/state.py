"""BatchRank's state: its batches, and what was observed of their items. Algorithm 1, lines 1 to 7."""

import math
from typing import NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, slow_path
from clickbandit.errors import InputError
from clickbandit.policies.possible import like, within

NOT_COUNTED = -1.0
"""Stands in the memo for a position whose item was only shown to fill the list."""
NEVER = 1 << 60
"""More observations than any run has."""
MAX_STAGES = 64
"""More stages than a batch can have: stage l takes more than 16 * 4^l steps."""


class State(NamedTuple):
    """A batch is known by its first position I_b(1); arrays by batch have an entry for each position."""

    items: IntArray
    """All items D: each batch holds a run of them, B_b, the least issued first; the eliminated stand last."""
    last: IntArray
    """By batch: its last position I_b(2), -1 where no batch starts."""
    start: IntArray
    """By batch: where its run of items starts."""
    size: IntArray
    """By batch: how many items it has, |B_b|."""
    number: IntArray
    """By batch: its name b in the paper, which counts the batches ever made."""
    stage: IntArray
    """By batch: its stage l_b."""
    observations: IntArray
    """By batch: n_l, how often each item is observed in this stage."""
    missing: IntArray
    """By batch: observations that this stage still waits for, over all its items."""
    fresh: IntArray
    """By batch: how many of its items are issued least, n(d) = n_min, and so come next."""
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
    """By item: 1 if it came later than others, and may be better than the batches above (see `items`)."""
    batches: IntArray
    """How many batches were ever made, b_max."""
    log_horizon: float
    """log T."""
    budget: float
    """delta_T = log T + 3 log log T, the budget of the confidence bounds."""
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
    """Algorithm 1, lines 1 to 7: one batch over all positions and all items, at stage 0."""
    check_horizon(horizon)
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


def check_horizon(horizon: int) -> None:
    if horizon < 5:
        raise InputError(f"batchrank needs a horizon of at least 5 steps, found {horizon}")


def memo_size(n_items: int, n_positions: int) -> int:
    """For each position the epoch of its batch, or NOT_COUNTED."""
    return n_positions


@slow_path
def make_batch(state: State, first: int, last: int, start: int, size: int) -> None:
    """A new batch with positions (first, last) and a run of items, at stage 0."""
    state.batches[0] += 1
    state.number[first] = state.batches[0]
    state.last[first] = last
    state.start[first] = start
    state.size[first] = size
    if first == 0:  # there is no batch above
        for i in range(start, start + size):
            state.newcomer[state.items[i]] = 0
    open_stage(state, first, 0)


@slow_path
def open_stage(state: State, batch: int, stage: int) -> None:
    """Start a stage of a batch with zero counts: n_l = ceil(16 * 4^l * log T)."""
    state.stage[batch] = stage
    state.observations[batch] = math.ceil(math.ldexp(16.0, int(2 * stage)) * state.log_horizon)
    if state.size[batch] == 1:  # nothing is left to learn here
        state.observations[batch] = NEVER
    state.missing[batch] = state.size[batch] * state.observations[batch]
    state.epoch[batch] = MAX_STAGES * state.number[batch] + stage
    state.uneven[batch] = 0
    for i in range(state.start[batch], state.start[batch] + state.size[batch]):
        item = state.items[i]
        state.earlier_observed[item] += state.observed[item]
        state.earlier_clicks[item] += state.clicks[item]
        state.issued[item] = 0
        state.observed[item] = 0
        state.clicks[item] = 0
    state.fresh[batch] = state.size[batch]


# --- what was stored ----------------------------------------------------------------------------------------


def possible(state: State, fresh: State) -> bool:
    """Batches cover the positions, and each has a run of items, at least one for each of its positions."""
    if not (like(state, fresh) and within(state.stage, 0, MAX_STAGES)):
        return False
    position, place = 0, 0
    while position < len(state.last):
        last, start, size = (int(of[position]) for of in (state.last, state.start, state.size))
        fits = last < len(state.last) and place <= start and 0 < last + 1 - position <= size
        if not (
            fits and start + size <= len(state.items) and within(state.last[position + 1 : last + 1], -1, 0)
        ):
            return False
        if not 0 <= state.fresh[position] <= size:
            return False
        position, place = last + 1, start + size
    first = state.items[state.start[0] : state.start[0] + state.size[0]]
    return not state.newcomer[first].any()  # or they would climb to a batch above the first
