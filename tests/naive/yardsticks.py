"""The yardsticks in plain Python."""

from collections.abc import Sequence

import numpy as np

from naive.common import shuffle_front


class Random:
    """A uniformly random list."""

    def __init__(self, n_items: int, n_positions: int, *, horizon: int) -> None:
        self.items = list(range(n_items))
        self.n_positions = n_positions
        self.memo: None = None

    def rank(self, rng: np.random.Generator) -> list[int]:
        shuffle_front(self.items, self.n_positions, rng)
        return self.items[: self.n_positions]

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: None = None) -> None:
        pass


class Given:
    """The order given."""

    def __init__(self, n_items: int, n_positions: int, *, horizon: int, order: Sequence[int]) -> None:
        self.shown = list(order)[:n_positions]
        self.memo: None = None

    def rank(self, rng: np.random.Generator) -> list[int]:
        return list(self.shown)

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: None = None) -> None:
        pass


class Optimal:
    """The best list, as it was told."""

    def __init__(self, n_items: int, n_positions: int, *, horizon: int, best_list: Sequence[int]) -> None:
        self.best_list = list(best_list)
        self.memo: None = None

    def rank(self, rng: np.random.Generator) -> list[int]:
        return list(self.best_list)

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: None = None) -> None:
        pass
