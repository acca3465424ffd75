"""CascadeKL-UCB: shows the items with the highest upper confidence bounds on their attraction, highest first.

It believes in the cascade model: the user goes down the list to the first attractive item, clicks it and leaves,
so the items down to there were examined and the others tell nothing. In that model its regret is near the best
possible; in others it has no guarantee, and may settle on a list that is not the best.

Kveton, Szepesvári, Wen, Ashkan: Cascading Bandits (ICML 2015), Algorithm 1 with KL bounds.

Draws of `rank`: see `cascading`.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from clickbandit.bounds import kl_lower, kl_upper
from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.policies import cascading
from clickbandit.policies.bounds_on_demand import (
    TIE,
    bound_span,
    compare,
    compute_bound,
    look_closely,
    look_often,
)
from clickbandit.policies.cascading import (
    FEEDBACK,
    CascadingPolicy,
    best,
    break_ties,
    describe_items,
    examined,
    first_propensity,
    look_first,
    possible,
    prime,
    tie_propensity,
)
from clickbandit.policies.contract import Algorithm, Live, Margins, no_memo
from clickbandit.policies.items import NUMBERS, by_item

# --- settings and state -------------------------------------------------------------------------------------


class State(NamedTuple):
    """What was observed of each item, and what that says of its bound (see `bounds_on_demand`)."""

    observed: IntArray
    clicks: IntArray
    low: FloatArray
    high: FloatArray
    slope: FloatArray
    at_budget: FloatArray
    order: IntArray
    """All items, those shown last in front."""
    step: IntArray
    """How many lists were made, t."""
    tied: IntArray
    """The last step at which items had the same bound."""
    feedback: int
    iterated: float
    """How many times log log t is part of the budget."""


def init(
    n_items: int,
    n_positions: int,
    *,
    horizon: int,
    feedback: str = "first",
    budget: str = "log t + 3 log log t",
) -> State:
    return State(
        observed=np.zeros(n_items, np.int64),
        clicks=np.zeros(n_items, np.int64),
        low=np.zeros(n_items),
        high=np.ones(n_items),
        slope=np.zeros(n_items),
        at_budget=np.full(n_items, -1.0),
        order=np.arange(n_items),
        step=np.zeros(1, np.int64),
        tied=np.zeros(1, np.int64),
        feedback=FEEDBACK[feedback],
        iterated=0.0 if budget == "log t" else 3.0,
    )


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    if not look_first(state, rng, ranking):
        show_highest(state, rng, ranking)


@kernel
def show_highest(state: Any, rng: np.random.Generator, ranking: IntArray) -> None:
    """The items with the highest bounds, highest first, those with the same bound in random order."""
    budget = budget_at(state.step[0], state.iterated)
    if highest_first(state, budget, len(ranking)):
        shuffle_tied(state, budget, rng, len(ranking))
    for k in range(len(ranking)):
        ranking[k] = state.order[k]


@kernel
def budget_at(step: int, iterated: float) -> float:
    """log t + 3 log log t, or log t, for t of at least 2."""
    log_step = math.log(step)
    return max(0.0, log_step + iterated * math.log(log_step))


@kernel
def highest_first(state: Any, budget: float, n_positions: int) -> bool:
    """Bring the items with the highest bounds to the front, highest first; whether there was a tie.

    An insertion sort from the last list's order, which is nearly right already.
    """
    order = state.order
    tie = False
    for i in range(1, len(order)):
        item = order[i]
        k = i
        if i >= n_positions:
            k = n_positions - 1
            outcome = compare(state, item, order[k], budget)
            tie = tie or outcome == 0
            if outcome <= 0:
                continue
            order[i] = order[k]
        while k > 0:
            outcome = compare(state, item, order[k - 1], budget)
            tie = tie or outcome == 0
            if outcome <= 0:
                break
            order[k] = order[k - 1]
            k -= 1
        order[k] = item
    return tie


@slow_path
def shuffle_tied(state: Any, budget: float, rng: np.random.Generator, n_positions: int) -> None:
    """Shuffle the items with the same bound, computing no bound that is certainly apart from its neighbour's."""
    order = state.order
    last = order[n_positions - 1]
    compute_bound(state, last, budget)
    for k in range(n_positions - 2, -1, -1):
        if compare(state, order[k], order[k + 1], budget) == 0:
            compute_bound(state, order[k], budget)
            compute_bound(state, order[k + 1], budget)
    for i in range(n_positions, len(order)):
        if compare(state, order[i], last, budget) == 0:
            compute_bound(state, order[i], budget)
    break_ties(state.low, order, rng, n_positions, TIE)
    state.tied[0] = state.step[0]


@kernel
def propensity(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    if state.step[0] <= len(state.order):
        first_propensity(len(state.order), out)
    else:
        highest_propensity(state, ranking, out)


@kernel
def highest_propensity(state: Any, ranking: IntArray, out: FloatArray) -> None:
    """Of a list made by `show_highest`."""
    if state.tied[0] == state.step[0]:
        tie_propensity(state.low, ranking, TIE, out)
    else:
        for k in range(len(out)):
            out[k] = 1.0


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    for k in range(examined(clicks, state.feedback)):
        look_closely(state, ranking[k], clicks[k])


# --- leaps --------------------------------------------------------------------------------------------------


@kernel
def budget(state: Any, steps: int) -> float:
    return budget_at(state.step[0] + steps, state.iterated)


@kernel
def span(
    state: Any, place: int, looks: float, clicks: float, budget: float, later: float
) -> tuple[float, float]:
    return bound_span(state, state.order[place], looks, clicks, budget, later)


@kernel
def absorb(state: Any, ranking: IntArray, observed: IntArray, clicked: IntArray, steps: int) -> None:
    state.step[0] += steps
    for k in range(len(ranking)):
        item = ranking[k]
        look_often(state, item, observed[item], clicked[item])


MARGINS = Margins(budget, span, cascading.looked_at, absorb)


# --- what is learned ----------------------------------------------------------------------------------------


def describe(state: State) -> dict[str, Any]:
    budget = interpreted(budget_at)(max(2, int(state.step[0]) + 1), state.iterated)
    lower, upper = interpreted(kl_lower), interpreted(kl_upper)
    return describe_items(
        state.observed, state.clicks, lambda share, n: (lower(share, n, budget), upper(share, n, budget))
    )


# --- items that come and go ---------------------------------------------------------------------------------

admit, retire = by_item(observed=0, clicks=0, low=0.0, high=1.0, slope=0.0, at_budget=-1.0, order=NUMBERS)


@dataclass(frozen=True)
class CascadeKLUCB(CascadingPolicy):
    """Cascading bandits with KL bounds.

    >>> str(CascadeKLUCB(feedback="last"))
    'cascade-kl-ucb:feedback=last'
    """

    paper = "Kveton et al. 2015"
    title = "CascadeKL-UCB"
    colour = "blue"
    algorithm = Algorithm(init, no_memo, rank, update, best, prime=prime)
    leaps = MARGINS
    live = Live(propensity=propensity, describe=describe, admit=admit, retire=retire, possible=possible)

    budget: Literal["log t + 3 log log t", "log t"] = "log t + 3 log log t"
    """The budget of the bounds: as in the algorithm's paper, or as in the runs of Zoghi et al. 2017."""
