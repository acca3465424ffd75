"""PBM-PIE: shows the best items so far, and now and then tries one that might be better, at the last position only.

It believes in the position-based model, and is told how often users examine each position. The list is that of the
highest estimated attractions; an item outside it is a candidate if an attraction as high as the list's least estimate
is still likely, by a likelihood ratio over all positions. At every other step, by chance, a candidate takes the place
of the last item. Exploring costs least there, and the regret is asymptotically the least possible in this model:
O(log T) with the constant of the lower bound. In other click models it has no guarantee.

Lagrée, Vernade, Cappé: Multiple-Play Bandits in the Position-Based Model (NIPS 2016), Algorithm 1. They number
positions by decreasing examination; with any other order "the last position" is the one that users examine least.
Where the counts contradict the examination so much that no attraction is likely, the bound is the likeliest one.

Draws of `rank`: none in the first L steps, which show the items in turn: step t has item t + k (mod L) at position k.
Later, only if there are candidates: whether to try one (a number below 1/2), then which, by item number.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.policies import pbm
from clickbandit.policies.common import draw_index, sort_by_decreasing
from clickbandit.policies.contract import Algorithm, Live, no_memo
from clickbandit.policies.pbm import BoundedPBMPolicy, describe_items, first_seen, learn, show
from clickbandit.policies.pbm_likelihood import highest_likely
from clickbandit.priors import Prior

# --- settings and state -------------------------------------------------------------------------------------


class State(NamedTuple):
    """What was seen of each item (`pbm.first_seen`), and the bounds."""

    displays: IntArray
    clicks: IntArray
    examined: FloatArray
    estimate: FloatArray
    upper: FloatArray
    """By item: U, the highest likely attraction, unless `stale`."""
    stale: IntArray
    """By item: 1 if it was seen since its bound was computed. Bounds of items in the list are not needed."""
    order: IntArray
    """All items by decreasing estimate."""
    step: IntArray
    """How many lists were made, t."""
    examination: FloatArray
    places: IntArray
    budget: float
    """(1 + epsilon) log T."""


def init(
    n_items: int, n_positions: int, *, horizon: int, examination: Any = "", epsilon: float = 0.0
) -> State:
    return State(
        **first_seen(n_items, n_positions, examination),
        upper=np.ones(n_items),
        stale=np.zeros(n_items, np.int64),
        order=np.arange(n_items),
        step=np.zeros(1, np.int64),
        budget=(1 + epsilon) * math.log(horizon),
    )


def prime(state: State, prior: Prior) -> State:
    """As displays; nobody need be shown in turn."""
    state = pbm.prime(state, prior)
    state.stale[:] = 1
    state.step[0] = len(state.order)
    return state


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    state.step[0] += 1
    n_items, n_positions = len(state.order), len(ranking)
    if state.step[0] <= n_items:
        for k in range(n_positions):
            ranking[k] = (state.step[0] - 1 + k) % n_items
        return
    sort_by_decreasing(state.estimate, state.order)
    show(state.order, state.places, ranking)
    n_candidates = count_candidates(state, n_positions)
    if n_candidates > 0 and rng.random() < 1 / 2:
        number = draw_index(rng, n_candidates)
        for item in range(n_items):
            if is_candidate(state, item, n_positions):
                if number == 0:
                    ranking[state.places[n_positions - 1]] = item
                    break
                number -= 1


@kernel
def count_candidates(state: State, n_positions: int) -> int:
    n = 0
    for item in range(len(state.order)):
        n += is_candidate(state, item, n_positions)
    return n


@kernel
def is_candidate(state: State, item: int, n_positions: int) -> bool:
    """Whether an item is not among the best, but may be: U is at least the least of their estimates."""
    last = state.order[n_positions - 1]
    ahead = state.estimate[item] - state.estimate[last]
    if ahead > 0 or (ahead == 0 and item <= last):
        return False
    if state.stale[item]:
        compute_bound(state, item)
    return bool(state.upper[item] >= state.estimate[last])


@slow_path
def compute_bound(state: State, item: int) -> None:
    clicks, displays = state.clicks[item], state.displays[item]
    state.upper[item] = highest_likely(
        clicks, displays, state.examination, state.budget, state.estimate[item]
    )
    state.stale[item] = 0


@kernel
def propensity(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    for k in range(len(ranking)):
        out[k] = 1.0
    n_candidates = count_candidates(state, len(ranking)) if state.step[0] > len(state.order) else 0
    if n_candidates > 0:
        last = state.places[len(ranking) - 1]
        tried = ranking[last] != state.order[len(ranking) - 1]
        out[last] = 1 / 2 / n_candidates if tried else 1 / 2


def describe(state: State) -> dict[str, Any]:
    bounds = [
        interpreted(highest_likely)(clicks, displays, state.examination, state.budget, estimate)
        for clicks, displays, estimate in zip(state.clicks, state.displays, state.estimate, strict=True)
    ]
    return {"items": describe_items(state, high=np.array(bounds))}


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    learn(state, ranking, clicks)
    for k in range(len(ranking)):
        state.stale[ranking[k]] = 1


@dataclass(frozen=True)
class PBMPIE(BoundedPBMPolicy):
    """Parsimonious item exploration in the position-based model with a known examination.

    >>> from clickbandit import PositionBasedModel, simulate
    >>> model = PositionBasedModel(attraction=[0.3, 0.9, 0.6], examination=[1, 0.5])
    >>> simulate(PBMPIE(), model, positions=2, steps=2_000, seed=1).summary().final_lists
    [[1, 2]]
    """

    paper = "Lagrée et al. 2016"
    title = "PBM-PIE"
    colour = "clay dotted"
    algorithm = Algorithm(init, no_memo, rank, update, pbm.best, prime=prime)
    live = Live(propensity=propensity, describe=describe, possible=pbm.possible)
