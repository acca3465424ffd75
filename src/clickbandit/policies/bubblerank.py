"""BubbleRank: starts from a list that is known to be good, and changes it only by neighbours, once that is safe.

It believes, as TopRank does, that a list gets no worse where a better item changes places with a worse one above it.
It goes out from a base list. At each step every other pair of neighbours is shown in random order, which makes the
clicks on the two a fair comparison; two items change places for good once the lower one has won clearly more often,
and are shown in their order without chance once the upper one has. So no list differs from the one learned so far by
more than K / 2 pairs of neighbours, and with high probability none has more than K / 2 inverted pairs more than the
base list: that is what makes it safe. Its regret is O(K (K + v) / gap log T), if v pairs of the base list are inverted.

Li, Kveton, Lattimore, Markov, de Rijke, Szepesvári, Zoghi: BubbleRank: Safe Online Learning to Re-Rank via Implicit
Click Feedback (UAI 2019), Algorithm 1 with delta = T^-4; there all items are shown.

**Fewer positions than items.** The last position's neighbour below is a challenger: a random one of the items that are
not shown and have not clearly lost to the item at the last position. It stands there instead with probability 1/2. Each
of the two is then shown equally often under the same circumstances, so to count a click on the one that is shown as its
win over the other is fair, and is done only when there was such a toss. A challenger that has clearly won stays, and
goes on upwards: no item is out of reach, and at each step at most one is shown that is not in the list. With an odd
K that is one pair more, (K + 1) / 2. Were the challenger always the same, better items behind it would never be shown.

Draws of `rank`, from the top: for each pair of this step, unless its order is clear, whether it is exchanged (the upper
half of the draws); for the last position first which challenger, of those in increasing order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.errors import InputError
from clickbandit.policies.base import Policy
from clickbandit.policies.common import draw_index
from clickbandit.policies.contract import Algorithm, Live
from clickbandit.policies.possible import is_order, like, within
from clickbandit.priors import Prior

# --- settings and state -------------------------------------------------------------------------------------

NOBODY = -1.0
"""Stands in the memo where the last position's item was not compared with one that is not shown."""


class State(NamedTuple):
    """Arrays by pair have a row for i and a column for j."""

    items: IntArray
    """The list learned so far, then the challengers in increasing order, then the others."""
    challengers: IntArray
    """How many challengers there are, in a single entry."""
    wins: IntArray
    """By pair: how often i was clicked and j was not. So s(i, j) = wins_ij - wins_ji, n(i, j) = wins_ij + wins_ji."""
    better: IntArray
    """By pair: 1 if i has clearly won, s(i, j) > 2 sqrt(n(i, j) log(1 / delta))."""
    step: IntArray
    """How many lists were made, t."""
    unsettled: IntArray
    """1 if items may have to change places, in a single entry."""
    n_positions: int
    log_delta: float
    """log(1 / delta)."""


def init(n_items: int, n_positions: int, *, horizon: int, base: str = "", power: float = 4.0) -> State:
    first = read_base(base, n_items)
    state = State(
        items=np.array(first + [item for item in range(n_items) if item not in first]),
        challengers=np.zeros(1, np.int64),
        wins=np.zeros((n_items, n_items), np.int64),
        better=np.zeros((n_items, n_items), np.int64),
        step=np.zeros(1, np.int64),
        unsettled=np.zeros(1, np.int64),
        n_positions=n_positions,
        log_delta=power * math.log(horizon),
    )
    interpreted(find_challengers)(state)
    return state


def prime(state: State, prior: Prior) -> State:
    """The prior's order is the base list."""
    state.items[:] = prior.order
    interpreted(find_challengers)(state)
    return state


def read_base(base: str, n_items: int) -> list[int]:
    """The base list from its spelling.

    >>> read_base("3/1/0", n_items=4)
    [3, 1, 0]
    """
    numbers = base.split("/") if base else []
    if not all(number.isdecimal() and int(number) < n_items for number in numbers):
        raise InputError(
            f"bubblerank: base must be item numbers from 0 to {n_items - 1} as in 2/0/1, found {base!r}"
        )
    if len(set(map(int, numbers))) < len(numbers):
        raise InputError(f"bubblerank: base must name each item once, found {base!r}")
    return [int(number) for number in numbers]


def memo_size(n_items: int, n_positions: int) -> int:
    """The first of the paired positions, and the item that the last one was compared with, or NOBODY."""
    return 2


@slow_path
def find_challengers(state: State) -> None:
    """Sort the items that are not shown: first those that have not clearly lost to the last one shown; by number."""
    items, n_positions = state.items, state.n_positions
    lost = state.better[items[n_positions - 1]]
    for i in range(n_positions + 1, len(items)):
        item = items[i]
        k = i
        while k > n_positions:
            other = items[k - 1]
            if lost[other] < lost[item] or (lost[other] == lost[item] and other < item):
                break
            items[k] = other
            k -= 1
        items[k] = item
    state.challengers[0] = 0
    for i in range(n_positions, len(items)):
        state.challengers[0] += 1 - lost[items[i]]


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    items, n_positions = state.items, state.n_positions
    for k in range(n_positions):
        ranking[k] = items[k]
    state.step[0] += 1
    memo[0] = state.step[0] % 2
    memo[1] = NOBODY
    for k in range(state.step[0] % 2, n_positions, 2):
        if k + 1 < n_positions:
            if not state.better[items[k], items[k + 1]] and draw_index(rng, 2):
                ranking[k], ranking[k + 1] = items[k + 1], items[k]
        elif state.challengers[0] > 0:
            challenger = items[n_positions + draw_index(rng, state.challengers[0])]
            memo[1] = challenger
            if draw_index(rng, 2):
                ranking[k] = challenger
                memo[1] = items[k]


@kernel
def propensity(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    items, n_positions = state.items, state.n_positions
    for k in range(n_positions):
        out[k] = 1.0
    for k in range(int(memo[0]), n_positions - 1, 2):
        if not state.better[items[k], items[k + 1]]:
            out[k] = 0.5
            out[k + 1] = 0.5
    if memo[1] != NOBODY:
        stayed = ranking[n_positions - 1] == items[n_positions - 1]
        out[n_positions - 1] = 0.5 if stayed else 0.5 / state.challengers[0]


def best(state: State, ranking: IntArray) -> None:
    ranking[:] = state.items[: len(ranking)]


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    last = len(ranking) - 1
    for k in range(int(memo[0]), last, 2):
        if clicks[k] > clicks[k + 1]:
            count_win(state, ranking[k], ranking[k + 1])
        elif clicks[k] < clicks[k + 1]:
            count_win(state, ranking[k + 1], ranking[k])
    if memo[1] != NOBODY and clicks[last]:
        count_win(state, ranking[last], int(memo[1]))
    if state.unsettled[0]:
        exchange(state)


@kernel
def count_win(state: State, item: int, other: int) -> None:
    """Of two items that were compared one was clicked and the other was not."""
    state.wins[item, other] += 1
    lead = state.wins[item, other] - state.wins[other, item]
    n = state.wins[item, other] + state.wins[other, item]
    clear = lead * lead > 4 * n * state.log_delta
    if state.better[item, other] != (clear and lead > 0) or state.better[other, item] != (clear and lead < 0):
        state.better[item, other] = clear and lead > 0
        state.better[other, item] = clear and lead < 0
        state.unsettled[0] = 1


@slow_path
def exchange(state: State) -> None:
    """Neighbours change places for good, from the top to the last position and the items that are not shown."""
    items, last = state.items, state.n_positions - 1
    state.unsettled[0] = 0
    for k in range(last):
        if state.better[items[k + 1], items[k]]:
            items[k], items[k + 1] = items[k + 1], items[k]
            state.unsettled[0] = 1  # the pair above is a new one, and is looked at the next time
    if len(items) > last + 1:
        winner = last
        for i in range(last + 1, len(items)):
            if state.better[items[i], items[last]] and (winner == last or items[i] < items[winner]):
                winner = i
        if winner != last:
            items[last], items[winner] = items[winner], items[last]
            state.unsettled[0] = 1
        find_challengers(state)


# --- what is learned ----------------------------------------------------------------------------------------


def describe(state: State) -> dict[str, Any]:
    """The items between which the order is not clear yet stand together."""
    items, n_positions = state.items.tolist(), state.n_positions
    groups: list[dict[str, Any]] = []
    for k, item in enumerate(items[:n_positions]):
        if k > 0 and not state.better[items[k - 1], item]:
            groups[-1]["items"].append(item)
            groups[-1]["last"] = k + 1
        else:
            groups.append({"first": k + 1, "last": k + 1, "items": [item]})
    first_other = n_positions + int(state.challengers[0])
    groups[-1]["items"] += items[n_positions:first_other]
    others = [{"items": items[first_other:]}] if first_other < len(items) else []
    return {"items": [{"item": item} for item in range(len(items))], "groups": groups + others}


# --- what was stored ----------------------------------------------------------------------------------------


def possible(state: State, fresh: State) -> bool:
    n_items = len(state.items)
    return (
        like(state, fresh)
        and is_order(state.items, n_items)
        and within(state.better, 0, 2)
        and within(state.challengers, 0, n_items - state.n_positions + 1)
    )


@dataclass(frozen=True)
class BubbleRank(Policy):
    """BubbleRank: from a base list to a better one, safely.

    >>> from clickbandit import PositionBasedModel, simulate
    >>> model = PositionBasedModel(attraction=[0.1, 0.9, 0.5], examination=[1, 0.8])
    >>> simulate(BubbleRank(base="0/1/2"), model, positions=2, steps=20_000, seed=1).summary().final_lists
    [[1, 2]]
    """

    paper = "Li et al. 2019"
    title = "BubbleRank"
    colour = "green dashed"
    algorithm = Algorithm(init, memo_size, rank, update, best, prime=prime)
    live = Live(propensity=propensity, describe=describe, possible=possible)

    base: str = ""
    """The list to start from, as item numbers from 0 with slashes (2/0/1), the others behind in their order; without
    it, the order of the items, which in simulations is random."""
    power: float = 4.0
    """How sure a change must be: delta is T to the minus this power."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.power < math.inf:
            raise InputError(f"bubblerank: power must be a positive number, not {self.power}")

    def renumbered(self, number_of: Sequence[int]) -> Self:
        base = read_base(self.base, len(number_of))
        return replace(self, base="/".join(str(number_of[item]) for item in base))
