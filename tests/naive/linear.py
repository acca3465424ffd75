"""Linear cascading bandits in plain Python: the normal equations, solved anew at every step."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from naive.cascading import highest


class CascadeLin:
    """One regression over the features of all items."""

    def __init__(
        self,
        n_items: int,
        n_positions: int,
        *,
        horizon: int,
        feedback: str = "first",
        exploration: float = 1.0,
        features: Any = None,
    ) -> None:
        self.x = np.eye(n_items) if features is None else np.array(features, float)
        self.n_positions, self.feedback, self.exploration = n_positions, feedback, exploration
        self.seen: list[tuple[int, int]] = []
        self.memo: None = None

    def regression(self) -> tuple[Any, Any]:
        """The precision M, and M^-1 B."""
        rows = np.array([self.x[item] for item, _ in self.seen]).reshape(-1, self.x.shape[1])
        clicks = np.array([click for _, click in self.seen], float)
        precision = np.eye(self.x.shape[1]) + rows.T @ rows
        return precision, np.linalg.solve(precision, rows.T @ clicks)

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: None = None) -> None:
        last = {"first": [k for k in range(len(clicks)) if clicks[k]][:1], "full": []}
        last["last"] = [k for k in range(len(clicks)) if clicks[k]][-1:]
        end = (last[self.feedback] or [len(clicks) - 1])[0] + 1
        self.seen += list(zip(ranking[:end], clicks[:end], strict=True))

    def shown(self, index: Any, rng: np.random.Generator) -> list[int]:
        """Indices that differ by rounding alone are the same."""
        groups = highest(dict(enumerate(np.round(index, 10).tolist())), self.n_positions, rng)
        return [item for group in groups for item in group]


class CascadeLinUCB(CascadeLin):
    def rank(self, rng: np.random.Generator) -> list[int]:
        precision, theta = self.regression()
        width = np.sqrt(np.einsum("ij,ji->i", self.x, np.linalg.solve(precision, self.x.T)))
        return self.shown(np.minimum(1, self.x @ theta + self.exploration * width), rng)


class CascadeLinTS(CascadeLin):
    def rank(self, rng: np.random.Generator) -> list[int]:
        precision, theta = self.regression()
        z = np.array([rng.standard_normal() for _ in theta])
        return self.shown(
            self.x @ (theta + self.exploration * np.linalg.cholesky(np.linalg.inv(precision)) @ z), rng
        )
