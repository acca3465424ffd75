"""What is clicked when items are shown in batches, each in random order: the law by which simulations leap.

`enumerate_orders` serves any click model, by going through all orders. A model whose form gives the law away has a
law of its own, with the same arguments.
"""

import math
from typing import Any

import numpy as np

from clickbandit.click_models.contract import Patterns
from clickbandit.click_models.dispatch import kernel_of_params
from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path

CHOOSE = np.array([[math.comb(n, k) for k in range(17)] for n in range(17)], float)
"""How many subsets of k out of n there are, for sets that fit a bit mask."""
CHANCE = 1 / np.maximum(CHOOSE, 1)
"""The probability of each of them, if they are equally probable."""

_log_likelihood = kernel_of_params("log_likelihood")


@slow_path
def enumerate_orders(
    params: Any,
    shown: IntArray,
    batch: IntArray,
    first: int,
    pool: IntArray,
    outcomes: IntArray,
    law: FloatArray,
    work: FloatArray,
    spare: IntArray,
) -> int:
    """Fill in all outcomes, each a set of clicked items as a bit mask over `shown`, and their law; how many there are.

    `batch[k]` is the first position of the batch that holds position k; the items of a batch are in random order.
    With a `pool` the positions that are left in the last batch are filled with items drawn from it, and an outcome
    is the mask and, above its bits, how many of these were clicked. Where batches are independent the mask is that of
    the batch at `first` alone, else `first` is 0. `work` and `spare` are arrays to write to.
    """
    n, n_positions = len(shown), len(batch)
    n_fillers = n_positions - n if len(pool) > 0 else 0
    ranking, clicks = spare[:n_positions], spare[n_positions : 2 * n_positions]
    n_outcomes = n_fillers + 1 << n
    for outcome in range(n_outcomes):
        outcomes[outcome] = outcome
        law[outcome] = 0.0
    orders = n_orders(batch)
    weight = 1 / (orders * CHOOSE[len(pool), n_fillers])
    for fillers in range(1 << len(pool)):
        if bits(fillers) != n_fillers:
            continue
        for order in range(orders):
            for pattern in range(1 << n_positions):
                put_in_order(order, batch, ranking)
                outcome = 0
                for k in range(n_positions):
                    clicks[k] = pattern >> k & 1
                    if clicks[k]:
                        outcome += 1 << min(ranking[k], n)
                    ranking[k] = (
                        shown[ranking[k]] if ranking[k] < n else member(pool, fillers, ranking[k] - n)
                    )
                law[outcome] += weight * math.exp(_log_likelihood(params, ranking, clicks))
    return n_outcomes


ENUMERATED = Patterns(enumerate_orders)


@slow_path
def n_orders(batch: IntArray) -> int:
    """In how many orders the batches can show their items."""
    orders = 1
    for k in range(len(batch)):
        orders *= k + 1 - batch[k]
    return orders


@slow_path
def put_in_order(order: int, batch: IntArray, out: IntArray) -> None:
    """Shuffle the places of each batch: each number of an order gives a different one."""
    for k in range(len(batch)):
        other = batch[k] + order % (k + 1 - batch[k])
        order //= k + 1 - batch[k]
        out[k] = k
        out[k], out[other] = out[other], out[k]


@kernel
def member(items: IntArray, mask: int, n: int) -> int:
    """The n-th of the items in a set."""
    for i in range(len(items)):
        if mask >> i & 1:
            if n == 0:
                return int(items[i])
            n -= 1
    return -1


@kernel
def bits(mask: int) -> int:
    """How many bits of a mask are set."""
    n = 0
    while mask:
        mask &= mask - 1
        n += 1
    return n


@kernel
def add_factor(polynomial: FloatArray, degree: int, x: float) -> None:
    """Multiply a polynomial of this degree by (1 + x z): so its coefficients become symmetric sums of all x."""
    polynomial[degree + 1] = polynomial[degree] * x
    for power in range(degree, 0, -1):
        polynomial[power] += polynomial[power - 1] * x
