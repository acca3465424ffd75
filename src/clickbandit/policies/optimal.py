"""The best list at every step: what knowing everything would give.

Is told the best list, shows it, and has no regret: the yardstick at the top.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.policies.base import Policy
from clickbandit.policies.contract import Algorithm, no_memo

# --- settings and state -------------------------------------------------------------------------------------


class State(NamedTuple):
    """What the policy was told."""

    best_list: IntArray
    """The list with the most expected clicks."""


def init(n_items: int, n_positions: int, *, horizon: int, best_list: Sequence[int]) -> State:
    return State(best_list=np.array(best_list, np.int64))


# --- rank ---------------------------------------------------------------------------------------------------


@kernel
def rank(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    for k in range(len(ranking)):
        ranking[k] = state.best_list[k]


def best(state: State, ranking: IntArray) -> None:
    ranking[:] = state.best_list


# --- update -------------------------------------------------------------------------------------------------


@kernel
def update(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    pass


@dataclass(frozen=True)
class Optimal(Policy):
    """The best list at every step, which only a simulation can know.

    >>> Optimal().knows
    ('best_list',)
    """

    paper = "yardstick: the best list known"
    title = "the best list"
    colour = "black"
    algorithm = Algorithm(init, no_memo, rank, update, best)
    knows = ("best_list",)
