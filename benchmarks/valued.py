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
from clickbandit.queries import best_list, load_queries
from clickbandit.value import Decisions, value_of_lists
from clickbandit.value.lists import Estimate

POSITIONS, LISTS = 5, 10_000
_ANY_USERS = ("sips", "snsips", "rm", "rips", "snrips", "cascade-dr", "rrm")
VALID = {"CM": _ANY_USERS, "PBM": (*_ANY_USERS, "iips", "sniips", "irm")}
"""Of which users which estimators are right."""


def stating() -> list[str]:
    """The policies that state propensities, but for those that must be told what only a simulation knows."""
    found = [
        name for name in policy_names() if not parse_policy(name).needs and parse_policy(name).live.propensity
    ]
    return [*found, "batchrank:variant=experiment"]


def log_of(algorithm: Algorithm, model: ClickModel, seed: int, lists: int = LISTS) -> Decisions:
    """Lists that a policy shows while it learns from them."""
    n_items = model.n_items
    rng, users = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    random = algorithm.random(rng)
    state = algorithm.start(n_items, POSITIONS, lists)
    ranking, memo = np.zeros(POSITIONS, np.int64), np.zeros(algorithm.memo_size(n_items, POSITIONS))
    shown = np.zeros((lists, POSITIONS), np.int64)
    clicks, chances, prefixes = np.zeros((3, lists, POSITIONS))
    for n in range(lists):
        algorithm.serve(state, random, ranking, memo, chances[n], prefixes[n])
        if not algorithm.states_prefix:
            prefixes[n] = of_groups(chances[n])
        shown[n] = ranking
        clicked: IntArray = model.click(ranking.tolist(), users)
        clicks[n] = clicked
        algorithm.learn(state, ranking, clicked, memo)
    names = [tuple(map(str, one)) for one in shown.tolist()]
    known = {"q": frozenset(map(str, range(n_items)))}
    return Decisions(["q"] * lists, names, known, clicks, chances, prefixes)


def found_in(log: Decisions, target: list[int], law: str) -> list[Estimate]:
    """What is said by estimators that are right for these users."""
    try:
        found = value_of_lists(log, {"q": list(map(str, target))}, model=law).estimates
    except InputError:
        return []
    return [one for one in found if one.estimator in VALID[law] and one.value is not None]


def valued(seeds: int, policies: list[str] | None = None) -> Rows:
    """By policy: how often the truth is in the intervals, for how many questions something is said, and how wide the
    narrowest interval is, in parts of the truth."""
    folder = os.environ.get("CLICKBANDIT_SHARED")
    if folder is None:
        print("\nWithout CLICKBANDIT_SHARED there are no real queries to value lists on.")
        return []
    queries = load_queries(Path(folder) / "queries" / "yandex-10.json")
    algorithms = Algorithms()
    return [row_of(algorithms.add(name), queries, seeds) for name in policies or stating()]


def row_of(algorithm: Algorithm, queries: Any, seeds: int) -> dict[str, Any]:
    covered, widths, asked = [], [], 0
    for seed in range(seeds):
        for number, query in enumerate(queries):
            for law in VALID:
                model = query.model(law)
                log = log_of(algorithm, model, 100 * number + seed)
                for target in (list(best_list(model, POSITIONS)[0]), list(range(POSITIONS))[::-1]):
                    truth = float(model.click_probability(target).sum())
                    found = found_in(log, target, law)
                    covered += [(one.low or 0) <= truth <= (one.high or 0) for one in found]
                    widths += (
                        [min([((one.high or 0) - (one.low or 0)) / 2 / truth for one in found])]
                        if found
                        else []
                    )
                    asked += 1
    return {
        "interval": f"value, log of {algorithm.name}",
        "holds": float(np.mean(covered)) if covered else None,
        "intervals": len(covered),
        "answered": len(widths) / asked,
        "half width": float(np.median(widths)) if widths else None,
    }
