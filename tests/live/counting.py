"""A policy that only counts: what it was told, before it started and then, can be read off its state."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit import Algorithm, Live, Policy
from clickbandit.priors import Lesson


class State(NamedTuple):
    lists: np.ndarray  # how many were made
    voids: np.ndarray
    observed: np.ndarray  # of each item
    clicks: np.ndarray
    expected: np.ndarray  # what its prior said


def init(n_items, n_positions, *, horizon):
    return State(*(np.zeros(n, np.int64) for n in (1, 1, n_items, n_items)), np.zeros(n_items))


def prime(state, prior):
    return state._replace(expected=np.array(prior.attraction))


def teach(state):
    return Lesson(state.clicks.astype(float).tolist(), state.observed.astype(float).tolist())


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
    entries = zip(state.observed.tolist(), state.clicks.tolist(), state.expected.tolist(), strict=True)
    return {
        "items": [
            {"item": i, "observed": n, "clicks": c, "expected": e} for i, (n, c, e) in enumerate(entries)
        ]
    }


@dataclass(frozen=True)
class Counting(Policy):
    """Shows items at random, and counts."""

    algorithm = Algorithm(init, memo_size, rank, update, best, void, prime=prime)
    live = Live(describe=describe, teach=teach)
