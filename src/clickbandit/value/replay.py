"""What a policy would have earned that learns: it is run along a log, and meets the users whose lists were its own.

Where the list that it would have shown is the one that was shown, its clicks are what it would have got, and it learns
from them; all other users pass it by, and its list waits. Who comes does not depend on what was shown, so those that it
meets are users like all, whatever policy made the log (Li, Chu, Langford and Wang 2011, without context).
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from clickbandit.errors import InputError
from clickbandit.intervals import watched_sum
from clickbandit.live.algorithm import Algorithms, LiveAlgorithm
from clickbandit.policies.base import Policy
from clickbandit.randomness import generators
from clickbandit.value.decisions import Decisions
from clickbandit.value.lists import MIN_CLICKS, MIN_EFFECTIVE


@dataclass(frozen=True)
class Replayed:
    """What a policy would have earned, in clicks (or reward) per list."""

    policy: str
    value: float
    low: float
    high: float
    """Of a 95% interval for the mean over as many lists as were met."""
    met: int
    """Lists that were its own."""
    lists: int
    """In the log."""
    unit: str = "clicks"
    """What is earned: clicks, or reward if that was exported."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class _Learner:
    """A policy's state for one query."""

    def __init__(self, algorithm: LiveAlgorithm, query: str, items: list[str], shown: int, seed: int) -> None:
        self._algorithm = algorithm
        self._names = items
        self._state = algorithm.start(len(items), shown, 10**6)
        self._rng, _ = generators(seed, query, "replay", algorithm.name, 0)
        self._random = algorithm.random(self._rng)
        self._ranking = np.zeros(shown, np.int64)
        self._memo = np.zeros(algorithm.memo_size(len(items), shown))
        self._unused = np.zeros(shown)

    def rank(self) -> tuple[str, ...]:
        unused = self._unused
        self._algorithm.serve(self._state, self._random, self._ranking, self._memo, unused, unused)
        return tuple(self._names[item] for item in self._ranking.tolist())

    def learn(self, clicks: Any) -> None:
        self._algorithm.learn(self._state, self._ranking, clicks, self._memo)


def replay(decisions: Decisions, policy: Policy | str, *, seed: int = 0) -> Replayed:
    """What a policy would have earned that starts afresh and learns from the log.

    The log should be one of a policy that shows every list again and again, such as `random`: one that it no
    longer shows is never met. Where there are rewards it learns from a yes or no for each item, where the
    probability of a yes is what the item earned as a share of the most that any item did.
    """
    algorithm = Algorithms().add(policy)
    learners: dict[str, _Learner] = {}
    waiting: dict[str, tuple[str, ...]] = {}
    rewards = []
    most = None if decisions.rewards is None else float(decisions.rewards.max()) or 1.0
    chance, _ = generators(seed, "", "rewards", algorithm.name, 0)
    for row, (query, shown) in enumerate(zip(decisions.queries, decisions.lists, strict=True)):
        if query not in learners:
            items = sorted(decisions.candidates[query])
            learners[query] = _Learner(algorithm, query, items, len(shown), seed)
        if query not in waiting:
            waiting[query] = learners[query].rank()
        if waiting[query] == shown:
            earned = decisions.earned[row, : len(shown)]
            told = earned if most is None else chance.random(len(shown)) < earned / most
            learners[query].learn(told.astype(np.int64))
            rewards.append(float(earned.sum()))
            del waiting[query]
    values = np.array(rewards)
    clicked = float(values.sum() ** 2 / (values**2).sum()) if values.any() else 0.0  # rewards have any size
    if len(values) < MIN_EFFECTIVE or clicked < MIN_CLICKS:
        raise InputError(
            f"{algorithm.name} must meet {MIN_EFFECTIVE:,.0f} lists of its own with {MIN_CLICKS:,.0f} clicks, "
            f"found {len(values):,} worth {clicked:,.0f} among {len(decisions):,}: the log is too short, or does "
            "not show all lists"
        )
    low, high = watched_sum(float(values.mean()), values - values.mean())
    mean = float(values.mean())
    return Replayed(algorithm.name, mean, max(low, 0.0), high, len(values), len(decisions), decisions.unit)
