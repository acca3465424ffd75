"""What happens in many steps that show the same batches of items, to users who examine positions whatever stands there.

Such users examine some positions of a batch first, and as the batch is shuffled, the items there are a random subset of
those shown. So it need not be drawn which sets were shown: item after item it is drawn in how many steps it was shown,
in how many of these where a user looked, and in how many of those it was clicked. These are a few dozen draws, where
`outcomes` needs some for every set and every subset of it. Only for the last step of a round, which is filled up with
items that are not learned from, it is drawn as there.
"""

from typing import Any

import numpy as np

from clickbandit.click_models.patterns import CHOOSE
from clickbandit.compiling.kernel import FloatArray, IntArray, slow_path
from clickbandit.leaps.binomial import draw_binomial, draw_counts, draw_subsets
from clickbandit.leaps.buffers import Scratch
from clickbandit.leaps.by_pattern import draw_clicks  # outcomes
from clickbandit.leaps.by_round import draw_rounds, fits_round

IN_ROUNDS = True  # policy
MIN_DRAWN_BY_ITEM = 4
"""In a batch of at least this many items there are more sets of clicked items than draws are needed here."""


@slow_path
def price(scratch: Scratch) -> float:
    """About how many single steps take as long as a leap."""
    positions, items = len(scratch.batch) - scratch.batch[-1], scratch.size[-1]
    sets = CHOOSE[items, items % positions] if IN_ROUNDS else 1.0
    return float(len(scratch.batch) * len(scratch.batch) + sets * 0.5 * items * items)


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
    batch, size, times = scratch.batch, scratch.size[-1], scratch.times
    first, last, stop = 0, batch[-1], len(batch)
    everything = (1 << size) - 1
    nothing = everything ^ everything  # not a literal 0, for which numba would compile another draw_clicks
    for end in range(1, last + 1):
        if batch[end] == end:
            items = scratch.shown[first:end]
            if 1 < len(items) < MIN_DRAWN_BY_ITEM:
                draw_clicks(params, users, first, nothing, nothing, rounds * round_length, scratch)
            else:
                draw_batch(params, rng, users, items, (first, end, 1), rounds * round_length, scratch)
            first = end
    members = scratch.members[:size]
    filled, left_over = size // (stop - last), size % (stop - last)
    if 1 < size == stop - last and size < MIN_DRAWN_BY_ITEM:
        draw_clicks(params, users, last, everything, nothing, rounds, scratch)
        return
    if not IN_ROUNDS or left_over == 0:
        places = (last, stop, filled if IN_ROUNDS else 1)
        draw_batch(params, rng, users, members, places, rounds, scratch)
        return
    if fits_round(scratch):
        draw_rounds(params, users, rounds, scratch)
        return
    for these in range(1 << size):
        times[these] = 0
    draw_subsets(rng, everything, left_over, rounds, times)
    for these in range(1 << size):
        if times[these] > 0:
            draw_clicks(params, users, last, these, everything ^ these, times[these], scratch)
            others = scratch.others[: size - left_over]
            n = 0
            for i in range(size):
                if not these >> i & 1:
                    others[n] = members[i]
                    n += 1
            draw_batch(params, rng, users, others, (last, stop, filled), times[these], scratch)


@slow_path
def draw_batch(
    params: Any,
    rng: np.random.Generator,
    users: np.random.Generator,
    items: IntArray,
    positions: tuple[int, int, int],
    times: int,
    scratch: Scratch,
) -> None:
    """Draw how often each item was shown and clicked when items were put at random on some positions that often.

    The positions are the first, the one after the last, and how often each of them was filled.
    """
    steps = scratch.steps
    first, stop, repeats = positions
    places = (stop - first) * repeats
    if stop - first == 1 and places == len(items):  # each item is shown once, always at the same position
        for item in items:
            probability = params.examination[first] * params.attraction[item]
            clicked = draw_binomial(users, times, probability)
            scratch.observed[item] += times
            scratch.clicked[item] += clicked
            scratch.totals[0] += times * probability
            scratch.totals[1] += clicked
        return
    for free in range(places + 1):
        for looked_at in range(free + 1):
            steps[free, looked_at] = 0
    mean_examination = count_examined(params, users, positions, times, scratch.work, steps[places])
    for i in range(len(items)):
        left = len(items) - i
        shown, looked_at = 0, 0
        for free in range(max(1, places - i), min(places, left) + 1):
            for looked in range(free + 1):
                if steps[free, looked] > 0:
                    here = draw_binomial(rng, steps[free, looked], free / left)
                    seen = draw_binomial(users, here, looked / free)
                    steps[free, looked] -= here
                    steps[free - 1, looked] += here - seen
                    steps[free - 1, max(looked - 1, 0)] += seen
                    shown += here
                    looked_at += seen
        attraction = params.attraction[items[i]]
        clicked = draw_binomial(users, looked_at, attraction)
        scratch.observed[items[i]] += shown
        scratch.clicked[items[i]] += clicked
        scratch.totals[0] += times * places / len(items) * mean_examination * attraction
        scratch.totals[1] += clicked


@slow_path
def count_examined(
    params: Any,
    users: np.random.Generator,
    positions: tuple[int, int, int],
    times: int,
    work: FloatArray,
    out: IntArray,
) -> float:
    """Draw how often each number of places was examined; the mean probability that a place is."""
    first, stop, repeats = positions
    places = (stop - first) * repeats
    law = work[: places + 1]
    law[0] = 1.0
    total = 0.0
    for place in range(places):
        examined = params.examination[first + place % (stop - first)]
        total += examined
        law[place + 1] = law[place] * examined
        for n in range(place, 0, -1):
            law[n] += (law[n - 1] - law[n]) * examined
        law[0] *= 1 - examined
    draw_counts(users, law, times, work[places + 1 :], out)
    return total / places
