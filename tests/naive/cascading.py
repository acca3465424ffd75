"""Cascading bandits in plain Python: an index for every item at every step, and the highest first.

The interface is that of `naive.twins`. Each class says which index its policy gives an item; what a list teaches,
and how ties are broken, is the same for all.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from naive.common import kl, kl_upper, shuffle_front


def highest(index: dict[int, float], n: int, rng: np.random.Generator) -> list[list[int]]:
    """The n items with the highest index in groups of the same index; inside a group they are in random order."""
    groups: list[list[int]] = []
    for value in sorted(set(index.values()), reverse=True):
        left = n - sum(map(len, groups))
        if left > 0:
            same = sorted(item for item in index if index[item] == value)
            shuffle_front(same, min(left, len(same) - 1), rng)  # the last of all needs no draw
            groups.append(same[:left])
    return groups


# --- CascadeKL-UCB ------------------------------------------------------------------------------------------


class CascadeKLUCB:
    """Algorithm 1 of Kveton et al. 2015: all bounds at every step, and the highest first."""

    def __init__(
        self,
        n_items: int,
        n_positions: int,
        *,
        horizon: int,
        feedback: str = "first",
        budget: str = "log t + 3 log log t",
    ) -> None:
        self.n_positions = n_positions
        self.feedback, self.budget = feedback, budget
        self.observed = dict.fromkeys(range(n_items), 0)
        self.clicks = dict.fromkeys(range(n_items), 0)
        self.t = 0
        self.memo: None = None
        self.ties = 0
        """Steps, after the first L, at which items of the list were tied."""

    def rank(self, rng: np.random.Generator) -> list[int]:
        self.t += 1
        items = sorted(self.observed)
        if self.t <= len(items):
            front = items[self.t - 1]
            items[0], items[front] = items[front], items[0]
            behind = items[1:]
            shuffle_front(behind, self.n_positions - 1, rng)
            return [front, *behind[: self.n_positions - 1]]
        log_t = math.log(self.t)
        budget = max(0.0, log_t if self.budget == "log t" else log_t + 3 * math.log(log_t))
        bound = {}
        for item in items:
            n = self.observed[item]
            bound[item] = kl_upper(self.clicks[item] / n if n else 0.0, n, budget)
        ranking: list[int] = []
        left = set(items)
        tied = False
        while len(ranking) < self.n_positions:
            highest = max(bound[item] for item in left)
            same = sorted(item for item in left if highest - bound[item] <= 1e-12)
            left -= set(same)
            tied = tied or len(same) > 1
            shown = min(len(same), self.n_positions - len(ranking))
            # the last of all needs no draw
            shuffle_front(same, min(shown, len(same) - 1), rng)
            ranking += same[:shown]
        self.ties += tied
        return ranking

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: None = None) -> None:
        clicked = [k for k, click in enumerate(clicks) if click]
        examined = len(ranking)
        if clicked and self.feedback == "first":
            examined = clicked[0] + 1
        if clicked and self.feedback == "last":
            examined = clicked[-1] + 1
        for item, click in list(zip(ranking, clicks, strict=True))[:examined]:
            self.observed[item] += 1
            self.clicks[item] += click


class GLRTCascadeKLUCB(CascadeKLUCB):
    """Wang et al. 2019: observations in blocks, a test after each, and everything anew where one finds a change."""

    def __init__(
        self,
        n_items: int,
        n_positions: int,
        *,
        horizon: int,
        feedback: str = "first",
        exploration: float = 0.0,
        false_alarm: float = 0.0,
    ) -> None:
        self.settings = {"horizon": horizon, "feedback": feedback}
        self.n_items = n_items
        usual = math.sqrt(n_items * math.log(horizon) / horizon)
        self.period = int(n_items / min(exploration or usual, 0.5))
        self.false_alarm = false_alarm or 1 / horizon
        self.restarts = 0
        super().__init__(n_items, n_positions, **self.settings)
        self.start()

    def start(self) -> None:
        super().__init__(self.n_items, self.n_positions, **self.settings)
        self.block: dict[int, list[int]] = {item: [] for item in range(self.n_items)}
        """The clicks and non-clicks since the last whole block."""
        self.blocks: dict[int, list[tuple[int, int]]] = {item: [] for item in range(self.n_items)}
        """The lengths and clicks of whole blocks, the oldest first."""

    def rank(self, rng: np.random.Generator) -> list[int]:
        lists = self.t
        turn = lists % self.period
        if turn < self.n_items:
            self.t = turn  # then this is a first look of CascadeKL-UCB
        ranking = super().rank(rng)
        self.t = lists + 1
        self.memo = self.restarts
        return ranking

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: int | None = None) -> None:
        if memo is not None and memo != self.restarts:
            return
        before = dict(self.observed)
        super().update(ranking, clicks)
        changed = []
        for item, click in zip(ranking, clicks, strict=True):
            if self.observed[item] > before[item]:
                self.block[item].append(click)
                if len(self.block[item]) == 16:
                    self.close(item)
                    changed.append(self.is_changed(item))
        if any(changed):
            self.restarts += 1
            self.start()

    def close(self, item: int) -> None:
        blocks = self.blocks[item]
        blocks.append((16, sum(self.block[item])))
        self.block[item] = []
        length = 16
        while sum(n == length for n, _ in blocks) > 4:
            first = next(i for i, (n, _) in enumerate(blocks) if n == length)
            blocks[first : first + 2] = [(2 * length, blocks[first][1] + blocks[first + 1][1])]
            length *= 2

    def is_changed(self, item: int) -> bool:
        blocks = self.blocks[item]
        n, total = self.observed[item], self.clicks[item]
        ratios = []
        for split in range(1, len(blocks)):
            before, after = (
                (sum(m for m, _ in part), sum(c for _, c in part))
                for part in (blocks[:split], blocks[split:])
            )
            ratios.append(sum(m * kl(c / m, total / n) for m, c in (after, before)))
        return any(ratio >= math.log(3 * n**1.5 / self.false_alarm) for ratio in ratios)


class Cascading:
    """Each item in front once, unless `first_looks` is false; then by decreasing index."""

    first_looks = True

    def __init__(self, n_items: int, n_positions: int, *, horizon: int, feedback: str = "first") -> None:
        self.n_items, self.n_positions = n_items, n_positions
        self.feedback = feedback
        self.observed: dict[int, float] = dict.fromkeys(range(n_items), 0)
        self.clicks: dict[int, float] = dict.fromkeys(range(n_items), 0)
        self.t = 0
        self.memo: Any = None
        self.ties = 0
        """Lists, after the first looks, in which two neighbours had the same index."""

    def rank(self, rng: np.random.Generator) -> list[int]:
        self.t += 1
        if self.first_looks and self.t <= self.n_items:
            items = list(range(self.n_items))
            items[0], items[self.t - 1] = items[self.t - 1], items[0]
            behind = items[1:]
            shuffle_front(behind, self.n_positions - 1, rng)
            return [self.t - 1, *behind[: self.n_positions - 1]]
        groups = highest(self.indices(rng), self.n_positions, rng)
        self.ties += any(len(group) > 1 for group in groups)
        return [item for group in groups for item in group]

    def indices(self, rng: np.random.Generator) -> dict[int, float]:
        return {item: self.index(item) if self.observed[item] else math.inf for item in range(self.n_items)}

    def index(self, item: int) -> float:
        """The index of an item that was observed."""
        raise NotImplementedError

    def mean(self, item: int) -> float:
        return self.clicks[item] / self.observed[item] if self.observed[item] else 0.0

    def looks(self, ranking: Sequence[int], clicks: Sequence[int]) -> list[tuple[int, int]]:
        """The items that were examined, each with its click."""
        clicked = [k for k, click in enumerate(clicks) if click]
        examined = len(ranking)
        if clicked and self.feedback != "full":
            examined = 1 + (clicked[0] if self.feedback == "first" else clicked[-1])
        return list(zip(ranking, clicks, strict=True))[:examined]

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: Any = None) -> None:
        for item, click in self.looks(ranking, clicks):
            self.observed[item] += 1
            self.clicks[item] += click


class CascadeUCB1(Cascading):
    def index(self, item: int) -> float:
        return self.mean(item) + math.sqrt(1.5 * math.log(self.t) / self.observed[item])


class CascadeUCBV(Cascading):
    def __init__(self, *sizes: int, exploration: float = 2.0, **settings: Any) -> None:
        super().__init__(*sizes, **settings)
        self.zeta = exploration

    def index(self, item: int) -> float:
        m, n, log_t = self.mean(item), self.observed[item], math.log(self.t)
        return m + math.sqrt(2 * self.zeta * m * (1 - m) * log_t / n) + 3 * self.zeta * log_t / n


class TSCascade(Cascading):
    first_looks = False

    def indices(self, rng: np.random.Generator) -> dict[int, float]:
        z = rng.standard_normal()
        return {item: self.mean(item) + z * self.deviation(item) for item in range(self.n_items)}

    def deviation(self, item: int) -> float:
        m, n, log_t = self.mean(item), self.observed[item], math.log(self.t + 1)
        return max(math.sqrt(m * (1 - m) * log_t / (n + 1)), log_t / (n + 1))


class CTS(Cascading):
    first_looks = False

    def indices(self, rng: np.random.Generator) -> dict[int, float]:
        return {item: self.attraction(item, rng) for item in range(self.n_items)}

    def attraction(self, item: int, rng: np.random.Generator) -> float:
        wins, losses = self.clicks[item], self.observed[item] - self.clicks[item]
        x, y = gamma(1 + wins, rng), gamma(1 + losses, rng)
        return x / (x + y)


def gamma(shape: float, rng: np.random.Generator) -> float:
    """Marsaglia and Tsang's method: at each try a normal variable and, where its cube is positive, a uniform one."""
    if shape < 1:
        return (1 - rng.random()) ** (1 / shape) * gamma(shape + 1, rng)
    d = shape - 1 / 3
    while True:
        x = rng.standard_normal()
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v <= 0:
            continue
        if math.log(1 - rng.random()) < x**2 / 2 + d - d * v + d * math.log(v):
            return d * v


class DCMKLUCB(CascadeKLUCB):
    """With the positions, once each item was in front, by decreasing termination."""

    def __init__(self, n_items: int, n_positions: int, *, horizon: int, termination: str = "") -> None:
        super().__init__(n_items, n_positions, horizon=horizon, feedback="last")
        self.termination = [float(p) for p in termination.split("/")] if termination else [1.0] * n_positions
        self.moved = 0
        """Lists in which the item with the highest bound was not on top."""

    def rank(self, rng: np.random.Generator) -> list[int]:
        by_bound = super().rank(rng)
        if self.t <= len(self.observed):
            return by_bound
        positions = sorted(range(self.n_positions), key=lambda k: -self.termination[k])
        at = dict(zip(positions, by_bound, strict=True))
        self.moved += at[0] != by_bound[0]
        return [at[k] for k in range(self.n_positions)]


class CascadeDUCB(Cascading):
    """All that was observed is multiplied by the discount before each list but the first."""

    def __init__(
        self, *sizes: int, horizon: int, discount: float = 0.0, exploration: float = 0.5, **settings: Any
    ) -> None:
        super().__init__(*sizes, horizon=horizon, **settings)
        self.discount = discount if discount > 0 else 1 - 1 / (4 * math.sqrt(horizon))
        self.epsilon = exploration
        self.late = 0
        """Lists that were learned from after another one was made."""

    def rank(self, rng: np.random.Generator) -> list[int]:
        ranking = super().rank(rng)
        self.memo = self.t
        for item in range(self.n_items):  # as of this list: the next one will see it as it is learned
            self.observed[item] *= self.discount
            self.clicks[item] *= self.discount
        return ranking

    def index(self, item: int) -> float:
        total = sum(self.observed.values())
        return self.mean(item) + 2 * math.sqrt(max(0.0, self.epsilon * math.log(total)) / self.observed[item])

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: Any = None) -> None:
        age = self.t - (self.t if memo is None else memo)
        self.late += age > 0
        for item, click in self.looks(ranking, clicks):
            self.observed[item] += self.discount**age
            self.clicks[item] += click * self.discount**age


class CascadeSWUCB(Cascading):
    """The lists of the window are kept and counted anew at every step."""

    def __init__(
        self, *sizes: int, horizon: int, window: int = 0, exploration: float = 0.5, **settings: Any
    ) -> None:
        super().__init__(*sizes, horizon=horizon, **settings)
        self.window = window if window > 0 else math.ceil(2 * math.sqrt(horizon * math.log(horizon)))
        self.epsilon = exploration
        self.known: dict[int, list[tuple[int, int]]] = {}
        """By step: what its list taught."""
        self.forgotten = self.ignored = 0
        """Lists that left the window, and lists whose feedback came after that."""

    def rank(self, rng: np.random.Generator) -> list[int]:
        gone = [step for step in self.known if step < self.t + 1 - self.window]
        for step in gone:
            del self.known[step]
        self.forgotten += len(gone)
        looks = [look for step in self.known for look in self.known[step]]
        for item in range(self.n_items):
            self.observed[item] = sum(1 for seen, _ in looks if seen == item)
            self.clicks[item] = sum(click for seen, click in looks if seen == item)
        ranking = super().rank(rng)
        self.memo = self.t
        return ranking

    def index(self, item: int) -> float:
        n = self.observed[item]
        return self.mean(item) + math.sqrt(self.epsilon * math.log(min(self.t, self.window)) / n)

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: Any = None) -> None:
        step = self.t if memo is None else memo
        if step >= self.t + 1 - self.window:
            self.known[step] = self.looks(ranking, clicks)
        else:
            self.ignored += 1
