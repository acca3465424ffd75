"""Which plain class is the twin of which policy."""

from collections.abc import Callable
from typing import Any

from naive import cascading, policies, positional, ranked, relations

TWINS: dict[str, Callable[..., Any]] = {
    "batchrank": policies.BatchRank,
    "batchrank:variant=experiment": policies.BatchRankExperiment,
    "cascade-kl-ucb": policies.CascadeKLUCB,
    "ranked-exp3": policies.RankedExp3,
    "cascade-ucb1": cascading.CascadeUCB1,
    "cascade-ucb-v": cascading.CascadeUCBV,
    "ts-cascade": cascading.TSCascade,
    "cts": cascading.CTS,
    "dcm-kl-ucb": cascading.DCMKLUCB,
    "cascade-ducb": cascading.CascadeDUCB,
    "cascade-swucb": cascading.CascadeSWUCB,
    "ranked-ucb1": ranked.RankedUCB1,
    "ranked-kl-ucb": ranked.RankedKLUCB,
    "random": policies.Random,
    "optimal": policies.Optimal,
    "toprank": relations.TopRank,
    "unirank": relations.UniRank,
    "grab": relations.GRAB,
    "bubblerank": relations.BubbleRank,
    "pbm-pie": positional.PBMPIE,
    "pbm-ts": positional.PBMTS,
    "pbm-ucb": positional.PBMUCB,
    "rank1elim": positional.Rank1Elim,
    "rank1elim-kl": positional.Rank1ElimKL,
}
"""The twin of each policy, by its spelling without other settings."""
