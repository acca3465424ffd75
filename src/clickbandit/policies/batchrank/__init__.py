"""BatchRank: divides the items into batches, shows each batch in random order, and splits it once that is safe.

It believes only that a user examines lower positions less and does not care in which order the items above stand,
as in the cascade and the position-based model alike. Random order inside a batch makes every item's clicks a fair
measure of its attraction; a stage ends when each item was observed equally often, and then a batch is split, or
loses the items that cannot belong to it, or explores on with four times the observations. Its regret is
O(K^3 L / gap log T).

Zoghi, Tunys, Ghavamzadeh, Kveton, Szepesvári, Wen: Online Learning to Rank in Stochastic Click Models (ICML 2017),
Algorithms 1 to 4 and Theorem 1. One deliberate difference: the stage of a batch that could not be split always
advances. The printed Algorithm 4 advances it only while items can be eliminated, and a batch with as many items as
positions would then never be tested again; Lemma 7 needs the test.

`state` and `algorithm` are the paper's algorithm; `late` serves feedback that is late or never comes, `items` items
that come and go, `leaps` the simulator, `describe` people. `experiment` is the version behind the paper's figures.
"""

from dataclasses import dataclass
from typing import Literal

from clickbandit.policies.base import Policy
from clickbandit.policies.batchrank import experiment, experiment_live
from clickbandit.policies.batchrank.algorithm import best, rank, update
from clickbandit.policies.batchrank.describe import describe, prefix, propensity
from clickbandit.policies.batchrank.items import admit, retire
from clickbandit.policies.batchrank.late import void
from clickbandit.policies.batchrank.leaps import LEAPS
from clickbandit.policies.batchrank.state import init, memo_size, possible
from clickbandit.policies.contract import Algorithm, Leaps, Live

ALGORITHM = Algorithm(init, memo_size, rank, update, best, void)
LIVE = Live(
    propensity=propensity,
    describe=describe,
    admit=admit,
    retire=retire,
    prefix=prefix,
    possible=possible,
)


@dataclass(frozen=True)
class BatchRank(Policy):
    """BatchRank, as printed in the paper or as its figures were run.

    >>> from clickbandit import PositionBasedModel, simulate
    >>> model = PositionBasedModel(attraction=[0.9, 0.6, 0.3], examination=[1, 0.5])
    >>> simulate(BatchRank(), model, positions=2, steps=2_000, seed=1).summary().final_lists
    [[0, 1]]
    """

    paper = "Zoghi et al. 2017"
    title = "BatchRank"
    colour = "vermillion dashed"

    variant: Literal["printed", "experiment"] = "printed"
    """The algorithm as printed, or the version behind the paper's figures, with about half the regret."""
    bounds: Literal["kl", "hoeffding"] = "kl"
    """The confidence bounds; with Hoeffding's the regret grows as users examine less."""
    eliminate: bool = True
    """Whether items that cannot belong to the list are dropped; else the regret is quadratic in their number."""

    @property
    def algorithm(self) -> Algorithm:
        return experiment.ALGORITHM if self.variant == "experiment" else ALGORITHM

    @property
    def leaps(self) -> Leaps:
        return experiment_live.LEAPS if self.variant == "experiment" else LEAPS

    @property
    def live(self) -> Live:
        return experiment_live.LIVE if self.variant == "experiment" else LIVE
