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

MAX_SERIES_CHANGE = 2.0**-6
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
    state.step[0] += 1
    step, listed = state.step[0], 0
    for k in range(n_positions):
        item = draw(state.weight[k], state.total[k], state.uniform, rng.random())
        memo[k] = item
        if state.uniform > 0:
            share = state.weight[k, item] / state.total[k]
            memo[n_positions + k] = 1 / ((1 - state.uniform) * share + state.uniform / n_items)
        else:
            memo[n_positions + k] = state.total[k] / state.weight[k, item]
        if n_items > MAX_BITS:
            ranking[k] = show(item, state.in_list, step, rng, n_items - k)
            continue
        if listed >> item & 1:
            item = absent(listed, n_items, draw_index(rng, n_items - k))
        listed |= 1 << item
        ranking[k] = item


@kernel
def absent(listed: int, n_items: int, n: int) -> int:
    """As `ranked.absent`, the n-th item that is not in the list yet, of which `listed` has a bit for each item."""
    item, found = 0, 0
    for i in range(n_items):
        found += listed >> i & 1 ^ 1
        item += found <= n
    return item


@kernel
def draw(weight: FloatArray, total: float, uniform: float, place: float) -> int:
    """The item at this place, between 0 and 1, of a learner's distribution."""
    if uniform > 0:
        if place < uniform:
            return int(place / uniform * len(weight))
        place = (place - uniform) / (1 - uniform)
    item = 0
    cumulated = 0.0
    for i in range(
        len(weight) - 1
    ):  # to the end: a way out in between would be mispredicted, which costs more
        cumulated += weight[i]
        item += cumulated <= place * total
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
    n_positions = len(ranking)
    for k in range(n_positions):
        item = int(memo[k])
        reward = earned(k, ranking, clicks, memo)
        gain = reward if state.uniform > 0 else reward - 1
        change = state.rate * gain * memo[n_positions + k]  # also 0: a way around would be mispredicted
        state.score[k, item] += change
        before = state.weight[k, item]
        if abs(change) < MAX_SERIES_CHANGE:
            state.weight[k, item] = before + before * growth(change)
        else:
            state.weight[k, item] = math.exp(state.score[k, item] - state.shift[k])
        state.total[k] += state.weight[k, item] - before
        if not state.usual[k] / 2 < state.total[k] < state.usual[k] * 2:
            rescale(state, k)


@kernel
def growth(x: float) -> float:
    """exp(x) - 1 for a small x, so that 1 more than it is exp(x) to the last bit."""
    square = x * x
    return x + square * ((1 / 2 + x * (1 / 6)) + square * ((1 / 24 + x * (1 / 120)) + square * (1 / 720)))


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
