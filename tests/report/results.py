"""Made-up results for tests of reports."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

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
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=COLUMNS)
