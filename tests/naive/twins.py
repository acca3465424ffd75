"""Which plain class is the twin of which policy."""

from collections.abc import Callable
from typing import Any

from naive import policies, positional, relations

TWINS: dict[str, Callable[..., Any]] = {
    "batchrank": policies.BatchRank,
    "batchrank:variant=experiment": policies.BatchRankExperiment,
    "cascade-kl-ucb": policies.CascadeKLUCB,
    "ranked-exp3": policies.RankedExp3,
    "random": policies.Random,
    "optimal": policies.Optimal,
    "toprank": relations.TopRank,
    "pbm-pie": positional.PBMPIE,
    "pbm-ts": positional.PBMTS,
    "pbm-ucb": positional.PBMUCB,
    "rank1elim": positional.Rank1Elim,
    "rank1elim-kl": positional.Rank1ElimKL,
}
"""The twin of each policy, by its spelling without other settings."""
