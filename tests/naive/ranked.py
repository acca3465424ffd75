"""Ranked bandits with upper bounds in plain Python: a bandit for each position that draws its highest item.

The interface is that of `naive.twins`.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from naive.common import kl_upper, pick


class Ranked:
    def __init__(self, n_items: int, n_positions: int, *, horizon: int) -> None:
        self.n_items = n_items
        self.drawn = [[0] * n_items for _ in range(n_positions)]
        self.earned = [[0] * n_items for _ in range(n_positions)]
        self.t = 0
        self.memo: list[int] = []
        self.ties = self.replaced = 0
        """Draws among several items with the same index, and items that were in the list already."""

    def rank(self, rng: np.random.Generator) -> list[int]:
        self.t += 1
        ranking: list[int] = []
        self.memo = []
        for drawn, earned in zip(self.drawn, self.earned, strict=True):
            index = [self.index(c, n) for c, n in zip(earned, drawn, strict=True)]
            same = [item for item in range(self.n_items) if max(index) - index[item] <= self.tie]
            if math.inf in index:
                same = [item for item in range(self.n_items) if index[item] == math.inf]
            self.ties += len(same) > 1
            item = same[pick(rng, len(same))]
            self.memo.append(item)
            if item in ranking:
                self.replaced += 1
                absent = [other for other in range(self.n_items) if other not in ranking]
                item = absent[pick(rng, len(absent))]
            ranking.append(item)
        return ranking

    tie = 0.0
    """How far apart two indices may be that are the same but for rounding."""

    def index(self, earned: int, drawn: int) -> float:
        raise NotImplementedError

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: list[int] | None = None) -> None:
        for k, item in enumerate(self.memo if memo is None else memo):
            self.drawn[k][item] += 1
            if ranking[k] == item:
                self.earned[k][item] += clicks[k]


class RankedUCB1(Ranked):
    def __init__(self, *sizes: int, exploration: float = 0.51, **settings: Any) -> None:
        super().__init__(*sizes, **settings)
        self.a = exploration

    def index(self, earned: int, drawn: int) -> float:
        return earned / drawn + math.sqrt(self.a * math.log(self.t) / drawn) if drawn else math.inf


class RankedKLUCB(Ranked):
    tie = 1e-12

    def index(self, earned: int, drawn: int) -> float:
        return kl_upper(earned / max(drawn, 1), drawn, math.log(self.t))


# --- RankedExp3 ---------------------------------------------------------------------------------------------


class RankedExp3:
    """An Exp3 for each position; `mixing` is that of Auer et al. 1995, without it the weights are exp(-eta S).

    A score grows by one over a probability, which makes the next one larger still, so that rounding errors grow
    as fast as the scores do: to show the same lists, weights must be rounded as in the compiled code. They are
    relative to what was the largest, and so is their running total, since it last halved or doubled; and they are
    multiplied by a series where a score can change by little only.
    """

    def __init__(self, n_items: int, n_positions: int, *, horizon: int, mixing: bool = False) -> None:
        self.n_items, self.n_positions, self.mixing = n_items, n_positions, mixing
        self.eta = math.sqrt(2 * math.log(n_items) / (horizon * n_items))
        self.gamma = 0.0
        if mixing:
            self.gamma = min(1.0, math.sqrt(n_items * math.log(n_items) / ((math.e - 1) * horizon)))
        self.score = [[0.0] * n_items for _ in range(n_positions)]
        self.weight = [[1.0] * n_items for _ in range(n_positions)]
        self.shift = [0.0] * n_positions
        self.total = [float(n_items)] * n_positions
        self.usual = [float(n_items)] * n_positions
        self.memo: list[tuple[int, float]] = []

    def rank(self, rng: np.random.Generator) -> list[int]:
        ranking: list[int] = []
        self.memo = []
        for weight, total in zip(self.weight, self.total, strict=True):
            u = rng.random()
            if u < self.gamma:
                item = math.floor(u / self.gamma * self.n_items)
            else:
                u = (u - self.gamma) / (1 - self.gamma)
                within = (i for i in range(self.n_items) if u * total < sum(weight[: i + 1]))
                item = next(within, self.n_items - 1)
            if self.mixing:  # one over the probability
                inverse = 1 / ((1 - self.gamma) * (weight[item] / total) + self.gamma / self.n_items)
            else:
                inverse = total / weight[item]
            self.memo.append((item, inverse))
            if item in ranking:
                absent = [other for other in range(self.n_items) if other not in ranking]
                item = absent[pick(rng, len(absent))]
            ranking.append(item)
        return ranking

    def update(
        self, ranking: Sequence[int], clicks: Sequence[int], memo: list[tuple[int, float]] | None = None
    ) -> None:
        memo = self.memo if memo is None else memo
        for k, (drawn, inverse) in enumerate(memo):
            reward = int(ranking[k] == drawn and clicks[k])
            change, changes = -self.eta * inverse, 1 - reward
            if self.mixing:
                change, changes = self.gamma / self.n_items * inverse, reward
            self.score[k][drawn] += change * changes
            before = self.weight[k][drawn]
            self.weight[k][drawn] = math.exp(self.score[k][drawn] - self.shift[k])
            if abs(change) < 1 / 16:
                self.weight[k][drawn] = before + before * series(change * changes)
            self.total[k] += self.weight[k][drawn] - before
            if not self.usual[k] / 2 < self.total[k] < self.usual[k] * 2:
                self.shift[k] = max(self.score[k])
                self.weight[k] = [math.exp(score - self.shift[k]) for score in self.score[k]]
                self.total[k] = 0.0
                for weight in self.weight[k]:  # `sum` rounds less from Python 3.12 on
                    self.total[k] += weight
                self.usual[k] = self.total[k]


def series(x: float) -> float:
    """The first eight terms of exp(x) - 1, added up as in the compiled code."""
    earlier = 1 / 2 + x * (1 / 6) + x * x * (1 / 24 + x * (1 / 120))
    later = 1 / 720 + x * (1 / 5040) + x * x * (1 / 40320)
    return x + x * x * (earlier + x * x * (x * x) * later)
