"""Rank1Elim: finds the best item and the best position by elimination, with Hoeffding's bounds.

It believes in the position-based model, in which the best item is the same for every position and the best position
the same for every item, and needs to know neither the examination nor its order. Rows (items) and columns (positions)
are observed equally often in stages of four times the observations, and eliminated when they cannot be the best. The
regret of the pair, the clicks it loses against the best item at the best position, is O((K + L) / gap log T); the
bounds do not get tighter as users click less, for which see Rank1ElimKL. The paper is about that pair alone: how the
rest of the list is filled stands in `rank1`, and the list's regret has no guarantee.

Katariya, Kveton, Szepesvári, Vernade, Wen: Stochastic Rank-1 Bandits (AISTATS 2017), Algorithm 1.

Draws of `rank`: see `rank1`.
"""

from dataclasses import dataclass

from clickbandit.policies import rank1
from clickbandit.policies.base import Policy
from clickbandit.policies.contract import Algorithm, Live


def init(n_items: int, n_positions: int, *, horizon: int) -> rank1.State:
    """Stages of n_l = ceil(4 * 4^l log T) observations."""
    return rank1.start(n_items, n_positions, name="rank1elim", horizon=horizon, factor=4.0, hoeffding=True)


@dataclass(frozen=True)
class Rank1Elim(Policy):
    """The best item and the best position, by elimination of rows and columns.

    >>> from clickbandit import PositionBasedModel, simulate
    >>> model = PositionBasedModel(attraction=[0.1, 0.9, 0.4], examination=[0.5, 1])
    >>> simulate(Rank1Elim(), model, positions=2, steps=2_000, seed=1).summary().final_lists
    [[2, 1]]
    """

    paper = "Katariya et al. 2017a"
    title = "Rank1Elim"
    colour = "purple dotted"
    algorithm = Algorithm(init, rank1.memo_size, rank1.rank, rank1.update, rank1.best, rank1.void)
    live = Live(describe=rank1.describe, possible=rank1.possible)
