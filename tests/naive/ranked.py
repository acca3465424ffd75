"""Ranked bandits with upper bounds in plain Python: a bandit for each position that draws its highest item.

The interface is that of `naive.policies`, where RankedExp3 is.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from naive.policies import kl_upper, pick


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
