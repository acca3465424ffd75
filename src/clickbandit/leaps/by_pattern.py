"""What happens in many steps that show the same batches of items: a template for one click model's law.

It is drawn how often each set of items was shown, and for each set how often each subset of it was clicked. Only the
last batch can have more items than positions. Where the policy shows these in rounds, each item once before any of
them again, it is drawn how often each way to part the items among the steps of a round occurred; or, of users who
click the first item that attracts them, how often each pair of items was clicked in the two steps of a round.
"""

import math
from typing import Any

import numpy as np

from clickbandit.click_models.cm import pattern_law  # law
from clickbandit.click_models.patterns import CHOOSE, bits, n_orders
from clickbandit.compiling.kernel import slow_path
from clickbandit.leaps.binomial import draw_binomial, draw_counts, draw_subsets, next_subset
from clickbandit.leaps.buffers import Scratch
from clickbandit.leaps.by_halves import draw_halves, is_in_halves

CLOSED_FORM = True  # law
FIRST_ATTRACTIVE = True  # law
INDEPENDENT_BATCHES = False  # law
IN_ROUNDS = True  # policy


@slow_path
def price(scratch: Scratch) -> float:
    """About how many single steps take as long as a leap: each set that may be shown has a law of its own."""
    n_positions = len(scratch.batch)
    positions = n_positions - scratch.batch[-1]
    items = scratch.size[-1]
    sets = CHOOSE[items, positions]
    if not CLOSED_FORM:
        left_over = items % positions if IN_ROUNDS else 0
        if left_over > 0:
            sets += CHOOSE[items, left_over] * CHOOSE[items - left_over, positions - left_over]
        return math.ldexp(sets * n_orders(scratch.batch), n_positions)
    if FIRST_ATTRACTIVE:
        if IN_ROUNDS and is_in_halves(positions, items):
            return float(2 * items * items * CHOOSE[items, items % positions])
        return float(sets * (n_positions + 1))
    return math.ldexp(sets, int(positions) if INDEPENDENT_BATCHES else n_positions)


# --- how often each set of items was shown ------------------------------------------------------------------


@slow_path
def draw_outcomes(
    params: Any,
    rng: np.random.Generator,
    users: np.random.Generator,
    rounds: int,
    round_length: int,
    scratch: Scratch,
) -> None:
    """Draw what happens in that many rounds: how often each item is observed and clicked, and all clicks."""
    scratch.totals[:] = 0.0
    scratch.observed[:] = 0
    scratch.clicked[:] = 0
    scratch.together[:, :] = 0
    batch, times = scratch.batch, scratch.times
    last = batch[-1]
    positions, items = len(batch) - last, scratch.size[-1]
    everything = (1 << items) - 1
    nothing = everything ^ everything  # not a literal 0, for which numba would compile another draw_clicks
    if INDEPENDENT_BATCHES:
        for first in range(last):
            if batch[first] == first:
                draw_clicks(params, users, first, nothing, nothing, rounds * round_length, scratch)
    for shown in range(1 << items):
        times[shown] = 0
    if not IN_ROUNDS:
        draw_subsets(rng, everything, positions, rounds, times)
    else:
        left_over = items % positions
        draw_subsets(rng, everything, left_over, rounds, times)
        for rest in range(1 << items):
            drawn = times[rest]
            if drawn > 0 and bits(rest) == left_over:
                times[rest] = 0
                if left_over > 0:
                    draw_clicks(params, users, last, rest, everything ^ rest, drawn, scratch)
                if FIRST_ATTRACTIVE and is_in_halves(positions, items):
                    draw_halves(params, users, everything ^ rest, drawn, scratch)
                else:
                    draw_partitions(rng, everything ^ rest, positions, drawn, scratch)
    for shown in range(1 << items):
        if times[shown] > 0:
            draw_clicks(params, users, last, shown, nothing, times[shown], scratch)


@slow_path
def draw_partitions(rng: np.random.Generator, among: int, size: int, times: int, scratch: Scratch) -> None:
    """Add to `scratch.times` how often each part stood in a partition into parts of this size, all equally probable.

    Depth first: the part that holds the lowest item left, then the partitions of the rest.
    """
    rest, left, next_part, choices = scratch.rest, scratch.left, scratch.next_part, scratch.choices
    depth = 0
    rest[0], left[0], next_part[0], choices[0] = among, times, 0, CHOOSE[bits(among) - 1, size - 1]
    while depth >= 0:
        if left[depth] == 0:
            depth -= 1
            continue
        lowest = rest[depth] & -rest[depth]
        part = next_part[depth] | lowest
        while bits(part) != size:
            part = next_subset(part, rest[depth]) | lowest
        drawn = draw_binomial(rng, left[depth], 1 / choices[depth])
        left[depth] -= drawn
        choices[depth] -= 1
        next_part[depth] = next_subset(part, rest[depth])
        scratch.times[part] += drawn
        others = rest[depth] ^ part
        if bits(others) == size:
            scratch.times[others] += drawn
        elif drawn > 0 and others != 0:
            depth += 1
            rest[depth], left[depth], next_part[depth] = others, drawn, 0
            choices[depth] = CHOOSE[bits(others) - 1, size - 1]


# --- how often each subset of them was clicked --------------------------------------------------------------


@slow_path
def draw_clicks(
    params: Any,
    users: np.random.Generator,
    batch: int,
    in_last: int,
    in_pool: int,
    times: int,
    scratch: Scratch,
) -> None:
    """Draw how often each item was clicked in `times` steps that show the same items.

    In this batch and all above it; in this batch alone where batches are independent. The last batch's items are a
    set of its own, and where these are too few for its positions, the others are drawn from a pool and not learned
    from.
    """
    counts = scratch.counts
    in_pairs = len(scratch.together) > 0
    stop, n_pool = batch, 0
    if batch == scratch.batch[-1]:
        for i in range(scratch.size[-1]):
            if in_last >> i & 1:
                scratch.shown[stop] = scratch.members[i]
                stop += 1
            elif in_pool >> i & 1:
                scratch.pool[n_pool] = scratch.members[i]
                n_pool += 1
    else:
        while scratch.batch[stop] == batch:
            stop += 1
    first = 0 if not INDEPENDENT_BATCHES else batch
    n = stop - first
    shown, pool = scratch.shown[:stop], scratch.pool[:n_pool]
    n_outcomes = pattern_law(
        params, shown, scratch.batch, first, pool, scratch.outcomes, scratch.law, scratch.work, scratch.spare
    )
    law = scratch.law[:n_outcomes]
    draw_counts(users, law, times, scratch.tail, counts)
    for i in range(n_outcomes):
        outcome = scratch.outcomes[i]
        clicked = bits(outcome & (1 << n) - 1) + (outcome >> n)
        scratch.totals[0] += times * law[i] * clicked
        scratch.totals[1] += counts[i] * clicked
        for k in range(n):
            if outcome >> k & 1:
                scratch.clicked[shown[first + k]] += counts[i]
                for other in range(k * in_pairs):
                    if outcome >> other & 1:
                        scratch.together[shown[first + k], shown[first + other]] += counts[i]
    for k in range(first, stop):
        scratch.observed[shown[k]] += times
