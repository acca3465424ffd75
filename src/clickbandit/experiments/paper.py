"""The paper's experiments (section 6) as data: how large they are, on which queries, with which policies."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clickbandit.experiments.discussion import LARGE_DISCUSSION, SMALL_DISCUSSION, Discussion
from clickbandit.experiments.plan import Conditions, Plan, grid
from clickbandit.logs import Counts, choose_queries, fit
from clickbandit.queries import Query
from clickbandit.simulation.run import Method

KIND = "reproduction"
"""What the manifest of a reproduction says it is."""
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
SESSIONS = 400_000
"""Of the log that is generated where none is given."""


@dataclass(frozen=True)
class Scale:
    """How large a reproduction is."""

    steps: int
    runs: int
    top_queries: int
    """Of a log; all queries of a file that is given are run."""
    method: Method
    discussion: Discussion


SCALES = {
    # step by step, as compiling the leaps would take longer than so few steps
    "quick": Scale(steps=1_000_000, runs=3, top_queries=20, method="step", discussion=SMALL_DISCUSSION),
    "paper": Scale(steps=10_000_000, runs=10, top_queries=60, method="auto", discussion=LARGE_DISCUSSION),
}
"""The paper's own, and one that takes a minute or so and shows what can be shown in that time."""


def learn_queries(counts: Counts, models: Sequence[str], *, top_queries: int, items: int) -> list[Query]:
    """The most frequent queries of a log with their most attractive items, and the click models learned from it."""
    fits = [fit(counts, model) for model in models]
    return choose_queries(counts, fits, top_queries=top_queries, items=items)


def plan_reproduction(
    queries: Sequence[Query],
    scale: str,
    policies: Sequence[str],
    models: Sequence[str],
    conditions: Conditions,
    input: Mapping[str, Any],
) -> Plan:
    """The runs of the paper's figures; `input` says for the manifest where the queries come from."""
    size = {name: asdict(conditions)[name] for name in ("steps", "runs", "positions", "seed")}
    discussion = has_discussion(policies, models)
    how = {"kind": KIND, "scale": scale, "input": dict(input), "discussion": discussion}
    return Plan(queries, grid(policies, queries, models, conditions), {**how, **size})


def has_discussion(policies: Sequence[str], models: Sequence[str]) -> bool:
    """Whether the discussion belongs to a reproduction: it is about BatchRank in the position-based model."""
    return "PBM" in models and any(policy.partition(":")[0] == "batchrank" for policy in policies)
