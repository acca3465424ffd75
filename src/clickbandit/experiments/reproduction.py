"""The paper's experiments (section 6) as data: how large they are, on which queries, with which policies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from clickbandit.experiments.discussion import PAPER as LARGE_DISCUSSION
from clickbandit.experiments.discussion import QUICK as SMALL_DISCUSSION
from clickbandit.experiments.discussion import Discussion
from clickbandit.experiments.plan import Plan, grid
from clickbandit.logs import choose_queries, count_log, fit
from clickbandit.queries import Query

POLICIES = (
    "batchrank:variant=experiment",
    "batchrank",
    "cascade-kl-ucb:feedback=last,budget=log t",
    "ranked-exp3",
)
"""BatchRank as the paper's figures were run and as it is printed, and what it was compared with, as it was run there:
CascadeKL-UCB with the budget log t, learning down to the last click (in the cascade model, where there is no other,
that is the first)."""
MODELS = ("CM", "PBM")


@dataclass(frozen=True)
class Scale:
    """How large a reproduction is."""

    steps: int
    runs: int
    discussion: Discussion


SCALES = {
    "quick": Scale(steps=500_000, runs=3, discussion=SMALL_DISCUSSION),
    "paper": Scale(steps=10_000_000, runs=10, discussion=LARGE_DISCUSSION),
}
"""The paper's own size, and one that takes a minute or two and shows what can be shown in that time."""


def learn_queries(
    log: str | PathLike[str] | Sequence[str | PathLike[str]],
    format: str | None,
    models: Sequence[str],
    *,
    top_queries: int,
    items: int,
    **options: Any,
) -> list[Query]:
    """The most frequent queries of a log with their most attractive items, and the click models learned from it."""
    counts = count_log(log, format, **options)
    return choose_queries(
        counts, [fit(counts, model) for model in models], top_queries=top_queries, items=items
    )


def plan_reproduction(...)
