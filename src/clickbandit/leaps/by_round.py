"""What is clicked in a round whose last step is filled up, by users who examine positions whatever stands there.

A batch with more items than positions shows each item once in a round. Where the last step has places left, it is
filled up with others of the batch, which are not learned from. Rounds are independent and alike, so it is drawn how
often each outcome of a whole round occurred: a set of clicked items, and a number of clicked fillers. The law of these
is the same until the batch changes.
"""

from typing import Any

import numpy as np

from clickbandit.click_models.patterns import CHANCE, CHOOSE, add_factor, bits
from clickbandit.click_models.pbm import make_exact
from clickbandit.compiling.kernel import kernel, slow_path
from clickbandit.leaps.binomial import draw_counts
from clickbandit.leaps.buffers import MAX_OUTCOMES, Scratch


@kernel
def fits_round(scratch: Scratch) -> bool:
    """Whether a round of the last batch has few enough outcomes to be drawn as a whole."""
    return bool(left_to_fill(scratch) + 1 << scratch.size[-1] <= MAX_OUTCOMES)


@slow_path
def draw_rounds(params: Any, users: np.random.Generator, rounds: int, scratch: Scratch) -> None:
    """Draw how often each item of the last batch was clicked in that many rounds."""
    size, law = scratch.size[-1], scratch.round_law
    n = left_to_fill(scratch) + 1 << size
    if not is_known(scratch):
        find_law(params, scratch)
    draw_counts(users, law[:n], rounds, scratch.round_tail, scratch.round_counts)
    scratch.totals[0] += rounds * scratch.round_mean[0]
    for outcome in range(n):
        times = scratch.round_counts[outcome]
        if times > 0:
            scratch.totals[1] += times * (outcome >> size)
            for k in range(size):
                if outcome >> k & 1:
                    scratch.clicked[scratch.members[k]] += times
                    scratch.totals[1] += times
    for k in range(size):
        scratch.observed[scratch.members[k]] += rounds


@kernel
def is_known(scratch: Scratch) -> bool:
    """Whether the law at hand is that of this batch; remembers the batch, whose law the caller finds if not."""
    size, first, known = scratch.size[-1], scratch.batch[-1], scratch.known
    same = known[0] == size and known[1] == first
    known[0], known[1] = size, first
    for k in range(size):
        same = same and known[k + 2] == scratch.members[k]
        known[k + 2] = scratch.members[k]
    return bool(same)


@slow_path
def find_law(params: Any, scratch: Scratch) -> None:
    """The law of a round: by set of clicked items, and above its bits by how many fillers were clicked.

    First, for each set and number n, how many groups of n clicked fillers there are on average where these items are
    clicked, and maybe others: the product of all their attractions, times the probability that all are where users
    look, which depends on numbers only (`in_sight`). From these follow the probabilities of exactly n fillers and of
    exactly these items.
    """
    size, law, products = scratch.size[-1], scratch.round_law, scratch.round_tail
    everything, fillers = (1 << size) - 1, left_to_fill(scratch)
    find_sights(params, scratch)
    find_products(params, scratch)
    for these in range(1 << size):
        items = bits(these)
        attracted = law[these]
        for n in range(fillers + 1):
            total = 0.0
            for both in range(n + 1):  # fillers that are among these items
                groups = products[these | both << size] * products[everything ^ these | n - both << size]
                total += groups * scratch.in_sight[items, both, n]
            law[these | n << size] = attracted * total
        for exactly in range(fillers + 1):
            for n in range(exactly + 1, fillers + 1):
                sign = 1 - 2 * ((n - exactly) & 1)
                law[these | exactly << size] += sign * CHOOSE[n, exactly] * law[these | n << size]
    make_exact(law, size, fillers + 1 << size)
    scratch.round_mean[0] = 0.0
    for outcome in range(fillers + 1 << size):
        scratch.round_mean[0] += law[outcome] * (bits(outcome & everything) + (outcome >> size))


@slow_path
def find_products(params: Any, scratch: Scratch) -> None:
    """By set of items: the product of their attractions, and the sum of the products of each n of them."""
    size, law, products = scratch.size[-1], scratch.round_law, scratch.round_tail
    fillers = left_to_fill(scratch)
    law[0] = 1.0
    for these in range(1 << size):
        for n in range(fillers + 1):
            products[these | n << size] = 1.0 if n == 0 else 0.0
    for k in range(size):
        a = params.attraction[scratch.members[k]]
        for others in range(1 << k):
            these = others | 1 << k
            law[these] = law[others] * a
            for n in range(1, fillers + 1):
                products[these | n << size] = (
                    products[others | n << size] + products[others | n - 1 << size] * a
                )


@kernel
def left_to_fill(scratch: Scratch) -> int:
    """How many places the last step of a round has for fillers."""
    positions = len(scratch.batch) - scratch.batch[-1]
    return int(positions - scratch.size[-1] % positions)


@slow_path
def find_sights(params: Any, scratch: Scratch) -> None:
    """Fill in how probably `items` items and `n` fillers, of which `both` are among these items, are all examined."""
    size, first, stop = scratch.size[-1], scratch.batch[-1], len(scratch.batch)
    positions = stop - first
    left_over, places = size % positions, size - size % positions
    fillers = positions - left_over
    once, often = scratch.work[: positions + 1], scratch.work[positions + 1 :]
    once[0] = often[0] = 1.0
    for place in range(places):
        if place < positions:
            add_factor(once, place, params.examination[first + place])
        add_factor(often, place, params.examination[first + place % positions])
    for items in range(size + 1):
        for n in range(fillers + 1):
            shown = CHOOSE[places - n, fillers - n] * CHANCE[places, fillers]
            for both in range(n + 1):
                total = 0.0
                for last in range(left_over + 1):  # items that are left over for the last step
                    others = size - items - n + both
                    if last <= items - both and 0 <= left_over - last <= others and items - last <= places:
                        ways = CHOOSE[items - both, last] * CHOOSE[others, left_over - last]
                        seen = often[items - last] * CHANCE[places, items - last]
                        total += ways * seen * once[last + n] * CHANCE[positions, last + n]
                scratch.in_sight[items, both, n] = total * CHANCE[size, left_over] * shown
