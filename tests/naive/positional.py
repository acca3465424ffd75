"""The policies for the position-based model in plain Python: slow, and written from their descriptions.

As in `policies`, each is a class with `rank(rng)`, `update(ranking, clicks, memo)` and `memo`, and draws as the
compiled code does.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from naive.cascading import gamma
from naive.common import interval, pick, shuffle_front

Counts = tuple[tuple[int, int, float], ...]
"""For each position that showed an item: displays, clicks, and the position's examination."""


# --- examination known --------------------------------------------------------------------------------------


class Positional:
    """What the three policies have in common: an examination in any order, and counts by item and position."""

    def __init__(
        self, n_items: int, n_positions: int, *, horizon: int, examination: str | Sequence[float]
    ) -> None:
        values = examination.split("/") if isinstance(examination, str) else examination
        self.kappa = [float(value) for value in values][:n_positions]
        self.items = range(n_items)
        self.horizon = horizon
        self.displays: Counter[tuple[int, int]] = Counter()
        self.clicks: Counter[tuple[int, int]] = Counter()
        self.t = 0
        self.memo: None = None

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: None = None) -> None:
        for k, (item, click) in enumerate(zip(ranking, clicks, strict=True)):
            self.displays[item, k] += 1
            self.clicks[item, k] += click

    def counts(self, item: int) -> Counts:
        cells = [(self.displays[item, k], self.clicks[item, k], kappa) for k, kappa in enumerate(self.kappa)]
        return tuple(cell for cell in cells if cell[0] > 0)

    def examined(self, item: int) -> float:
        """M_i, positions from the first to the last."""
        total = 0.0
        for k, kappa in enumerate(self.kappa):
            total += kappa * self.displays[item, k]
        return total

    def estimate(self, item: int) -> float:
        clicks = sum(self.clicks[item, k] for k in range(len(self.kappa)))
        return clicks / self.examined(item) if self.examined(item) else 0.0

    def arranged(self, order: Sequence[int]) -> list[int]:
        """The first item where users look most, and so on."""
        places = sorted(range(len(self.kappa)), key=lambda k: (-self.kappa[k], k))
        ranking = [-1] * len(places)
        for item, place in zip(order, places, strict=False):
            ranking[place] = item
        return ranking


class PBMUCB(Positional):
    """S_i / M_i + sqrt(N_i / M_i) sqrt(d / (2 M_i)) with d = (1 + epsilon) log t."""

    def __init__(self, *sizes: int, epsilon: float = 0.0, **settings: Any) -> None:
        super().__init__(*sizes, **settings)
        self.epsilon = epsilon
        self.ties = 0
        """Steps, after all items were seen, at which items of the list were tied."""

    def bound(self, item: int) -> float:
        examined = self.examined(item)
        if examined == 0:
            return math.inf
        shown = sum(self.displays[item, k] for k in range(len(self.kappa)))
        delta = (1 + self.epsilon) * math.log(self.t)
        return self.estimate(item) + math.sqrt(shown / examined) * math.sqrt(delta / (2 * examined))

    def rank(self, rng: np.random.Generator) -> list[int]:
        self.t += 1
        bound = {item: self.bound(item) for item in self.items}
        order: list[int] = []
        left = set(self.items)
        tied = False
        while len(order) < len(self.kappa):
            highest = max(bound[item] for item in left)
            same = sorted(i for i in left if bound[i] == highest or highest - bound[i] <= 1e-12)
            left -= set(same)
            tied = tied or (len(same) > 1 and highest < math.inf)
            shown = min(len(same), len(self.kappa) - len(order))
            shuffle_front(same, min(shown, len(same) - 1), rng)  # the last of all needs no draw
            order += same[:shown]
        self.ties += tied
        return self.arranged(order)


class PBMTS(Positional):
    """Rejection from the factor of the position that showed an item most, at most 100 tries."""

    def __init__(self, *sizes: int, **settings: Any) -> None:
        super().__init__(*sizes, **settings)
        self.tries: Counter[int] = Counter()

    def rank(self, rng: np.random.Generator) -> list[int]:
        sample = {item: self.draw(item, rng) for item in self.items}
        return self.arranged(sorted(self.items, key=lambda item: (-sample[item], item)))

    def draw(self, item: int, rng: np.random.Generator) -> float:
        main = min(range(len(self.kappa)), key=lambda k: (-self.displays[item, k], -self.kappa[k], k))
        clicks, displays = self.clicks[item, main], self.displays[item, main]
        cells = [(self.displays[item, k], self.clicks[item, k], kappa) for k, kappa in enumerate(self.kappa)]
        others = tuple(cell for k, cell in enumerate(cells) if cell[0] > 0 and k != main)
        theta = math.nan
        for n in range(1, 101):
            x, y = gamma(clicks + 1, rng), gamma(displays - clicks + 1, rng)
            theta = x / (x + y) / self.kappa[main]
            if theta <= 1 and (not others or rng.random() < math.exp(ratio(others, theta))):
                self.tries[n] += 1
                return theta
        self.tries[101] += 1
        return min(1.0, theta)


def ratio(cells: Counts, theta: float) -> float:
    """The logarithm of the likelihood of theta over the highest likelihood there is in [0, 1]."""
    return log_likelihood(cells, theta) - log_likelihood(cells, likeliest(cells))


def log_likelihood(cells: Counts, theta: float) -> float:
    """Of an attraction theta, but for the factor kappa^S."""
    total = 0.0
    for n, s, kappa in cells:
        for times, chance in ((s, theta), (n - s, 1 - kappa * theta)):
            if times and chance <= 0:
                return -math.inf
            total += times * math.log(chance) if times else 0.0
    return total


@cache
def likeliest(cells: Counts) -> float:
    """Where the derivative of the log-likelihood changes its sign."""

    def derivative(theta: float) -> float:
        return sum(s / theta - (n - s) * kappa / (1 - kappa * theta) for n, s, kappa in cells)

    if sum(s for _, s, _ in cells) == 0:
        return 0.0
    top = 1 - 1e-12
    return root(derivative, 1e-12, top) if derivative(top) < 0 else 1.0


class PBMPIE(Positional):
    """Algorithm 1: the highest estimates, and a candidate at the last position half of the time."""

    def __init__(self, *sizes: int, epsilon: float = 0.0, **settings: Any) -> None:
        super().__init__(*sizes, **settings)
        self.budget = (1 + epsilon) * math.log(self.horizon)
        self.explored = 0
        self.no_candidates = 0

    def rank(self, rng: np.random.Generator) -> list[int]:
        self.t += 1
        n_items, n_positions = len(self.items), len(self.kappa)
        if self.t <= n_items:
            return [(self.t - 1 + k) % n_items for k in range(n_positions)]
        leader = sorted(self.items, key=lambda item: (-self.estimate(item), item))[:n_positions]
        least = self.estimate(leader[-1])
        others = [item for item in self.items if item not in leader]
        candidates = [item for item in others if highest_likely(self.counts(item), self.budget) >= least]
        self.no_candidates += not candidates
        if candidates and rng.random() < 0.5:
            leader[-1] = candidates[pick(rng, len(candidates))]
            self.explored += 1
        return self.arranged(leader)


def divergence(cells: Counts, q: float) -> float:
    """sum_k N_k kl(S_k / N_k, kappa_k q)"""
    total = 0.0
    for n, s, kappa in cells:
        for times, chance in ((s, kappa * q), (n - s, 1 - kappa * q)):
            if times and chance <= 0:
                return math.inf
            total += times * math.log(times / n / chance) if times else 0.0
    return total


@cache
def highest_likely(cells: Counts, budget: float) -> float:
    """The largest q in [0, 1] within the budget, or the minimiser of the divergence if there is none."""
    lowest = likeliest(cells)
    if divergence(cells, 1.0) <= budget:
        return 1.0
    if divergence(cells, lowest) >= budget:
        return lowest
    return root(lambda q: divergence(cells, q) - budget, lowest, 1 - 1e-16)


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that changes its sign between two points does so."""
    return float(brentq(function, low, high, xtol=1e-16, rtol=1e-15))


# --- examination unknown: the best pair ---------------------------------------------------------------------


class Side:
    """The rows, or the columns: which are left, which one stands for which, and what was observed."""

    def __init__(self, n: int) -> None:
        self.map = list(range(n))
        self.issued = [0] * n
        self.observed = [0] * n
        self.clicks = [0] * n
        self.leader = 0

    @property
    def left(self) -> list[int]:
        return sorted(set(self.map))

    def share(self, i: int) -> float:
        return self.clicks[i] / self.observed[i] if self.observed[i] else 0.0

    def eliminate(self, bounds: Callable[[float, int], tuple[float, float]]) -> int:
        """Map those whose upper bound is below the highest lower bound to the one that has it; how many."""
        before = self.left
        low, high = {}, {}
        for i in before:
            low[i], high[i] = bounds(self.share(i), self.observed[i])
        self.leader = max(before, key=lambda i: (low[i], self.clicks[i], -i))
        for i, mapped in enumerate(self.map):
            if high[mapped] < low[self.leader]:
                self.map[i] = self.leader
        return len(before) - len(self.left)


class Rank1Elim:
    """Algorithm 1 of Katariya et al. 2017, one pair a list, with feedback that may be late, lost or void."""

    stage_factor = 4

    def __init__(self, n_items: int, n_positions: int, *, horizon: int) -> None:
        self.rows, self.columns = Side(n_items), Side(n_positions)
        self.log_horizon = math.log(horizon)
        self.stage = 0
        self.round = 0
        self.column, self.row = 0, 0
        self.order = list(range(n_items))
        self.memo: Any = None
        self.events: list[tuple[str, int]] = []
        """What the tests led to: stage (which one), rows and columns (how many were eliminated)."""

    def bounds(self, share: float, n: int) -> tuple[float, float]:
        radius = math.sqrt(self.log_horizon / n)
        return share - radius, share + radius

    def needed(self) -> int:
        gap = 2.0**-self.stage
        return math.ceil(self.stage_factor * gap**-2 * self.log_horizon)

    def settled(self) -> bool:
        return len(self.rows.left) == len(self.columns.left) == 1

    def due(self) -> tuple[Side, int] | None:
        """The first row, or else column, that this round has not issued."""
        for side in (self.rows, self.columns):
            for i in side.left:
                if side.issued[i] < self.round:
                    return side, i
        return None

    def rank(self, rng: np.random.Generator) -> list[int]:
        due = self.due()
        if due is None and self.round < self.needed() and not self.settled():
            self.round += 1
            self.column = self.columns.map[pick(rng, len(self.columns.map))]
            self.row = self.rows.map[pick(rng, len(self.rows.map))]
            due = self.due()
        row, column = self.rows.leader, self.columns.leader
        if due is not None:
            side, i = due
            side.issued[i] += 1
            row, column = (i, self.column) if side is self.rows else (self.row, i)
        self.memo = (due, column, self.stage)
        if self.stage == 0:
            shuffle_front(self.order, len(self.columns.map), rng)
        ranking = [item for item in self.order if item != row][: len(self.columns.map) - 1]
        ranking.insert(column, row)
        return ranking

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: Any = None) -> None:
        due, column, stage = self.memo if memo is None else memo
        if due is None or stage != self.stage:
            return
        side, i = due
        side.observed[i] += 1
        side.clicks[i] += clicks[column]
        if all(side.observed[i] == self.needed() for side in (self.rows, self.columns) for i in side.left):
            for name, side in (("rows", self.rows), ("columns", self.columns)):
                eliminated = side.eliminate(self.bounds)
                if eliminated:
                    self.events.append((name, eliminated))
            self.order.sort(key=lambda item: (-self.rows.share(item), item))
            self.stage += 1
            self.events.append(("stage", self.stage))

    def void(self, ranking: Sequence[int], memo: Any = None) -> None:
        due, _, stage = self.memo if memo is None else memo
        if due is not None and stage == self.stage:
            side, i = due
            side.issued[i] -= 1


class Rank1ElimKL(Rank1Elim):
    """The same with KL bounds and longer stages."""

    stage_factor = 16

    def bounds(self, share: float, n: int) -> tuple[float, float]:
        return interval("kl", share, n, self.log_horizon + 3 * math.log(self.log_horizon))
