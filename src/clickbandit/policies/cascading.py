"""What cascading policies share: which positions were examined, first looks, and the highest indices in front.

Each orders the items by an index and learns from the positions that the user must have examined. What differs is
the index alone.

Those that look first at every item draw, at each of the first L steps, a shuffle of the items behind the one in
front; later only where items have the same index, a shuffle of those.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.policies.base import Policy
from clickbandit.policies.common import draw_index, pseudo_counts, sort_by_decreasing
from clickbandit.policies.items import NUMBERS, by_item
from clickbandit.policies.possible import like, within
from clickbandit.priors import Prior

FIRST, LAST, FULL = 0, 1, 2
FEEDBACK = {"first": FIRST, "last": LAST, "full": FULL}
Feedback = Literal["first", "last", "full"]
"""Which positions are learned from: down to the first click, down to the last one, or all."""


# --- settings and state -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CascadingPolicy(Policy):
    """A policy that learns from the positions down to a click."""

    key = ""

    feedback: Feedback = "first"
    """Which positions are learned from: down to the first click, as in the cascade model; down to the last, as the
    paper's runs with the position-based model have it; or all."""


class State(NamedTuple):
    """What was observed of each item."""

    observed: IntArray
    clicks: IntArray
    value: FloatArray
    """By item: its index when the last list was made."""
    order: IntArray
    """All items, those shown last in front."""
    step: IntArray
    """How many lists were made, t."""
    feedback: int
    exploration: float = 1.0
    """How wide the bounds are."""


def start(n_items: int, feedback: str, exploration: float = 1.0) -> State:
    """The first state."""
    return State(
        observed=np.zeros(n_items, np.int64),
        clicks=np.zeros(n_items, np.int64),
        value=np.zeros(n_items),
        order=np.arange(n_items),
        step=np.zeros(1, np.int64),
        feedback=FEEDBACK[feedback],
        exploration=exploration,
    )


def prime_counts(state: Any, prior: Prior) -> Any:
    """The prior as observations and clicks, which `describe` then counts as such."""
    observed, clicks = pseudo_counts(prior)
    state.observed[:] = observed
    state.clicks[:] = clicks
    state.order[:] = prior.order
    return state


def prime(state: State, prior: Prior) -> State:
    """As `prime_counts`, and no item need be put in front first."""
    prime_counts(state, prior)
    state.step[0] = len(state.order)
    return state


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def look_first(state: Any, rng: np.random.Generator, ranking: IntArray) -> bool:
    """Count a list, and put each item in front once: whether this list was one of those."""
    state.step[0] += 1
    if state.step[0] > len(state.order):
        return False
    put_in_front(state.order, state.step[0] - 1, rng, ranking)
    return True


@slow_path
def put_in_front(order: IntArray, item: int, rng: np.random.Generator, ranking: IntArray) -> None:
    """One item first, random others behind it.

    Draws: which of the others comes next, position by position, from the items in the order of their numbers with
    item 0 in the place of the one in front.
    """
    for i in range(len(order)):
        order[i] = i
    order[0], order[item] = order[item], order[0]
    for k in range(1, len(ranking)):
        other = k + draw_index(rng, len(order) - k)
        order[k], order[other] = order[other], order[k]
    for k in range(len(ranking)):
        ranking[k] = order[k]


@kernel
def put_highest(index: FloatArray, order: IntArray, rng: np.random.Generator, ranking: IntArray) -> None:
    """The items with the highest indices, highest first, those with the same index in random order."""
    if highest_first(index, order, len(ranking), 0.0):
        break_ties(index, order, rng, len(ranking), 0.0)
    for k in range(len(ranking)):
        ranking[k] = order[k]


@kernel
def highest_first(index: FloatArray, order: IntArray, n_positions: int, tie: float) -> bool:
    """Bring the items with the highest indices to the front, highest first; whether two came within `tie`.

    An insertion sort from the last list's order, which is nearly right already; if it is not, the front is selected
    first, since each item that goes in takes time for all that it passes.
    """
    tied = False
    entered = 0
    i = 1
    while i < len(order):
        item = order[i]
        value = index[item]
        k = i
        i += 1
        if k >= n_positions:
            last = n_positions - 1
            above = index[order[last]]
            tied = tied or above - tie <= value <= above + tie
            if value <= above:
                continue
            entered += 1
            if entered == 2 * n_positions:
                select(index, order, n_positions)
                i = 1
                continue
            order[k] = order[last]
            k = last
        while k > 0:
            above = index[order[k - 1]]
            tied = tied or above - tie <= value <= above + tie
            if value <= above:
                break
            order[k] = order[k - 1]
            k -= 1
        order[k] = item
    return tied


@slow_path
def select(index: FloatArray, order: IntArray, n: int) -> None:
    """Bring the n items with the highest indices to the front, in any order (Hoare's selection)."""
    low, high = 0, len(order) - 1
    while low < high:
        pivot = index[order[(low + high) // 2]]
        i, j = low, high
        while i <= j:
            while index[order[i]] > pivot:
                i += 1
            while index[order[j]] < pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if n - 1 <= j:
            high = j
        elif n - 1 >= i:
            low = i
        else:
            return


@slow_path
def break_ties(
    index: FloatArray, order: IntArray, rng: np.random.Generator, n_positions: int, tie: float
) -> None:
    """Shuffle items whose indices are no further apart than `tie`, as far as they are shown.

    The highest must be in front already. Draws, group by group from the highest: which of the tied items comes
    next, from the items in the order of their numbers, each time exchanged with the one at that place.
    """
    n_items = len(order)
    lowest = index[order[n_positions - 1]]
    start = 0  # three passes rather than a sort of all items, of which there may be a thousand
    for item in range(n_items):
        if index[item] > lowest + tie:
            order[start] = item
            start += 1
    end = start
    for item in range(n_items):
        if lowest - tie <= index[item] <= lowest + tie:
            order[end] = item
            end += 1
    for item in range(n_items):
        if index[item] < lowest - tie:
            order[end] = item
            end += 1
    sort_by_decreasing(index, order[:start], tie)
    start = 0
    while start < n_positions:
        end = end_of_tie(index, order, start, tie)
        for k in range(start, min(end - 1, n_positions)):
            other = k + draw_index(rng, end - k)
            order[k], order[other] = order[other], order[k]
        start = end


@kernel
def end_of_tie(index: FloatArray, order: IntArray, start: int, tie: float) -> int:
    """Where the items end that are tied with the one at `start`."""
    end = start + 1
    while end < len(order) and index[order[end]] >= index[order[start]] - tie:
        end += 1
    return end


# --- propensity ---------------------------------------------------------------------------------------------


@kernel
def propensity(state: Any, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    """Of the policies that look first at every item and then show the highest indices."""
    if state.step[0] <= len(state.order):
        first_propensity(len(state.order), out)
    else:
        tie_propensity(state.value, ranking, 0.0, out)


@kernel
def first_propensity(n_items: int, out: FloatArray) -> None:
    """Of a list made by `put_in_front`."""
    out[0] = 1.0
    for k in range(1, len(out)):
        out[k] = 1 / (n_items - 1)


@kernel
def tie_propensity(index: FloatArray, ranking: IntArray, tie: float, out: FloatArray) -> None:
    """Of a list by decreasing index: for each item one over the number of all that are tied with it."""
    for k in range(len(ranking)):
        shown = index[ranking[k]]
        tied = 0
        for item in range(len(index)):
            tied += shown - tie <= index[item] <= shown + tie
        out[k] = 1 / tied


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: Any, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    count(state.observed, state.clicks, ranking, clicks, examined(clicks, state.feedback))


@kernel
def examined(clicks: IntArray, feedback: int) -> int:
    """How many positions count as examined: down to the first or the last click, all without one."""
    if feedback == FIRST:
        for k in range(len(clicks)):
            if clicks[k]:
                return k + 1
    if feedback == LAST:
        for k in range(len(clicks) - 1, -1, -1):
            if clicks[k]:
                return k + 1
    return len(clicks)


@kernel
def count(
    observed: IntArray, clicked: IntArray, ranking: IntArray, clicks: IntArray, n_examined: int
) -> None:
    """Count the items at the positions that were examined, and the clicks on them."""
    for k in range(n_examined):
        observed[ranking[k]] += 1
        clicked[ranking[k]] += clicks[k]


# --- leaps --------------------------------------------------------------------------------------------------


@kernel
def looked_at(state: Any, clicks: IntArray) -> int:
    return examined(clicks, state.feedback)


@kernel
def absorb(state: Any, ranking: IntArray, observed: IntArray, clicked: IntArray, steps: int) -> None:
    state.step[0] += steps
    for k in range(len(ranking)):
        state.observed[ranking[k]] += observed[ranking[k]]
        state.clicks[ranking[k]] += clicked[ranking[k]]


@kernel
def shares(clicked: int, n: int, looks: float, clicks: float) -> tuple[float, float]:
    """Between which numbers the share of clicked in n looks stays, in any order of more looks and clicks."""
    return clicked / (n + looks - clicks), (clicked + clicks) / (n + clicks)


# --- items that come and go ---------------------------------------------------------------------------------

admit, retire = by_item(observed=0, clicks=0, value=0.0, order=NUMBERS)


# --- what was stored ----------------------------------------------------------------------------------------


def possible(state: Any, fresh: Any) -> bool:
    """The first steps each put the item in front that has their number."""
    return like(state, fresh) and within(state.step, 0)


# --- what is learned ----------------------------------------------------------------------------------------


def best(state: Any, ranking: IntArray) -> None:
    """The items with the highest shares of clicks."""
    most_clicked(state.observed, state.clicks, ranking)


Interval = Callable[[float, float], tuple[float, float]]
"""The confidence interval of an item's attraction from its share of clicks and its observations."""


def around(share: float, radius: float) -> tuple[float, float]:
    return share - radius, share + radius


def most_clicked(observed: Any, clicked: Any, ranking: IntArray) -> None:
    """The items with the highest shares of clicks."""
    share = np.divide(clicked, observed, out=np.zeros(len(observed)), where=observed > 0)
    ranking[:] = np.argsort(-share, kind="stable")[: len(ranking)]


def describe_around(state: Any, radius: Callable[[float, float], float]) -> dict[str, Any]:
    """What is known of each item, with an interval of this radius around its share of clicks."""

    def interval(share: float, n: float) -> tuple[float, float]:
        return around(share, radius(share, n))

    return describe_items(state.observed, state.clicks, interval)


def describe_items(observed: Any, clicked: Any, interval: Interval | None = None) -> dict[str, Any]:
    """What is known of each item; no estimate of those that were never observed, whose interval is all of [0, 1].

    >>> describe_items(np.array([4]), np.array([1]), lambda share, n: (share - 1 / n, share + 1 / n))
    {'items': [{'item': 0, 'observed': 4, 'clicks': 1, 'estimate': 0.25, 'low': 0.0, 'high': 0.5}]}
    """
    items = []
    for item, (n, c) in enumerate(zip(observed.tolist(), clicked.tolist(), strict=True)):
        known: dict[str, Any] = {"item": item, "observed": n, "clicks": c}
        if n > 0:
            known["estimate"] = c / n
        if interval is not None:
            low, high = interval(c / n, n) if n > 0 else (0.0, 1.0)
            known |= {"low": max(0.0, low), "high": min(1.0, high)}
        items.append(known)
    return {"items": items}
