"""The best list at every step: what knowing everything would give.

Is told the best list, shows it, and has no regret: the yardstick at the top.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clickbandit.policies.base import Policy
from clickbandit.policies.contract import Algorithm, no_memo
from clickbandit.policies.given import State, best, rank, update


def init(n_items: int, n_positions: int, *, horizon: int, best_list: Sequence[int]) -> State:
    return State(order=np.array(best_list, np.int64))


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
