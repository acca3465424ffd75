"""Which plain class is the twin of which policy: slow, with lists, dicts and sets, and written from the papers.

Each is a class with `rank(rng)`, which gives the list to show, and `update(ranking, clicks, memo)`. After `rank`,
`memo` is what learning from that list must remember; without one, `update` takes the last list's.

Only the order in which items stand before a draw has to be that of the compiled code, so that the same random
numbers give the same lists. `take` is how both draw: the item drawn changes places with the last that is left.
"""

from collections.abc import Callable
from typing import Any

from naive import batchrank, cascading, click_ts, linear, positional, ranked, relations, yardsticks

TWINS: dict[str, Callable[..., Any]] = {
    "batchrank": batchrank.BatchRank,
    "batchrank:variant=experiment": batchrank.BatchRankExperiment,
    "cascade-kl-ucb": cascading.CascadeKLUCB,
    "ranked-exp3": ranked.RankedExp3,
    "cascade-ucb1": cascading.CascadeUCB1,
    "cascade-ucb-v": cascading.CascadeUCBV,
    "ts-cascade": cascading.TSCascade,
    "cts": cascading.CTS,
    "dcm-kl-ucb": cascading.DCMKLUCB,
    "cascade-ducb": cascading.CascadeDUCB,
    "cascade-swucb": cascading.CascadeSWUCB,
    "glrt-cascade-kl-ucb": cascading.GLRTCascadeKLUCB,
    "ranked-ucb1": ranked.RankedUCB1,
    "ranked-kl-ucb": ranked.RankedKLUCB,
    "random": yardsticks.Random,
    "optimal": yardsticks.Optimal,
    "given": yardsticks.Given,
    "toprank": relations.TopRank,
    "unirank": relations.UniRank,
    "grab": relations.GRAB,
    "bubblerank": relations.BubbleRank,
    "pbm-pie": positional.PBMPIE,
    "pbm-ts": positional.PBMTS,
    "pbm-ucb": positional.PBMUCB,
    "rank1elim": positional.Rank1Elim,
    "rank1elim-kl": positional.Rank1ElimKL,
    "click-ts": click_ts.ClickTS,
    "cascade-lin-ucb": linear.CascadeLinUCB,
    "cascade-lin-ts": linear.CascadeLinTS,
}
"""The twin of each policy, by its spelling without other settings."""
