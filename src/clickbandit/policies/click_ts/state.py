"""ClickTS's state: what was counted, the law that was fitted to it, and the draw that lists are made by.

The law has a cell for each position k with no click above, and for each (k, r), the last click above at position r.
Where that would take too much memory or time, cells share (`cells`).
"""

from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.errors import InputError
from clickbandit.policies.click_ts.cells import arrange, has_carry

PRIOR_CLICKS, PRIOR_EXPOSURE = 1.0, 2.0
"""Where nothing is known of it, an item's attraction a[d] has the prior Gamma(1, 2): before the first list each counts
as clicked once when examined twice. `rank` draws it from Beta(1, 1), which has the same mean and bounds."""
LOG_EXAMINATION = -0.3
"""The prior mean of every log e."""
FRESH_VARIANCE, LATER_VARIANCE = 2.0, 50.0
"""The prior variances of log e[k] and of log e[k,r], which is minus infinity in the cascade model."""
FIRST_CARRY_VARIANCE = 0.25
"""tau^2, the prior variance of log s, before the first fit."""

MAX_GUARDED = 200
"""With more items than these there is no guard, since it takes a table of all pairs."""


class State(NamedTuple):
    """Sizes: L items, K positions, C cells, P parameters: log e of all cells but the first, then log s of all items.

    Where cells share there is no carry, and the arrays by the item of the last click above are empty.
    """

    shown: FloatArray
    """By item and cell: times shown, fresh[d,k]; after a click only where the carry is not learned."""
    carried: FloatArray
    """By item, cell after a click, and item j of that click: times shown, later[d,(k,r),j]."""
    clicks: FloatArray
    """By item: clicks[d]."""
    cell_clicks: FloatArray
    """By cell: clicks[c]."""
    after: FloatArray
    """By item: clicks for which it was the last click above, after[j]."""
    learned: FloatArray
    """How many lists were learned from, "now"."""
    next_fit: FloatArray
    """At how many of them the next fit is due."""
    since_draw: FloatArray
    """How many since the last draw."""

    x: FloatArray
    """By parameter: its estimate x."""
    factor: FloatArray
    """The Cholesky factor F of the precision H at the last fit, below and on the diagonal."""
    carry_variance: FloatArray
    """tau^2."""
    attraction: FloatArray
    """By item: a[d] at the last fit."""
    gone_slope: FloatArray
    """By parameter: what items that left taught (see `items`); empty while none has left."""
    gone_precision: FloatArray
    """The precision of that."""

    look: FloatArray
    """By position: the drawn examination e~[k] with no click above."""
    look_after: FloatArray
    """By (k, r), and item j of the last click: the drawn e~[k,r] s~[j]."""
    exposure: FloatArray
    """By item: how often it was examined, under the drawn law."""
    sample: FloatArray
    """By item: its drawn attraction a~[d]."""
    order: IntArray
    """All items, the most attractive of the last draw in front."""
    last: IntArray
    """By position: the last list, -1 before the first."""

    examination: FloatArray
    """By cell, while fitting or drawing: e."""
    carry: FloatArray
    """By item, while fitting or drawing: s."""
    slope: FloatArray
    """By parameter, while fitting: w[d], the slope of one item's exposure."""
    step: FloatArray
    """By parameter: the gradient and then the Newton step while fitting, z and then x~ while drawing."""
    reach: FloatArray
    """By position and r + 1, while searching: the probability that the last click above is at r, 0 for none."""
    trial: FloatArray
    """A row of that, for another list."""
    listed: IntArray
    """By item, while searching: 1 if it is in the list."""
    gain: FloatArray
    """By position, while searching: the expected clicks from there on."""

    wins: FloatArray
    """By item, and other item: how many tests it won against that (see `guard`); empty where there is no guard."""
    budget: FloatArray
    """How sure tests, and contradictions, must be."""

    clicks_then: FloatArray
    """By item: its clicks at the last fit (see `change`); empty where changes are not looked for, as the next four."""
    exposure_then: FloatArray
    """By item: its exposure then, under the law that was fitted."""
    slope_then: FloatArray
    """By item and parameter: the slope of that."""
    surprise: FloatArray
    """By item: the clicks beyond what was foreseen, of the last fits."""
    surprise_variance: FloatArray
    """And their variance."""

    cell: IntArray
    """By position k and r + 1: the cell of (k, r), r = -1 for no click above."""
    share: FloatArray
    """By position: what belongs to that cell; the rest belongs to the next one."""
    n_fresh: int
    """How many cells are those without a click above, which come first."""
    for_clicks: bool
    """Whether the goal is clicks."""
    memory: int

    shape: FloatArray
    """By item: the prior of its attraction while fitting is Gamma(shape, rate)."""
    rate: FloatArray
    clicked: FloatArray
    """By item: its drawn attraction is from Beta(clicked + clicks, unclicked + exposure - clicks)."""
    unclicked: FloatArray
    expected: FloatArray
    """By item: the attraction that a prior expects (see `prior`); empty where there is none, as all below."""
    strength: FloatArray
    """By item: how many examinations that is worth."""
    weight: FloatArray
    """By row of `prior`: how probable it is."""
    slab: FloatArray
    """By row that trusts the prior, and item: how probably the item is an exception."""
    drawn: FloatArray
    """The drawn row if it trusts the prior, else -1; and the rate b of its exceptions."""


def init(
    n_items: int,
    n_positions: int,
    *,
    horizon: int,
    goal: str = "attraction",
    memory: int = 0,
    guard: bool = True,
    restart: bool = True,
) -> State:
    check_memory(memory)
    cell, share, n_fresh, n_cells = arrange(n_items, n_positions)
    n_carry = n_items if has_carry(n_items, n_positions) else 0
    n_later = n_cells - n_fresh if n_carry else 0
    n_free = n_cells - 1 + n_carry
    precision = np.full(n_free, 1 / FIRST_CARRY_VARIANCE)
    precision[: n_cells - 1] = 1 / LATER_VARIANCE
    precision[: n_fresh - 1] = 1 / FRESH_VARIANCE
    x = np.zeros(n_free)
    x[: n_cells - 1] = LOG_EXAMINATION
    n_guarded = n_items if guard and goal == "attraction" and n_items <= MAX_GUARDED else 0
    return State(
        shown=np.zeros((n_items, n_cells)),
        carried=np.zeros((n_items, n_later, n_carry)),
        clicks=np.zeros(n_items),
        cell_clicks=np.zeros(n_cells),
        after=np.zeros(n_carry),
        learned=np.zeros(1),
        next_fit=np.ones(1),
        since_draw=np.ones(1),
        x=x,
        factor=np.diag(np.sqrt(precision)),
        carry_variance=np.full(1, FIRST_CARRY_VARIANCE),
        attraction=np.full(n_items, PRIOR_CLICKS / PRIOR_EXPOSURE),
        gone_slope=np.zeros(0),
        gone_precision=np.zeros((0, 0)),
        look=np.ones(n_positions),
        look_after=np.ones((n_positions * (n_positions - 1) // 2, max(n_carry, 1))),
        exposure=np.zeros(n_items),
        sample=np.zeros(n_items),
        order=np.arange(n_items),
        last=np.full(n_positions, -1),
        examination=np.ones(n_cells),
        carry=np.ones(n_carry),
        slope=np.zeros(n_free),
        step=np.zeros(n_free),
        reach=np.zeros((n_positions + 1, n_positions + 1)),
        trial=np.zeros(n_positions + 1),
        listed=np.zeros(n_items, np.int64),
        gain=np.zeros(n_positions + 1),
        wins=np.zeros((n_guarded, n_guarded)),
        budget=np.zeros(1),
        cell=cell,
        share=share,
        n_fresh=n_fresh,
        for_clicks=goal == "clicks",
        memory=memory,
        **nothing_expected(n_items),
        **nothing_foreseen(n_items if restart else 0, n_free),
    )


def nothing_expected(n_items: int) -> dict[str, Any]:
    """The part of a state that says what is expected of items, where that is nothing."""
    return {
        "shape": np.full(n_items, PRIOR_CLICKS),
        "rate": np.full(n_items, PRIOR_EXPOSURE),
        "clicked": np.full(n_items, PRIOR_CLICKS),
        "unclicked": np.full(n_items, PRIOR_EXPOSURE - PRIOR_CLICKS),
        "expected": np.zeros(0),
        "strength": np.zeros(0),
        "weight": np.zeros(0),
        "slab": np.zeros((0, 0)),
        "drawn": np.array([-1.0, 1.0]),
    }


def nothing_foreseen(n_watched: int, n_free: int) -> dict[str, Any]:
    """The part that watches the clicks of `n_watched` items, before the first fit."""
    by_item = ("clicks_then", "exposure_then", "surprise", "surprise_variance")
    return {name: np.zeros(n_watched) for name in by_item} | {"slope_then": np.zeros((n_watched, n_free))}


def check_memory(memory: int) -> None:
    if memory < 0:
        raise InputError(f"click-ts: memory must be 0 or a number of lists, found {memory}")


def memo_size(n_items: int, n_positions: int) -> int:
    """Learning needs the list and its clicks, and what the guard tests with it: a position, and an item."""
    return 2
