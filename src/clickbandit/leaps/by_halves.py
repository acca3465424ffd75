"""What is clicked in rounds of two steps by users who click the first item that attracts them.

A batch with twice as many items as positions shows one half of them in a step and the other half in the next. Which
halves these were need not be drawn: rounds are independent and alike, and each has at most two clicks, so it is drawn
how often each item was clicked alone, and each pair of items together.
"""

from typing import Any

import numpy as np

from clickbandit.click_models.cm import pattern_law
from clickbandit.click_models.patterns import CHANCE
from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.leaps.binomial import draw_binomial, draw_counts
from clickbandit.leaps.buffers import Scratch

PLACES, WEIGHTS = np.zeros((4, 3)), np.zeros((4, 3))
"""By number of nodes: Gauss's quadrature on [0, 1], exact for polynomials of a degree below twice that number."""
for _nodes in range(1, 4):
    _at, _weight = np.polynomial.legendre.leggauss(_nodes)
    PLACES[_nodes, :_nodes], WEIGHTS[_nodes, :_nodes] = (_at + 1) / 2, _weight / 2


@kernel
def is_in_halves(positions: int, items: int) -> bool:
    """Whether a round has two steps without fillers, and few ways to choose what is left over for another one."""
    return bool(items // positions == 2 and items % positions <= 1)


@slow_path
def draw_halves(params: Any, users: np.random.Generator, among: int, rounds: int, scratch: Scratch) -> None:
    """Draw how often each item was clicked by users who click the first one that attracts, in rounds of two steps.

    Each round shows one half of these items of the last batch in its first step, and the other half in its second.
    Users may find what they look for in the batches above, which are the same for all halves.
    """
    law, counts, items = scratch.round_law, scratch.round_counts, scratch.others
    n, above = 0, scratch.batch[-1]
    for i in range(scratch.size[-1]):
        if among >> i & 1:
            items[n] = scratch.members[i]
            scratch.observed[items[n]] += rounds
            n += 1
    pattern_law(
        params,
        scratch.shown[:above],
        scratch.batch,
        0,
        scratch.pool[:0],
        scratch.outcomes,
        scratch.law,
        scratch.work,
        scratch.spare,
    )
    reach = scratch.law[above]
    both = draw_binomial(users, rounds, reach * reach)
    one = draw_binomial(users, rounds - both, 2 * reach / (1 + reach))
    stopped = 2 * (rounds - both) - one
    draw_counts(users, scratch.law[:above], stopped, scratch.tail, scratch.counts)
    for k in range(above):
        scratch.observed[scratch.shown[k]] += 2 * rounds
        scratch.clicked[scratch.shown[k]] += scratch.counts[k]
    n_outcomes = halves_law(params, items[:n], law, scratch.work)
    draw_counts(users, law[:n_outcomes], both, scratch.round_tail, counts)
    alone = scratch.work[: n + 1]  # the law of what is clicked where one of the two users gets so far
    alone[n] = 1.0
    outcome = n + 1
    clicks = 0
    for i in range(n):
        scratch.clicked[items[i]] += counts[1 + i]
        clicks += counts[1 + i]
        alone[i] = law[1 + i] / 2
        for j in range(i):
            scratch.clicked[items[i]] += counts[outcome]
            scratch.clicked[items[j]] += counts[outcome]
            clicks += 2 * counts[outcome]
            alone[i] += law[outcome] / 2
            alone[j] += law[outcome] / 2
            outcome += 1
    mean = 0.0
    for i in range(n):
        mean += alone[i]
    alone[n] -= mean
    draw_counts(users, alone, one, scratch.round_tail, counts)
    for i in range(n):
        scratch.clicked[items[i]] += counts[i]
        clicks += counts[i]
    scratch.totals[0] += 2 * rounds * (1 - reach + reach * mean)
    scratch.totals[1] += clicks + stopped


@slow_path
def halves_law(params: Any, items: IntArray, law: FloatArray, work: FloatArray) -> int:
    """The law of what two users click, if each is shown one half of these items, drawn and put in order at random.

    Fill in the probabilities of no click, of a click on each item alone, and on each pair of items; how many these are.
    An item that attracts is clicked if nothing above it attracts. Give each item a uniform place from 0, the top, to 1:
    another item then stands above a given place with a probability that is the place itself, and what is wanted are
    integrals of polynomials over the place, which Gauss's quadrature gives exactly.
    """
    n, nodes = len(items), (len(items) // 2 + 1) // 2
    law[0] = 1.0
    n_outcomes = n + 1
    for i in range(n):
        a = params.attraction[items[i]]
        law[0] *= 1 - a
        law[1 + i] = 0.0
        for q in range(nodes):
            law[1 + i] += (
                a * WEIGHTS[nodes, q] * unattracted(params, items, i, i, PLACES[nodes, q], 1.0, work)
            )
        for j in range(i):
            total = 0.0
            for q in range(nodes):
                for r in range(q + 1):
                    weight = WEIGHTS[nodes, q] * WEIGHTS[nodes, r] * (1.0 if q == r else 2.0)
                    total += weight * unattracted(
                        params, items, i, j, PLACES[nodes, q], PLACES[nodes, r], work
                    )
            apart = n / 2 / (n - 1)
            law[n_outcomes] = apart * a * params.attraction[items[j]] * total
            n_outcomes += 1
    return n_outcomes


@kernel
def unattracted(
    params: Any, items: IntArray, i: int, j: int, place: float, other_place: float, work: FloatArray
) -> float:
    """The mean probability that nothing attracts above the place in the half with i, and the other place in the other.

    Over all ways to part the items with i and j in different halves; i and j themselves do not count. If the places are
    the same all ways are; else the sum over them is a coefficient of a product with a factor for each item.
    """
    same = place == other_place
    most = 0 if same else len(items) // 2 - 1  # items besides i in its half
    for k in range(1, most + 1):
        work[k] = 0.0
    work[0] = 1.0
    n = 0
    for d in range(len(items)):
        if d != i and d != j:
            a = params.attraction[items[d]]
            here, there = 1 - a * place, 1 - a * other_place
            for k in range(most, 0, -1):
                work[k] = work[k] * there + work[k - 1] * here
            work[0] *= there
            n += 1
    return float(work[most] * CHANCE[n, most])
