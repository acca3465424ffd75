"""RankedExp3: one adversarial bandit for each position, blind to what the others do.

It believes nothing about users at all, not even that they are the same tomorrow. Position by position an Exp3
learner draws an item; an item that is in the list already is replaced by a random other one, and then its learner
is told that it earned nothing. It is slow, and it can settle on a list that is good only against itself.

Radlinski, Kleinberg, Joachims: Learning Diverse Rankings with Multi-Armed Bandits (ICML 2008); Auer, Cesa-Bianchi,
Freund, Schapire: Gambling in a Rigged Casino (FOCS 1995).

Draws of `rank`, position by position: the learner's item, and where that is in the list already, the item instead.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.policies.base import Policy
from clickbandit.policies.common import draw_index
from clickbandit.policies.contract import Algorithm, Live
from clickbandit.policies.items import by_item, renumber_drawn
from clickbandit.policies.ranked import earned, favourites, possible, show

MAX_BITS = 62
"""Up to this many items, a partial list is a number with a bit for each: a step takes a tenth less time."""

PAPER_POSITIONS, PAPER_ITEMS = 5, 10
"""The size of the paper's experiment has loops of its own, whose length the compiler knows: a step takes a sixth less
time."""

MAX_SERIES_CHANGE = 2.0**-4
"""A score's change below this multiplies the weight by a few terms of the exponential's series."""

# --- settings and state -------------------------------------------------------------------------------------


class State(NamedTuple):
    """Arrays with a row for each position's learner."""

    score: FloatArray
    """By learner and item: the exponent of its weight."""
    weight: FloatArray
    """By learner and item: exp(score - shift), but for rounding."""
    shift: FloatArray
    """By learner: subtracted from all scores before they are made weights, so that these neither vanish nor explode."""
    total: FloatArray
    """By learner: the sum of its weights."""
    usual: FloatArray
    """By learner: what the sum was when the weights were last made from the scores."""
    in_list: IntArray
    """By item: the last step at which it was put in the list, where items are not few."""
    step: IntArray
    """How many lists were made."""
    rate: float
    """How much a reward changes a score: eta, or gamma / L with mixing."""
    uniform: float
    """gamma, the share of draws that are uniform: 0 without mixing."""
    horizon: int


def init(n_items: int, n_positions: int, *, horizon: int, mixing: bool = False) -> State:
    rate, uniform = constants(n_items, horizon, mixing)
    return State(
        score=np.zeros((n_positions, n_items)),
        weight=np.ones((n_positions, n_items)),
        shift=np.zeros(n_positions),
        total=np.full(n_positions, float(n_items)),
        usual=np.full(n_positions, float(n_items)),
        in_list=np.zeros(n_items, np.int64),
        step=np.zeros(1, np.int64),
        rate=rate,
        uniform=uniform,
        horizon=horizon,
    )


def constants(n_items: int, horizon: int, mixing: bool) -> tuple[float, float]:
    """The rate and the uniform share."""
    if mixing:
        uniform = min(1.0, math.sqrt(n_items * math.log(n_items) / ((math.e - 1) * horizon)))
        return uniform / n_items, uniform
    return math.sqrt(2 * math.log(n_items) / (horizon * n_items)), 0.0


def memo_size(n_items: int, n_positions: int) -> int:
    """For each position the item that its learner drew, then for each position one over the probability of that."""
    return 2 * n_positions


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    n_positions, n_items = state.weight.shape
    if n_positions == PAPER_POSITIONS and n_items == PAPER_ITEMS:
        fill(state, rng, ranking, memo, PAPER_POSITIONS, PAPER_ITEMS)
    else:
        fill(state, rng, ranking, memo, n_positions, n_items)


@kernel
def fill(
    state: State,
    rng: np.random.Generator,
    ranking: IntArray,
    memo: FloatArray,
    n_positions: int,
    n_items: int,
) -> None:
    state.step[0] += 1
    step, listed = state.step[0], 0
    for k in range(n_positions):
        weight, total, place = state.weight[k], state.total[k], rng.random()
        if state.uniform == 0:
            item = draw(weight, n_items, total, place)
            inverse = total / weight[item]
        else:
            item, inverse = draw_mixed(weight, total, state.uniform, place)
        memo[k], memo[n_positions + k] = item, inverse
        if n_items > MAX_BITS:
            ranking[k] = show(item, state.in_list, step, rng, n_items - k)
            continue
        if listed >> item & 1:
            item = absent(listed, k, draw_index(rng, n_items - k))
        listed |= 1 << item
        ranking[k] = item


@kernel
def draw(weight: FloatArray, n_items: int, total: float, place: float) -> int:
    """The item at this place, between 0 and 1, of a learner's weights.

    It is how many items end at or before this place. They are added up from both ends, as a sum waits for the one
    before it; and all of them, as a way out in between would be mispredicted, which costs more.
    """
    half = (n_items - 1) // 2
    below = place * total
    above = total - below
    item, first, last = 0, 0.0, 0.0
    for i in range(half):
        first += weight[i]
        last += weight[n_items - 1 - i]
        item += first <= below
        item += last >= above
    if n_items % 2 == 0:
        item += first + weight[half] <= below
    return item


@kernel
def draw_mixed(weight: FloatArray, total: float, uniform: float, place: float) -> tuple[int, float]:
    """The item at this place of a learner's weights mixed with a uniform share, and one over its probability."""
    if place < uniform:
        item = int(place / uniform * len(weight))
    else:
        item = draw(weight, len(weight), total, (place - uniform) / (1 - uniform))
    return item, 1 / ((1 - uniform) * (weight[item] / total) + uniform / len(weight))


@kernel
def absent(listed: int, n_listed: int, n: int) -> int:
    """As `ranked.absent`, the n-th item that is not in the list yet, of which `listed` has a bit for each item.

    From the lowest up, each item in the list that is not above the one found so far moves it up by one.
    """
    item, bit = n, 1 << n
    for _ in range(n_listed):
        lowest = listed & -listed
        listed ^= lowest
        item += lowest <= bit
        bit <<= lowest <= bit
    return item


def best(state: State, ranking: IntArray) -> None:
    """Position by position the item with the highest weight that is not in the list yet."""
    favourites(state.score, ranking)


def describe(state: State) -> dict[str, Any]:
    """Scores say nothing by themselves: what a learner earns with an item depends on the learners above it."""
    return {"items": [{"item": item} for item in range(len(state.in_list))]}


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    """Position k's learner earned 1 if the item that it drew was shown there and clicked, else 0.

    Without mixing a loss of 1 lowers the score by eta / p; with mixing a reward of 1 raises it by gamma / (p L).
    """
    if len(ranking) == PAPER_POSITIONS:
        learn(state, ranking, clicks, memo, PAPER_POSITIONS)
    else:
        learn(state, ranking, clicks, memo, len(ranking))


@kernel
def learn(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray, n_positions: int) -> None:
    mixing = state.uniform > 0
    rate = state.rate if mixing else -state.rate
    usual = True
    for k in range(n_positions):
        item = int(memo[k])
        change = rate * memo[n_positions + k]
        small = abs(change) < MAX_SERIES_CHANGE
        before = state.weight[k, item]
        more = before * growth(change if small else 0.0)  # does not wait for the clicks
        reward = earned(k, ranking, clicks, memo)
        changes = reward if mixing else 1 - reward  # also 0: a way around would be mispredicted
        state.score[k, item] += change * changes
        after = before + more * changes
        total = state.total[k] + (after - before)
        state.weight[k, item] = after
        state.total[k] = total
        usual = usual & small & (state.usual[k] / 2 < total) & (total < state.usual[k] * 2)
    if not usual:
        settle(state, memo)


@kernel
def growth(x: float) -> float:
    """exp(x) - 1 for a small x, so that 1 more than it is exp(x) to the last bit."""
    square = x * x
    fourth = square * square
    low = (1 / 2 + x * (1 / 6)) + square * (1 / 24 + x * (1 / 120))
    high = (1 / 720 + x * (1 / 5040)) + square * (1 / 40320)
    return x + square * (low + fourth * high)


@slow_path
def settle(state: State, memo: FloatArray) -> None:
    """What is rare, for all positions at once, so that the loop above calls nothing: weights whose scores change by
    much, and sums of weights that are not as usual any more."""
    n_positions = len(state.total)
    for k in range(n_positions):
        if state.rate * memo[n_positions + k] >= MAX_SERIES_CHANGE:
            item = int(memo[k])
            before = state.weight[k, item]
            state.weight[k, item] = math.exp(state.score[k, item] - state.shift[k])
            state.total[k] += state.weight[k, item] - before
        if not state.usual[k] / 2 < state.total[k] < state.usual[k] * 2:
            rescale(state, k)


@slow_path
def rescale(state: State, learner: int) -> None:
    """Make the weights from the scores, the largest 1, and add them up: what rounding left in the sum is gone."""
    state.shift[learner] = state.score[learner, 0]
    for item in range(state.score.shape[1]):
        state.shift[learner] = max(state.shift[learner], state.score[learner, item])
    state.total[learner] = 0.0
    for item in range(state.score.shape[1]):
        state.weight[learner, item] = math.exp(state.score[learner, item] - state.shift[learner])
        state.total[learner] += state.weight[learner, item]
    state.usual[learner] = state.total[learner]


# --- items that come and go ---------------------------------------------------------------------------------

_admit, _retire = by_item(score=0.0, weight=0.0, in_list=0)


def admit(state: State, n_new: int) -> State:
    """A new item starts with a learner's mean weight, and so is drawn one in L times."""
    n_items = len(state.in_list)
    mean = np.log(state.total / n_items) + state.shift
    state = _admit(state, n_new)
    state.score[:, n_items:] = mean[:, None]
    return _tuned(state)


def retire(state: State, item: int) -> State:
    return _tuned(_retire(state, item))


def _tuned(state: State) -> State:
    """The constants for as many items as there are now, and weights from the scores."""
    rate, uniform = constants(len(state.in_list), state.horizon, state.uniform > 0)
    for learner in range(len(state.total)):
        interpreted(rescale)(state, learner)
    return state._replace(rate=rate, uniform=uniform)


def renumber(memo: FloatArray, numbers: IntArray, n_items: int) -> FloatArray:
    return renumber_drawn(memo, numbers, len(memo) // 2)


@dataclass(frozen=True)
class RankedExp3(Policy):
    """Ranked bandits with Exp3, as the paper ran it or with Auer's mixing.

    >>> str(RankedExp3(mixing=True))
    'ranked-exp3:mixing=true'
    """

    paper = "Radlinski et al. 2008"
    title = "RankedExp3"
    colour = "gray"
    algorithm = Algorithm(init, memo_size, rank, update, best)
    live = Live(describe=describe, admit=admit, retire=retire, renumber=renumber, possible=possible)

    mixing: bool = False
    """Whether a share of the draws is uniform, as in Auer et al.; the paper's runs had none."""
