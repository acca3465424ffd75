"""Made-up results for tests of reports."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from clickbandit.click_models.cm import CascadeModel
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.experiments.discussion import EXAMINATION, ITEMS
from clickbandit.queries import Query
from clickbandit.simulation.trace import COLUMNS

PAPER = ("batchrank:variant=experiment", "batchrank", "cascade-kl-ucb:feedback=last", "ranked-exp3")


def made_up(
    policies: Sequence[str] = (
        "batchrank:variant=experiment",
        "batchrank",
        "cascade-kl-ucb:feedback=last",
        "ranked-exp3",
    ),
    models: Sequence[str] = ("CM", "PBM"),
    queries: Sequence[str] = ("a", "b", "c"),
    runs: int = 3,
    windows: int = 20,
    steps: int = 20_000,
    seed: int = 0,
) -> pa.Table:
    """Regret that falls as it does in real results, policies slower and slower, down to zero for the first."""
    rng = np.random.default_rng(seed)
    step = np.arange(1, windows + 1) * steps // windows
    rows: list[tuple[object, ...]] = []
    for slow, policy in enumerate(policies, 1):
        for model in models:
            for query in queries:
                for run in range(runs):
                    regret = 0.1 * slow * np.exp(rng.normal(0, 0.2, windows)) / np.arange(1, windows + 1)
                    if slow == 1:
                        regret[windows // 2 :] = 0
                    rows += [
                        (policy, model, query, run, int(t), float(r), 0.5)
                        for t, r in zip(step, regret, strict=True)
                    ]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=pa.schema(COLUMNS.items()))


def made_up_queries(names: Sequence[str] = ("a", "b", "c")) -> list[Query]:
    """Queries of these names with ten items each."""
    queries = []
    for i, name in enumerate(names):
        attraction = [0.5 - 0.04 * item - 0.01 * i for item in range(10)]
        models = {
            "CM": CascadeModel(attraction),
            "PBM": PositionBasedModel(attraction, [1, 0.9, 0.7, 0.5, 0.4]),
        }
        queries.append(Query(name, [f"{name}{item}" for item in range(10)], models))
    return queries


def made_up_discussion(runs: int = 3) -> pa.Table:
    """Results of the discussion's experiments, with regret that is just as the paper says."""
    regret = {
        ("batchrank", EXAMINATION): lambda x: 100.0,
        ("batchrank:bounds=hoeffding", EXAMINATION): lambda x: 100 / x,
        ("batchrank", ITEMS): lambda x: 100 * x,
        ("batchrank:eliminate=false", ITEMS): lambda x: 100 * x**2,
    }
    places = {EXAMINATION: (1, 0.25, 0.0625), ITEMS: (3, 6, 12)}
    rows = [
        (policy, "PBM", f"{prefix}{x:g}", run, step, total(x) * (0.9 + 0.1 * run) / 1000, 0.5)
        for (policy, prefix), total in regret.items()
        for x in places[prefix]
        for run in range(runs)
        for step in (500, 1000)
    ]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=pa.schema(COLUMNS.items()))
