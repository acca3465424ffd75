"""What ClickTS believes of positions and carry: one Newton step towards the likeliest law, and draws of it.

Clicks are taken for Poisson, with the rate a[d] e s of each display, and attractions for Gamma(1, 2), unless there is a
prior (`prior`). With these integrated out, what is left to maximise over the parameters x (log e by cell, log s by
item) is

    sum_c clicks[c] x_c + sum_j after[j] x_j - sum_d (1 + clicks[d]) log(2 + m[d](x)) + log prior(x)

where the exposure m[d] is the sum of e s over all displays of item d. Its slope is w[d].

Parameters are numbered: the cells of positions 2 to K with no click above; the cells (k, r), k by k and in each r by
r; the items. The factor F and hence what a draw gives depend on that order.
"""

import math

import numpy as np

from clickbandit.compiling.kernel import FloatArray, kernel, slow_path
from clickbandit.policies.click_ts.prior import draw_prior, weigh
from clickbandit.policies.click_ts.state import FRESH_VARIANCE, LATER_VARIANCE, LOG_EXAMINATION, State

MAX_STEP = 1.0
"""By how much a fit changes a parameter at most."""
LOWEST, LOWEST_DRAWN, HIGHEST_DRAWN = -12.0, -24.0, 1.0
"""Where estimates, and draws, are cut off; a draw not below its estimate."""
MIN_PIVOT = 1e-6
MIN_CARRY_VARIANCE = 1e-4

# --- fit ----------------------------------------------------------------------------------------------------


@slow_path
def fit(state: State) -> None:
    """One Newton step, the factor of the precision before it, and the attractions."""
    unfold(state.x, state.examination, state.carry)
    begin(state)
    for item in range(len(state.clicks)):
        add_item(state, item)
    if len(state.weight) > 0:
        weigh(state)
    factorise(state.factor)
    solve_lower(state.factor, state.step)
    solve_upper(state.factor, state.step)
    for p in range(len(state.x)):
        step = min(max(state.step[p], -MAX_STEP), MAX_STEP)
        state.x[p] = max(state.x[p] + step, LOWEST)
    if len(state.after) > 0:
        first = len(state.cell_clicks) - 1
        state.carry_variance[0] = spread_of_carry(state.x, state.factor, first, state.step)


@slow_path
def unfold(x: FloatArray, examination: FloatArray, carry: FloatArray) -> None:
    """e and s of parameters x; e[1] = 1 fixes the scale."""
    n_cells = len(examination)
    for c in range(1, n_cells):
        examination[c] = math.exp(x[c - 1])
    for j in range(len(carry)):
        carry[j] = math.exp(x[n_cells - 1 + j])


@slow_path
def begin(state: State) -> None:
    """What does not depend on the items at hand: the prior, the clicks, and the items that left."""
    x, gradient, precision = state.x, state.step, state.factor
    n_cells = len(state.cell_clicks)
    for p in range(len(x)):
        for q in range(p):
            precision[p, q] = 0.0
        if p < n_cells - 1:
            variance = FRESH_VARIANCE if p < state.n_fresh - 1 else LATER_VARIANCE
            gradient[p] = state.cell_clicks[p + 1] - (x[p] - LOG_EXAMINATION) / variance
        else:
            variance = state.carry_variance[0]
            gradient[p] = state.after[p - n_cells + 1] - x[p] / variance
        precision[p, p] = 1 / variance
    for p in range(len(state.gone_slope)):
        gradient[p] -= state.gone_slope[p]
        for q in range(len(x)):
            gradient[p] -= state.gone_precision[p, q] * x[q]
        for q in range(p + 1):
            precision[p, q] += state.gone_precision[p, q]


@slow_path
def add_item(state: State, item: int) -> None:
    """Add an item to the gradient and to the precision: clicks - a w, and a (diag(w) + the cross terms of cell and
    carry) - a w w^T / (2 + m)."""
    gradient, precision, slope = state.step, state.factor, state.slope
    state.exposure[item] = find_slope(
        state.shown[item], state.carried[item], state.examination, state.carry, slope
    )
    exposure = state.rate[item] + state.exposure[item]
    attraction = (state.shape[item] + state.clicks[item]) / exposure
    state.attraction[item] = attraction
    for p in range(len(slope)):
        if slope[p] != 0:
            weighted = attraction * slope[p]
            gradient[p] -= weighted
            precision[p, p] += weighted
            weighted /= exposure
            for q in range(p + 1):
                precision[p, q] -= weighted * slope[q]
    first = len(state.cell_clicks) - 1
    for i in range(state.carried.shape[1]):
        c = state.n_fresh + i
        weighted = attraction * state.examination[c]
        for j in range(len(state.after)):
            precision[first + j, c - 1] += weighted * state.carried[item, i, j] * state.carry[j]


@slow_path
def find_slope(
    shown: FloatArray, carried: FloatArray, examination: FloatArray, carry: FloatArray, slope: FloatArray
) -> float:
    """The slope w[d] of an item's exposure from its displays; the exposure m[d]."""
    n_cells = len(shown)
    exposure = shown[0]
    for c in range(1, n_cells):
        slope[c - 1] = shown[c] * examination[c]
        exposure += slope[c - 1]
    for j in range(len(carry)):
        slope[n_cells - 1 + j] = 0.0
    n_later = len(carried)
    for i in range(n_later):
        c = n_cells - n_later + i
        examined = 0.0
        for j in range(len(carry)):
            part = carried[i, j] * examination[c] * carry[j]
            slope[n_cells - 1 + j] += part
            examined += part
        slope[c - 1] += examined
        exposure += examined
    return float(exposure)


@slow_path
def spread_of_carry(x: FloatArray, factor: FloatArray, first: int, column: FloatArray) -> float:
    """tau^2 from the carries x_j after the step and their variances before it."""
    n_free = len(x)
    total = 0.02
    for j in range(first, n_free):
        total += x[j] * x[j]
        for p in range(j, n_free):  # a column of the factor's inverse, by forward substitution
            part = 1.0 if p == j else 0.0
            for q in range(j, p):
                part -= factor[p, q] * column[q]
            column[p] = part / factor[p, p]
            total += column[p] * column[p]
    return max(MIN_CARRY_VARIANCE, total / (n_free - first + 0.2))


# --- draw ---------------------------------------------------------------------------------------------------


@slow_path
def draw(state: State, rng: np.random.Generator) -> None:
    """Draw x~ = x + F^-T z, and find each item's exposure under it. Draws: z, parameter by parameter; then, where there
    is a prior, what to make of that."""
    x = state.step
    for p in range(len(x)):
        x[p] = rng.standard_normal()
    solve_upper(state.factor, x)
    for p in range(len(x)):
        x[p] = min(max(state.x[p] + x[p], LOWEST_DRAWN), max(state.x[p], HIGHEST_DRAWN))
    if not state.for_clicks:
        lower_together(x, state.x, state.n_fresh, len(state.examination))
    unfold(x, state.examination, state.carry)
    look_around(state)
    for item in range(len(state.clicks)):
        state.exposure[item] = exposure_of(
            state.shown[item], state.carried[item], state.examination, state.look_after, highest(state)
        )
    if len(state.weight) > 0:
        draw_prior(state, rng)
    state.since_draw[0] = 0.0


@slow_path
def lower_together(x: FloatArray, fitted: FloatArray, n_fresh: int, n_cells: int) -> None:
    """Lower all log e by the same, so that with no click above none is over 0, the first position's, unless the
    estimate is, and then none over that.

    To cut off the one that is too high alone would change how the other positions compare, which exchanges have told,
    rather than how they compare with the first, of which an item that always stands there tells little.
    """
    excess = 0.0
    for p in range(n_fresh - 1):
        excess = max(excess, x[p] - max(0.0, fitted[p]))
    for p in range(n_cells - 1):
        x[p] -= excess


@kernel
def highest(state: State) -> float:
    """Where examination is cut off: for the most clicks at 1, as a probability, and else nowhere."""
    return 1.0 if state.for_clicks else math.inf


@slow_path
def look_around(state: State) -> None:
    """How probably each position is examined under e and s, by the last click above."""
    pair, most = 0, highest(state)
    for k in range(len(state.look)):
        share = state.share[k]
        state.look[k] = seen(state.examination, state.cell[k, 0], share, 1.0, most)
        for r in range(1, k + 1):
            cell = state.cell[k, r]
            state.look_after[pair, 0] = seen(state.examination, cell, share, 1.0, most)
            for j in range(len(state.carry)):
                state.look_after[pair, j] = seen(state.examination, cell, share, state.carry[j], most)
            pair += 1


@kernel
def seen(examination: FloatArray, cell: int, share: float, carry: float, most: float) -> float:
    """e s in a cell, and with the rest of its share in the next, cut off."""
    found = share * min(most, examination[cell] * carry)
    if share < 1:
        found += (1 - share) * min(most, examination[cell + 1] * carry)
    return float(found)


@slow_path
def exposure_of(
    shown: FloatArray, carried: FloatArray, examination: FloatArray, look_after: FloatArray, most: float
) -> float:
    """How often an item was examined, under the drawn law."""
    total = 0.0
    for c in range(len(shown)):
        total += shown[c] * min(most, examination[c])
    for i in range(len(carried)):
        examined = 0.0
        for j in range(carried.shape[1]):
            examined += carried[i, j] * look_after[i, j]
        total += examined
    return total


# --- linear algebra -----------------------------------------------------------------------------------------


@slow_path
def factorise(matrix: FloatArray) -> None:
    """The Cholesky factor F of a symmetric matrix, F F^T, in place of what is below and on its diagonal."""
    for p in range(len(matrix)):
        for q in range(p + 1):
            total = matrix[p, q]
            for i in range(q):
                total -= matrix[p, i] * matrix[q, i]
            matrix[p, q] = total / matrix[q, q] if q < p else math.sqrt(max(total, MIN_PIVOT))


@slow_path
def solve_lower(factor: FloatArray, vector: FloatArray) -> None:
    """F^-1 v in place of v."""
    for p in range(len(vector)):
        total = vector[p]
        for q in range(p):
            total -= factor[p, q] * vector[q]
        vector[p] = total / factor[p, p]


@slow_path
def solve_upper(factor: FloatArray, vector: FloatArray) -> None:
    """F^-T v in place of v."""
    for p in range(len(vector) - 1, -1, -1):
        vector[p] /= factor[p, p]
        for q in range(p):
            vector[q] -= factor[p, q] * vector[p]
