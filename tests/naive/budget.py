"""A budget around any plain policy: what was shown and clicked, in lists."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


class Within:
    """Shows the explorer's list only if one without a click would not overspend."""

    def __init__(self, explorer: Any, order: Sequence[int], max_loss: float, any_list: bool) -> None:
        self.explorer, self.order, self.max_loss, self.any_list = explorer, list(order), max_loss, any_list
        self.given: list[int] = []
        self.explored: list[int] = []
        """Clicks, list by list."""
        self.waiting = 0
        self.memo: Any = None

    def rank(self, rng: np.random.Generator) -> list[int]:
        shown = self.explorer.rank(rng)
        today = self.order[: len(shown)]
        if shown == today:
            self.memo = ("own", self.explorer.memo)
        elif self.covered():
            self.memo = ("exploring", self.explorer.memo)
            self.waiting += 1
        else:
            shown, self.memo = today, ("instead", None)
        return list(shown)

    def covered(self) -> bool:
        if not self.given:
            return False
        low = max(0.0, sum(self.explored) - reach(self.explored, 0.05))
        n_explored = len(self.explored) + self.waiting + 1
        around = reach(self.given, 0.025)
        rates = [max(0.0, sum(self.given) + sign * around) / len(self.given) for sign in (-1, 1)]
        # whatever the given order earns within these, what is earned and saved must cover what is owed
        return all(
            low + rate * len(self.given) + 1e-9 >= (1 - self.max_loss) * rate * (len(self.given) + n_explored)
            for rate in rates
        )

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: Any) -> None:
        kind, inner = memo
        if kind == "exploring":
            self.waiting -= 1
            self.explored.append(sum(clicks))
        else:
            self.given.append(sum(clicks))
        if kind != "instead" or self.any_list:
            self.explorer.update(ranking, clicks, inner)


def reach(values: Sequence[float], level: float) -> float:
    """The normal mixture: sqrt((V + 30) log((V + 30) / (30 level^2)))."""
    variance = max(1.0, len(values) * float(np.var(values))) if values else 1.0
    return math.sqrt((variance + 30) * math.log((variance + 30) / (30 * level**2)))
