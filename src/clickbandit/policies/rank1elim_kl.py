"""Rank1ElimKL: finds the best item and the best position by elimination, with KL bounds.

As Rank1Elim it believes in the position-based model with an examination that nobody knows, and eliminates rows (items)
and columns (positions) in stages. Its bounds are those of KL-UCB, which are tight where users click little; its stages
are four times as long. The regret of the pair, the clicks it loses against the best item at the best position, is
O((K + L) / (mean gap) log T), without the factors by which Rank1Elim's grows as the means get small. How the rest of
the list is filled stands in `rank1`, and the list's regret has no guarantee.

Katariya, Kveton, Szepesvári, Vernade, Wen: Bernoulli Rank-1 Bandits for Click Feedback (IJCAI 2017), Algorithm 1.

Draws of `rank`: see `rank1`.
"""

from dataclasses import dataclass

from clickbandit.policies import rank1
from clickbandit.policies.base import Policy
from clickbandit.policies.contract import Algorithm, Live


def init(n_items: int, n_positions: int, *, horizon: int) -> rank1.State:
    """Stages of n_l = ceil(16 * 4^l log T) observations, and a budget of log T + 3 log log T."""
    return rank1.start(
        n_items, n_positions, name="rank1elim-kl", horizon=horizon, factor=16.0, hoeffding=False
    )


@dataclass(frozen=True)
class Rank1ElimKL(Policy):
    """The best item and the best position, by elimination of rows and columns with KL bounds.

    >>> from clickbandit import PositionBasedModel, simulate
    >>> model = PositionBasedModel(attraction=[0.1, 0.9, 0.4], examination=[0.5, 1])
    >>> simulate(Rank1ElimKL(), model, positions=2, steps=2_000, seed=1).summary().final_lists
    [[2, 1]]
    """

    paper = "Katariya et al. 2017b"
    title = "Rank1ElimKL"
    colour = "purple dash-dotted"
    algorithm = Algorithm(init, rank1.memo_size, rank1.rank, rank1.update, rank1.best, rank1.void)
    live = Live(describe=rank1.describe, possible=rank1.possible)
