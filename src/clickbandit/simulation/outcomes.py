"""What happens in many steps that show the same blocks of items: a template for one click model's law.

It is drawn how often each set of items was shown, and for each set how often each subset of it was clicked. Only the
last block can have more items than positions. Where the policy shows these in rounds, each item once before any of
them again, it is drawn how often each way to part the items among the steps of a round occurred.
"""

from typing import Any

import numpy as np

from clickbandit.clicks._orders import CHOOSE, bits, n_orders
from clickbandit.clicks.cm import CLOSED_FORM, INDEPENDENT_BLOCKS, pattern_law  # law
from clickbandit.kernel import IntArray, slow_path
from clickbandit.simulation.scratch import Scratch


@slow_path
def price(scratch: Scratch) -> float:
    """About how many single steps take as long as a leap: each set that may be shown has a law of its own."""
    n_positions = len(scratch.block)
    positions = n_positions - scratch.block[-1]
    sets = CHOOSE[scratch.size[-1], positions]
    if not CLOSED_FORM:
        return float(sets * n_orders(scratch.block) * 2.0**n_positions)
    return float(sets * 0.2 * 2.0 ** (positions if INDEPENDENT_BLOCKS else n_positions))


# --- how often each set of items was shown ------------------------------------------------------------------


@slow_path
def draw_outcomes(
    params: Any,
    rng: np.random.Generator,
    users: np.random.Generator,
    rounds: int,
    round_length: int,
    in_rounds: bool,
    scratch: Scratch,
) -> None:
    """Draw what happens in so many rounds: how often each item is observed and clicked, and all clicks."""
    scratch.totals[:] = 0.0
    scratch.observed[:] = 0
    scratch.clicked[:] = 0
    block, times = scratch.block, scratch.times
    last = block[-1]
    positions, items = len(block) - last, scratch.size[-1]
    everything = (1 << items) - 1
    nothing = everything ^ everything  # not a literal 0, for which numba would compile another draw_clicks
    if INDEPENDENT_BLOCKS:
        for first in range(last):
            if block[first] == first:
                draw_clicks(params, users, first, nothing, nothing, rounds * round_length, scratch)
    for shown in range(1 << items):
        times[shown] = 0
    if not in_rounds:
        draw_subsets(rng, everything, positions, rounds, times)
    elif items % positions == 0:
        draw_partitions(rng, everything, positions, rounds, scratch)
    else:
        draw_subsets(rng, everything, items % positions, rounds, times)
        for shown in range(1 << items):
            if times[shown] > 0 and bits(shown) == items % positions:
                draw_clicks(params, users, last, shown, everything ^ shown, times[shown], scratch)
                draw_partitions(rng, everything ^ shown, positions, times[shown], scratch)
                times[shown] = 0
    for shown in range(1 << items):
        if times[shown] > 0:
            draw_clicks(params, users, last, shown, nothing, times[shown], scratch)


@slow_path
def draw_subsets(rng: np.random.Generator, among: int, size: int, times: int, out: IntArray) -> None:
    """Add to `out` how often each subset of this size was drawn."""
    choices = CHOOSE[bits(among), size]
    for subset in range(among + 1):
        if times == 0:
            break
        if subset & ~among == 0 and bits(subset) == size:
            drawn = draw_binomial(rng, times, 1 / choices)
            out[subset] += drawn
            times -= drawn
            choices -= 1


@slow_path
def draw_partitions(rng: np.random.Generator, among: int, size: int, times: int, scratch: Scratch) -> None:
    """Add to `scratch.times` how often each part stood in a partition into parts of this size, all equally probable.

    Depth first: the part that holds the lowest item left, then the partitions of the rest.
    """
    rest, left, next_part, choices = scratch.rest, scratch.left, scratch.next_part, scratch.choices
    depth = 0
    rest[0], left[0], next_part[0], choices[0] = among, times, 0, CHOOSE[bits(among) - 1, size - 1]
    while depth >= 0:
        part = next_part[depth]
        lowest = rest[depth] & -rest[depth]
        while part <= rest[depth] and (part & ~rest[depth] != 0 or part & lowest == 0 or bits(part) != size):
            part += 1
        if left[depth] == 0 or part > rest[depth]:
            depth -= 1
            continue
        drawn = draw_binomial(rng, left[depth], 1 / choices[depth])
        left[depth] -= drawn
        choices[depth] -= 1
        next_part[depth] = part + 1
        scratch.times[part] += drawn
        if drawn > 0 and rest[depth] != part:
            depth += 1
            rest[depth] = rest[depth - 1] ^ part
            left[depth], next_part[depth] = drawn, 0
            choices[depth] = CHOOSE[bits(rest[depth]) - 1, size - 1]


# --- how often each subset of them was clicked --------------------------------------------------------------


@slow_path
def draw_clicks(
    params: Any,
    users: np.random.Generator,
    block: int,
    in_last: int,
    in_pool: int,
    times: int,
    scratch: Scratch,
) -> None:
    """So many steps that show the same items: draw how often each of them was clicked.

    In this block and all above it; in this block alone where blocks are independent. The last block's items are a
    set of its own, and where these are too few for its positions, the others are drawn from a pool and not learned
    from. How often each outcome occurred is drawn down a binary tree: node i's children are 2 i and 2 i + 1, a leaf
    is an outcome.
    """
    law, count = scratch.law, scratch.counts
    stop, n_pool = block, 0
    if block == scratch.block[-1]:
        for i in range(scratch.size[-1]):
            if in_last >> i & 1:
                scratch.shown[stop] = scratch.members[i]
                stop += 1
            elif in_pool >> i & 1:
                scratch.pool[n_pool] = scratch.members[i]
                n_pool += 1
    else:
        while scratch.block[stop] == block:
            stop += 1
    first = 0 if not INDEPENDENT_BLOCKS else block
    n = stop - first
    leaves = 1 << n
    while n_pool > 0 and leaves < len(scratch.block) - stop + 1 << n:
        leaves *= 2
    shown, pool = scratch.shown[:stop], scratch.pool[:n_pool]
    pattern_law(
        params, shown, scratch.block, first, pool, law[leaves : 2 * leaves], scratch.work, scratch.spare
    )
    for node in range(leaves - 1, 0, -1):
        law[node] = law[2 * node] + law[2 * node + 1]
    count[1] = times
    for node in range(1, leaves):
        ones = draw_binomial(users, count[node], law[2 * node + 1] / law[node]) if count[node] > 0 else 0
        count[2 * node + 1] = ones
        count[2 * node] = count[node] - ones
    for outcome in range(leaves):
        clicked = bits(outcome & (1 << n) - 1) + (outcome >> n)
        scratch.totals[0] += times * law[leaves + outcome] * clicked
        scratch.totals[1] += count[leaves + outcome] * clicked
    for k in range(first, stop):
        scratch.observed[shown[k]] += times
        for outcome in range(leaves):
            if outcome >> (k - first) & 1:
                scratch.clicked[shown[k]] += count[leaves + outcome]


@slow_path
def draw_binomial(rng: np.random.Generator, n: int, p: float) -> int:
    """How many of n trials succeed; a few trials are made one by one, which is quicker."""
    if p <= 0 or p >= 1:
        return n if p >= 1 else 0
    if n > 16:
        return int(rng.binomial(n, p))
    successes = 0
    for _ in range(n):
        if rng.random() < p:
            successes += 1
    return successes
