"""How well `clickbandit judgments` ranks items, by evidence: `python -m benchmarks.judgments`.

A ranker shows lists of ten to users of a click model, so many for each query. Kendall's tau is between the judgments by
that model and the true relevance of a query's items (1: the same order), averaged over queries; beside it that of the
raw click rate. A good ranker's order is near the truth, and click rates take it along, as what stands on top is clicked
more; a poor one's is not. The command fails if judgments rank worse than click rates anywhere.
"""

import argparse
import sys

import numpy as np
import pyarrow as pa

from benchmarks import Rows
from clickbandit import DynamicBayesianModel, PositionBasedModel
from clickbandit.click_models.base import ClickModel
from clickbandit.compiling.kernel import FloatArray
from clickbandit.compiling.specialise import specialise
from clickbandit.logs import Counts, count_log
from clickbandit.logs.judgments import judgments
from clickbandit.terminal import print_table

POSITIONS, ITEMS = 10, 14
EXAMINATION = (1 / np.arange(1, POSITIONS + 1) ** 0.8).tolist()
NOISE = {"good": 0.7, "poor": 3.0}
"""Of the ranker, in the logarithm of relevance."""
SESSIONS = (30, 100, 300, 1000)
"""Of a query."""


def users(model: str, rng: np.random.Generator) -> tuple[ClickModel, FloatArray]:
    """How users of a query click, and how relevant its items are."""
    attraction = rng.beta(1.2, 4, ITEMS)
    if model == "PBM":
        return PositionBasedModel(attraction.tolist(), EXAMINATION), attraction
    satisfaction = rng.beta(2, 2, ITEMS)
    return DynamicBayesianModel(attraction.tolist(), satisfaction.tolist(), 0.9), attraction * satisfaction


def log(
    model: str, queries: int, sessions: int, noise: float, rng: np.random.Generator
) -> tuple[Counts, dict[tuple[str, str], float]]:
    """A counted log, and what is relevant in truth."""
    names, lists, marks, truth = [], [], [], {}
    for query in range(queries):
        law, relevance = users(model, rng)
        scores = np.log(relevance) + rng.normal(0, noise, ITEMS)
        shown = np.argsort(-scores + rng.gumbel(0, 0.4, (sessions, ITEMS)), axis=1)[:, :POSITIONS].copy()
        clicks = np.zeros(shown.shape, np.int64)
        kernels = specialise("clickbandit.logs.kernels", model=vars(law.functions))
        kernels.simulate(law.params, rng, shown, np.arange(sessions), clicks)
        names += [str(query)] * sessions
        lists += shown.astype(str).tolist()
        marks += clicks.tolist()
        truth |= {(str(query), str(item)): float(relevance[item]) for item in range(ITEMS)}
    return count_log(pa.table({"query": names, "list": lists, "clicks": marks})), truth


def kendall(one: FloatArray, other: FloatArray) -> float:
    """The share of pairs in the same order less that in the opposite one."""
    first, second = (np.sign(values[:, None] - values) for values in (one, other))
    return float((first * second).sum() / (len(one) * (len(one) - 1)))


def taus(counts: Counts, truth: dict[tuple[str, str], float], model: str) -> tuple[float, float]:
    """Of judgments, and of raw click rates, averaged over queries."""
    cells = counts.by_position
    rate = np.bincount(cells.pair, cells.clicked) / np.bincount(cells.pair, cells.shown)
    found = judgments(counts, model, min_impressions=0)
    query, relevance = np.array(found["query"].to_pylist()), found["relevance"].to_numpy()
    true = np.array([truth[pair] for pair in zip(query, found["item"].to_pylist(), strict=True)])
    mine, raw = (
        np.mean([kendall(values[query == name], true[query == name]) for name in np.unique(query)])
        for values in (relevance, rate)
    )
    return float(mine), float(raw)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.judgments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--queries", type=int, default=60, help="of each log (%(default)s)")
    options = parser.parse_args()
    rows: Rows = []
    fine = True
    for ranker, noise in NOISE.items():
        for model in ("PBM", "DBN"):
            for sessions in SESSIONS:
                rng = np.random.default_rng(sessions)
                mine, raw = taus(*log(model, options.queries, sessions, noise, rng), model)
                said = {"judgments": f"{mine:.3f}", "click rate": f"{raw:.3f}"}
                rows.append({"ranker": ranker, "users": model, "sessions a query": sessions, **said})
                fine = fine and mine > raw
    print_table(rows)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
