"""How often the intervals of `clickbandit value` hold: a part of `python -m benchmarks.coverage`."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import Rows
from clickbandit.click_models.base import ClickModel
from clickbandit.compiling.specialise import specialise
from clickbandit.live.kernels import unknown
from clickbandit.policies.base import Policy, parse_policy, policy_names
from clickbandit.policies.propensities import copy_of, of_groups
from clickbandit.queries import best_list, load_queries
from clickbandit.value import Decisions
from clickbandit.value.lists import ListEstimate, estimate

POSITIONS, LISTS = 5, 10_000
DRAWS = 100
"""By which propensities that a policy cannot state are estimated."""
_ANY_USERS = ("sips", "snsips", "rm", "rips", "snrips", "cascade-dr", "rrm")
VALID = {"CM": _ANY_USERS, "PBM": (*_ANY_USERS, "iips", "sniips", "irm")}
"""Of which users which estimators are right."""


def stating() -> list[str]:
    """The policies that state propensities, but for those that must be told what only a simulation knows."""
    return [*(name for name in _told_nothing() if _states(name)), "batchrank:variant=experiment"]


def not_stating() -> list[str]:
    """Those that do not."""
    return [name for name in _told_nothing() if not _states(name)]


def _told_nothing() -> list[str]:
    return [name for name in policy_names() if not parse_policy(name).needs]


def _states(policy: str) -> bool:
    return parse_policy(policy).live.propensity is not None


def log_of(policy: Policy, model: ClickModel, seed: int, lists: int = LISTS, draws: int = DRAWS) -> Decisions:
    """Lists that a policy shows while it learns from them."""
    n_items, live = model.n_items, policy.live
    state = policy.start(n_items, POSITIONS, horizon=lists)
    shown, clicks = np.zeros((2, lists, POSITIONS), np.int64)
    chances, prefixes = np.zeros((2, lists, POSITIONS))
    specialise(
        "benchmarks.logged",
        compiled=lists > 1000,
        sources=[policy.algorithm.init],
        policy=vars(policy.algorithm),
        model=vars(model.functions),
        chances={"propensity": live.propensity or unknown, "prefix": live.prefix or unknown},
    ).show(
        (state, copy_of(state), copy_of(state)),
        model.params,
        tuple(np.random.default_rng([seed, stream]) for stream in (1, 2, 3)),
        np.zeros((2, policy.algorithm.memo_size(n_items, POSITIONS))),
        (shown, clicks, chances, prefixes, np.zeros(POSITIONS, np.int64)),
        0 if live.propensity else draws,
    )
    if live.propensity and not live.prefix:
        different, rows = np.unique(chances, axis=0, return_inverse=True)
        prefixes = np.array([of_groups(row) for row in different])[rows]
    names = list(map(str, range(n_items)))
    return Decisions(
        queries=["q"] * lists,
        lists=[tuple([names[item] for item in one]) for one in shown.tolist()],
        candidates={"q": frozenset(names)},
        clicks=clicks.astype(float),
        propensities=chances,
        prefixes=prefixes,
    )


class Found(NamedTuple):
    """What was said of one list from one log."""

    log: int
    truth: float
    said: Sequence[ListEstimate]
    """By estimators that are right for these users, and did not refuse."""

    def holds(self, one: ListEstimate) -> bool:
        assert one.low is not None
        assert one.high is not None
        return one.low <= self.truth <= one.high

    @property
    def half_width(self) -> float:
        """Of the narrowest interval, in parts of the truth."""
        return min((one.high or 0) - (one.low or 0) for one in self.said) / 2 / self.truth


def questions(policy: str, queries: Iterable[Any], seeds: int) -> Iterator[Found]:
    """What the best list earns, and one with the first items upside down, from each log of a policy."""
    parsed, number = parse_policy(policy), 0
    for query in queries:
        for law, valid in VALID.items():
            model = query.model(law)
            for _ in range(seeds):
                number += 1
                log = log_of(parsed, model, number)
                for target in (list(best_list(model, POSITIONS)[0]), list(range(POSITIONS))[::-1]):
                    said = estimate(log, {"q": list(map(str, target))}, range(LISTS), law)
                    right = [one for one in said if one.estimator in valid and one.value is not None]
                    yield Found(number, model.reward(target), right)


def valued(seeds: int, policies: Sequence[str]) -> Rows:
    """By policy: how often the truth is in the intervals, those of the worst estimator, for how many questions
    something is said, and how wide the narrowest interval is, in parts of the truth."""
    folder = os.environ.get("CLICKBANDIT_SHARED")
    if folder is None:
        print("\nWithout CLICKBANDIT_SHARED there are no real queries to value lists on.")
        return []
    queries = load_queries(Path(folder) / "queries" / "yandex-10.json")
    return [row_of(policy, list(questions(policy, queries, seeds))) for policy in policies]


def row_of(policy: str, asked: Sequence[Found]) -> dict[str, Any]:
    answered = [found for found in asked if found.said]
    held: dict[str, list[bool]] = {}
    for found in answered:
        for one in found.said:
            held.setdefault(one.estimator, []).append(found.holds(one))
    worst = min(held, key=lambda name: float(np.mean(held[name])), default=None)
    return {
        "log of": policy,
        "holds": float(np.mean(list(chain(*held.values())))) if held else None,
        "intervals": sum(map(len, held.values())),
        "logs": len({found.log for found in answered}),
        "answered": len(answered) / len(asked),
        "half width": float(np.median([found.half_width for found in answered])) if answered else None,
        "worst estimator": f"{worst}, {np.mean(held[worst]):.1%} of {len(held[worst])}" if worst else None,
    }
