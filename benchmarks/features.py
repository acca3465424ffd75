"""Features as a prior, on a public learning-to-rank set: `python -m benchmarks.features`.

Of the 201 queries of the shared folder (CLICKBANDIT_SHARED, or ../shared), up to 300 features an item and grades from 0
to 4, every other one is a new query. The others taught before: each had so many impressions with ClickTS, and the
clicks on their items are regressed on features. Users are of the cascade model, with a grade over 4 as attraction.
Printed is the mean regret a step after so many impressions of a new query, with 95% intervals over runs.
"""

import argparse
import gzip
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.simulating import PROJECT
from clickbandit.click_models.cm import CascadeModel
from clickbandit.features import Ridge
from clickbandit.intervals import mean_of_strata
from clickbandit.priors import Prior
from clickbandit.queries import Query
from clickbandit.simulation.run import Problem, Run

POSITIONS = 5
LOOKS = (5, 20, 100, 500)
"""Impressions of a query."""
POLICIES = (("cts", False), ("click-ts", False), ("given", True), ("cts", True), ("click-ts", True))
"""Each with whether it starts from features; `given` is what these say alone."""


def read() -> list[Query]:
    """The queries with more items than are shown, each item with its features and a 1."""
    folder = Path(os.environ.get("CLICKBANDIT_SHARED", PROJECT / ".." / "shared")) / "ltr"
    lines = gzip.decompress((folder / "rank-train.svm.gz").read_bytes()).decode().splitlines()
    rows = [line.split() for line in lines]
    n_features = 1 + max(int(part.partition(":")[0]) for row in rows for part in row[1:])
    features, grades = np.zeros((len(rows), n_features)), np.array([float(row[0]) for row in rows])
    features[:, 0] = 1
    for number, row in enumerate(rows):
        for part in row[1:]:
            name, _, value = part.partition(":")
            features[number, int(name)] = float(value)
    sizes = [int(line) for line in (folder / "rank-train.query").read_text().split()]
    queries = []
    for number, (end, size) in enumerate(zip(np.cumsum(sizes).tolist(), sizes, strict=True)):
        if size > POSITIONS:
            users = CascadeModel((grades[end - size : end] / 4).tolist())
            names = [str(item) for item in range(size)]
            queries.append(
                Query(str(number), names, {"CM": users}, features=features[end - size : end].tolist())
            )
    return queries


def problem_of(query: Query, policy: str, steps: int, prior: Prior | None = None) -> Problem:
    return Problem(
        policy, query.models["CM"], positions=POSITIONS, horizon=steps, query=query.query, prior=prior
    )


def teach(queries: Sequence[Query], impressions: int) -> Ridge:
    """What the clicks on some queries' items say of features."""
    ridge = Ridge(len(queries[0].features[0]))
    for query in queries:
        run = Run(problem_of(query, "click-ts", impressions), seed=2)
        run.advance(impressions)
        teacher = run.problem.policy.live.teach
        assert teacher is not None
        told, item = teacher(run.state), np.argsort(run.numbering)
        ridge.add(query.features, np.take(told.clicks, item).tolist(), np.take(told.examined, item).tolist())
    return ridge


def measure(queries: Sequence[Query], policy: str, ridge: Ridge | None, runs: int) -> list[str]:
    """By look: the mean regret a step, with its interval."""
    lost = np.zeros((len(queries), runs, len(LOOKS)))
    for number, query in enumerate(queries):
        prior = ridge.prior(query.features) if ridge else None
        problem = problem_of(query, policy, LOOKS[-1], prior)
        for run in range(runs):
            windows, _ = Run(problem, seed=1, run=run).advance_windows(np.array(LOOKS))
            lost[number, run] = windows.cumsum() / LOOKS
    found = [mean_of_strata(lost[:, :, look].tolist(), 0.0) for look in range(len(LOOKS))]
    return [f"{mean:.3f} ({low:.3f} to {high:.3f})" for mean, low, high in found]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.features", description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--lesson", type=int, default=100, help="impressions of each query that taught")
    args = parser.parse_args()
    queries = read()
    ridge = teach(queries[::2], args.lesson)
    print(f"{len(queries[1::2])} new queries, {len(queries[::2])} that taught")
    print(f"| policy | starts from | {' | '.join(map(str, LOOKS))} |\n|---|---|{'--:|' * len(LOOKS)}")
    for policy, told in POLICIES:
        cells = measure(queries[1::2], policy, ridge if told else None, args.runs)
        print(f"| `{policy}` | {'features' if told else 'nothing'} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
