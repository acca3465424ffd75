"""A policy that only counts: what it was told, no more and no less, can be read off its state."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit import Algorithm, Live, Policy


class State(NamedTuple):
    lists: np.ndarray  # how many were made
    voids: np.ndarray
    observed: np.ndarray  # of each item
    clicks: np.ndarray


def init(n_items, n_positions, *, horizon):
    return State(*(np.zeros(n, np.int64) for n in (1, 1, n_items, n_items)))


def memo_size(n_items, n_positions):
    return 1


def rank(state, rng, ranking, memo):
    """The items in random order."""
    ranking[:] = np.argsort(rng.random(len(state.clicks)), kind="stable")[: len(ranking)]
    memo[0] = state.lists[0]
    state.lists[0] += 1


def update(state, ranking, clicks, memo):
    state.observed[ranking] += 1
    state.clicks[ranking] += clicks


def void(state, ranking, memo):
    state.voids[0] += 1


def best(state, ranking):
    ranking[:] = np.argsort(-state.clicks, kind="stable")[: len(ranking)]


def describe(state):
    entries = zip(state.observed.tolist(), state.clicks.tolist(), strict=True)
    return {"items": [{"item": i, "observed": n, "clicks": c} for i, (n, c) in enumerate(entries)]}


@dataclass(frozen=True)
class Counting(Policy):
    """Shows items at random, and counts."""

    algorithm = Algorithm(init, memo_size, rank, update, best, void)
    live = Live(describe=describe)
