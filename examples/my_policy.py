"""A policy of your own, in one file: show the items with the most clicks, and now and then a random list.

    clickbandit simulate --queries examples/queries.json --policy examples/my_policy.py:EpsilonGreedy \\
        --policy examples/my_policy.py:EpsilonGreedy:epsilon=0.01 --policy batchrank --steps 1e5

Kernels (`@kernel`) are compiled: they work on existing arrays and make none. Without the decorator the same policy runs
as plain Python; the types are for type checkers, and can be left out too.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit import Algorithm, FloatArray, IntArray, Policy, kernel


class State(NamedTuple):
    clicks: FloatArray  # of each item
    items: IntArray  # all items, in some order
    epsilon: float


def init(n_items: int, n_positions: int, *, horizon: int, epsilon: float) -> State:
    return State(np.zeros(n_items), np.arange(n_items), epsilon)


def memo_size(n_items: int, n_positions: int) -> int:
    return 0


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    explore = rng.random() < state.epsilon
    for k in range(len(ranking)):
        chosen = k
        if explore:
            chosen += int(rng.random() * (len(state.items) - k))
        else:
            for i in range(k, len(state.items)):
                if state.clicks[state.items[i]] > state.clicks[state.items[chosen]]:
                    chosen = i
        state.items[k], state.items[chosen] = state.items[chosen], state.items[k]
        ranking[k] = state.items[k]


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    for k in range(len(ranking)):
        state.clicks[ranking[k]] += clicks[k]


def best(state: State, ranking: IntArray) -> None:
    ranking[:] = np.argsort(-state.clicks, kind="stable")[: len(ranking)]


@dataclass(frozen=True)
class EpsilonGreedy(Policy):
    """Most clicked first, with a share of random lists."""

    algorithm = Algorithm(init, memo_size, rank, update, best)

    epsilon: float = 0.1
