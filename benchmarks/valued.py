"""How often the intervals of `clickbandit value` hold: a part of `python -m benchmarks.coverage`."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import Rows
from clickbandit.click_models.base import ClickModel
from clickbandit.compiling.kernel import IntArray
from clickbandit.errors import InputError
from clickbandit.live.algorithm import Algorithm, Algorithms
from clickbandit.policies.base import parse_policy, policy_names
from clickbandit.policies.propensities import of_groups
from clickbandit.queries import load_queries
from clickbandit.value import Decisions
from clickbandit.value import lists as valuing

POSITIONS, ITEMS, LISTS = 2, 4, 3000
VALID = {
    "CM": ("sips", "snsips", "rips", "snrips", "cascade-dr"),
    "PBM": ("sips", "snsips", "rips", "snrips", "cascade-dr", "iips", "sniips"),
}
"""Of which users which estimators are right."""


def stating() -> list[str]:
    """The policies that state propensities."""
    found = [
        name for name in policy_names() if not parse_policy(name).needs and parse_policy(name).live.propensity
    ]
    return [*found, "batchrank:variant=experiment"]


def log_of(algorithm: Algorithm, model: ClickModel, seed: int) -> Decisions:
    """Lists that a policy shows while it learns from them."""
    rng, users = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    random = algorithm.random(rng)
    state = algorithm.start(ITEMS, POSITIONS, LISTS)
    ranking, memo = np.zeros(POSITIONS, np.int64), np.zeros(algorithm.memo_size(ITEMS, POSITIONS))
    shown = np.zeros((LISTS, POSITIONS), np.int64)
    clicks, chances, prefixes = np.zeros((3, LISTS, POSITIONS))
    for n in range(LISTS):
        algorithm.serve(state, random, ranking, memo, chances[n])
        prefix = algorithm.prefix
        prefixes[n] = of_groups(chances[n]) if prefix is None else prefix(state, ranking, memo)
        shown[n] = ranking
        clicked: IntArray = model.click(ranking.tolist(), users)
        clicks[n] = clicked
        algorithm.learn(state, ranking, clicked, memo)
    names = [tuple(map(str, one)) for one in shown.tolist()]
    known = {"q": frozenset(map(str, range(ITEMS)))}
    return Decisions(["q"] * LISTS, names, known, clicks, chances, prefixes)


def valued(times: int, _rng: Any) -> Rows:
    """By policy: how often something is said, and of these how often the truth is in the interval."""
    folder = os.environ.get("CLICKBANDIT_SHARED")
    if folder is None:
        print("\nWithout CLICKBANDIT_SHARED there are no real queries to value lists on.")
        return []
    queries = load_queries(Path(folder) / "queries" / "yandex-10.json")
    algorithms, rows = Algorithms(), []
    for name in stating():
        algorithm, covered, asked = algorithms.add(name), [], 0
        for seed in range(max(times // 50, 1)):
            for query in queries:
                for law, right in VALID.items():
                    full = query.model(law)
                    model = full.with_items(range(ITEMS))
                    target = list(range(POSITIONS))
                    truth = float(model.click_probability(target).sum())
                    asked += len(right)
                    try:
                        found = valuing.value_of_lists(
                            log_of(algorithm, model, seed), {"q": list(map(str, target))}, model=law
                        )
                    except InputError:
                        continue
                    covered += [
                        one.low <= truth <= one.high
                        for one in found.estimates
                        if one.estimator in right and one.low is not None and one.high is not None
                    ]
        rows.append(
            {
                "interval": f"value, log of {name}",
                "said": len(covered) / asked,
                "holds": float(np.mean(covered)) if covered else 1.0,
            }
        )
    return rows
