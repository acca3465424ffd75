"""PBM-TS: draws each item's attraction from its posterior and shows the highest draws, where the examination is known.

It believes in the position-based model, and is told how often users examine each position; before the first click
any attraction is as likely as any other. The highest draw goes to the position that users examine most. It explores
by the chance of its draws alone; in experiments it is near the best, with a proof for regret O(log T) still missing.
In other click models it has no guarantee.

Lagrée, Vernade, Cappé: Multiple-Play Bandits in the Position-Based Model (NIPS 2016), section 5. They number positions
by decreasing examination; any other order is only another numbering.

The density of an item's attraction q is proportional to the product of q^S_k (1 - kappa_k q)^(N_k - S_k) over the
positions k. It is drawn by rejection: from the factor of the position m that showed the item most often, which is that
of a Beta variable over kappa_m, and accepted with the ratio of the other factors to their highest product.

Draws of `rank`, item by item: at most 100 tries of Beta(S_m + 1, N_m - S_m + 1) / kappa_m (`draw_beta`), each
followed, unless it is above 1 or no other position showed the item, by a uniform number that must be below the ratio. m
is the most examined of the positions that showed it most often. After 100 tries the last value is taken, clipped to 1.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.policies import pbm
from clickbandit.policies.cascading import highest_first
from clickbandit.policies.common import sort_by_decreasing
from clickbandit.policies.contract import Algorithm, Live, no_memo
from clickbandit.policies.pbm import PBMPolicy, describe_items, first_seen, learn, show
from clickbandit.policies.pbm_likelihood import likeliest, log_likelihood
from clickbandit.policies.possible import within
from clickbandit.policies.sampling import draw_beta

# --- settings and state -------------------------------------------------------------------------------------

MAX_TRIES = 100


class State(NamedTuple):
    """What was seen of each item (`pbm.first_seen`), and where to draw its attraction from."""

    displays: IntArray
    clicks: IntArray
    examined: FloatArray
    estimate: FloatArray
    main: IntArray
    """By item: m, the position that showed it most often."""
    alone: IntArray
    """By item: 1 while no other position showed it."""
    likeliest: FloatArray
    """By item: the attraction that is the most likely by what the other positions saw."""
    peak: FloatArray
    """By item: the log-likelihood of that."""
    sample: FloatArray
    """By item: the last draw."""
    order: IntArray
    """All items, those shown last in front."""
    examination: FloatArray
    places: IntArray


def init(n_items: int, n_positions: int, *, horizon: int, examination: Any = "") -> State:
    seen = first_seen(n_items, n_positions, examination)
    return State(
        **seen,
        main=np.full(n_items, seen["places"][0]),
        alone=np.ones(n_items, np.int64),
        likeliest=np.full(n_items, 0.5),
        peak=np.zeros(n_items),
        sample=np.zeros(n_items),
        order=np.arange(n_items),
    )


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    for item in range(len(state.order)):
        state.sample[item] = draw_attraction(state, item, rng)
    if highest_first(state.sample, state.order, len(ranking), 0.0):
        sort_by_decreasing(
            state.sample, state.order
        )  # of equal draws the item with the lowest number is first
    show(state.order, state.places, ranking)


@slow_path
def draw_attraction(state: State, item: int, rng: np.random.Generator) -> float:
    """One draw from the posterior of an item's attraction."""
    main = state.main[item]
    clicks, displays = state.clicks[item], state.displays[item]
    a, b = clicks[main] + 1.0, displays[main] - clicks[main] + 1.0
    attraction = 0.0
    for _ in range(MAX_TRIES):
        attraction = draw_beta(rng, a, b) / state.examination[main]
        if attraction <= 1:
            if state.alone[item]:
                break
            ratio = log_likelihood(clicks, displays, state.examination, main, attraction) - state.peak[item]
            if rng.random() < math.exp(ratio):
                break
    return min(attraction, 1.0)


def describe(state: State) -> dict[str, Any]:
    return {"items": describe_items(state)}


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    learn(state, ranking, clicks)
    for k in range(len(ranking)):
        if k != state.main[ranking[k]]:  # else nothing changed at the other positions
            find_peak(state, ranking[k])


@slow_path
def find_peak(state: State, item: int) -> None:
    """Where to draw an item's attraction from, and what to compare the other positions' likelihood with."""
    clicks, displays = state.clicks[item], state.displays[item]
    main = state.places[0]
    total = 0
    for k in state.places:
        total += displays[k]
        if displays[k] > displays[main]:
            main = k
    state.main[item] = main
    state.alone[item] = displays[main] == total
    state.likeliest[item] = likeliest(clicks, displays, state.examination, main, state.likeliest[item])
    state.peak[item] = log_likelihood(clicks, displays, state.examination, main, state.likeliest[item])


# --- what was stored ----------------------------------------------------------------------------------------


def possible(state: State, fresh: State) -> bool:
    return pbm.possible(state, fresh) and within(state.main, 0, len(state.places))


@dataclass(frozen=True)
class PBMTS(PBMPolicy):
    """Thompson sampling in the position-based model with a known examination.

    >>> from clickbandit import PositionBasedModel, simulate
    >>> model = PositionBasedModel(attraction=[0.3, 0.9, 0.6], examination=[1, 0.5])
    >>> simulate(PBMTS(), model, positions=2, steps=2_000, seed=1).summary().final_lists
    [[1, 2]]
    """

    paper = "Lagrée et al. 2016"
    title = "PBM-TS"
    colour = "clay dashed"
    algorithm = Algorithm(init, no_memo, rank, update, pbm.best, prime=pbm.prime)
    live = Live(describe=describe, possible=possible)
