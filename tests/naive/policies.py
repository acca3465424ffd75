"""The policies in plain Python, with lists, dicts and sets: slow, and written from the papers' pseudo-code.

Each is a class with `rank(rng)`, which gives the list to show, and `update(ranking, clicks, memo)`. After `rank`,
`memo` is what learning from that list must remember; without one, `update` takes the last list's.

Only the order in which items stand before a draw has to be that of the compiled code, so that the same random
numbers give the same lists. `take` is how both draw: the item drawn changes places with the last that is left.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq

# --- confidence bounds --------------------------------------------------------------------------------------


def kl(p: float, q: float) -> float:
    left = p * math.log(p / q) if p > 0 else 0.0
    right = (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0
    return left + right


def kl_upper(p: float, n: int, budget: float) -> float:
    """max{q in [p, 1]: n kl(p, q) <= budget}, as the root of a function of q."""
    if n == 0 or p == 1:
        return 1.0
    if budget <= 0:
        return p
    if p == 0:
        return 1 - math.exp(-budget / n)
    most = budget / n
    above = min(1 - 1e-16, p + math.sqrt(most / 2) + 1e-15)  # kl(p, q) >= 2 (q - p)^2
    if kl(p, above) <= most:
        return 1.0
    return float(brentq(excess, p, above, (p, most), xtol=1e-15, rtol=1e-15))


def excess(q: float, p: float, most: float) -> float:
    return kl(p, q) - most


def interval(kind: str, p: float, n: int, budget: float) -> tuple[float, float]:
    """The lower and the upper bound."""
    if kind == "hoeffding":
        radius = math.sqrt(budget / (2 * n))
        return max(0.0, p - radius), min(1.0, p + radius)
    return 1 - kl_upper(1 - p, n, budget), kl_upper(p, n, budget)


# --- draws --------------------------------------------------------------------------------------------------


def pick(rng: np.random.Generator, n: int) -> int:
    """A number from 0 to n - 1; without a choice nothing is drawn."""
    return math.floor(rng.random() * n) if n > 1 else 0


def take(items: list[int], i: int) -> int:
    """Take the i-th item out; the last one fills its place."""
    items[i], items[-1] = items[-1], items[i]
    return items.pop()


def shuffle_front(items: list[int], n: int, rng: np.random.Generator) -> None:
    """Put random items on the first n places, one after the other."""
    for k in range(n):
        other = k + pick(rng, len(items) - k)
        items[k], items[other] = items[other], items[k]


# --- BatchRank, as printed ----------------------------------------------------------------------------------


class Batch:
    """Algorithm 1's batch b: positions I_b, items B_b, stage l_b, and the counts of this stage."""

    def __init__(self, first: int, last: int, items: Sequence[int]) -> None:
        self.first, self.last = first, last
        self.begin(0, items)

    @property
    def length(self) -> int:
        return self.last - self.first + 1

    def begin(self, stage: int, items: Sequence[int]) -> None:
        self.stage = stage
        self.items = list(items)
        self.issued = dict.fromkeys(items, 0)
        self.observed = dict.fromkeys(items, 0)
        self.clicks = dict.fromkeys(items, 0)

    def fresh(self) -> set[int]:
        """The items that are issued least."""
        least = min(self.issued.values())
        return {item for item in self.items if self.issued[item] == least}

    def fresh_in_front(self) -> None:
        fresh, n = self.fresh(), 0
        for i in range(len(self.items)):
            if self.items[i] in fresh:
                self.items[i], self.items[n] = self.items[n], self.items[i]
                n += 1


class BatchRank:
    """Algorithms 1 to 4, with a stage that always advances, and feedback that may be late, lost or void."""

    def __init__(
        self, n_items: int, n_positions: int, *, horizon: int, bounds: str = "kl", eliminate: bool = True
    ) -> None:
        self.n_positions = n_positions
        self.log_horizon = math.log(horizon)
        self.delta = math.log(horizon) + 3 * math.log(math.log(horizon))
        self.bounds, self.eliminate = bounds, eliminate
        self.batches = [Batch(0, n_positions - 1, range(n_items))]
        self.made = 1
        self.memo: list[tuple[Batch, int] | None] = []
        self.events: list[tuple[str, int]] = []
        """What the tests led to: split (at which place), stage (which one), eliminated (how many items)."""

    def stage_length(self, stage: int) -> int:
        gap = 2.0**-stage
        return math.ceil(16 * gap**-2 * self.log_horizon)

    def rank(self, rng: np.random.Generator) -> list[int]:
        ranking: list[int] = []
        self.memo = []
        for batch in sorted(self.batches, key=lambda batch: batch.first):
            self.display_batch(batch, rng, ranking)
        return ranking

    def display_batch(self, batch: Batch, rng: np.random.Generator, ranking: list[int]) -> None:
        least = batch.fresh()
        fresh = [item for item in batch.items if item in least]
        others = [item for item in batch.items if item not in least]
        counts = batch.issued[fresh[0]] < self.stage_length(batch.stage)
        shown_fresh: list[int] = []
        shown_others: list[int] = []
        for left in range(batch.length, 0, -1):
            # a fresh item, unless there are fewer of them than positions and none falls on this one
            draw = pick(rng, max(len(fresh), left))
            if draw < len(fresh):
                item = take(fresh, draw)
                shown_fresh.insert(0, item)
                counted = counts
            else:
                item = take(others, pick(rng, len(others)))
                shown_others.insert(0, item)
                counted = False
            ranking.append(item)
            self.memo.append((batch, batch.stage) if counted else None)
            batch.issued[item] += counted
        batch.items = fresh + shown_fresh + others + shown_others
        batch.fresh_in_front()

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: list[Any] | None = None) -> None:
        memo = self.memo if memo is None else memo
        for batch in self.batches:
            self.collect_clicks(batch, ranking, clicks, memo)
        for batch in list(self.batches):
            if set(batch.observed.values()) == {self.stage_length(batch.stage)}:
                self.update_batch(batch)

    def collect_clicks(
        self, batch: Batch, ranking: Sequence[int], clicks: Sequence[int], memo: list[Any]
    ) -> None:
        for item, click, entry in zip(ranking, clicks, memo, strict=True):
            if entry is not None and entry[0] is batch and entry[1] == batch.stage:
                batch.observed[item] += 1
                batch.clicks[item] += click

    def update_batch(self, batch: Batch) -> None:
        n = self.stage_length(batch.stage)
        low, high = {}, {}
        for item in batch.items:
            low[item], high[item] = interval(self.bounds, batch.clicks[item] / n, n, self.delta)
        order = sorted(batch.items, key=lambda item: (-low[item], item))
        split = 0
        for k in range(1, batch.length):
            if low[order[k - 1]] > max(high[item] for item in order[k:]):
                split = k
        if split:
            self.batches.remove(batch)
            self.batches += [
                Batch(batch.first, batch.first + split - 1, order[:split]),
                Batch(batch.first + split, batch.last, order[split:]),
            ]
            self.made += 2
            self.events.append(("split", batch.first + split))
            return
        kept = order
        if self.eliminate:
            kept = [item for item in order if high[item] >= low[order[batch.length - 1]]]
        if len(kept) < len(order):
            self.events.append(("eliminated", len(order) - len(kept)))
        batch.begin(batch.stage + 1, kept)
        self.events.append(("stage", batch.stage))

    def void(self, ranking: Sequence[int], memo: list[Any] | None = None) -> None:
        memo = self.memo if memo is None else memo
        for item, entry in zip(ranking, memo, strict=True):
            if entry is not None and entry[0] in self.batches and entry[1] == entry[0].stage:
                entry[0].issued[item] -= 1
                entry[0].fresh_in_front()


# --- BatchRank, as the paper's figures were run -------------------------------------------------------------


class Group:
    def __init__(self, items: Sequence[int]) -> None:
        self.items = list(items)
        self.observed = dict.fromkeys(items, 0)
        self.clicks = dict.fromkeys(items, 0)
        self.delta = 1 / 2


class BatchRankExperiment:
    """Ordered groups, each shuffled at every step; all that is shown is observed."""

    def __init__(
        self, n_items: int, n_positions: int, *, horizon: int, bounds: str = "kl", eliminate: bool = True
    ) -> None:
        self.n_positions = n_positions
        self.budget = math.log(n_items * horizon)
        self.bounds, self.eliminate = bounds, eliminate
        self.groups = [Group(range(n_items))]
        self.memo: list[Group] = []
        self.events: list[tuple[str, int]] = []
        """What the tests led to: cut (into how many parts), dropped (how many items), halved (log2 of delta)."""

    def rank(self, rng: np.random.Generator) -> list[int]:
        ranking: list[int] = []
        self.memo = []
        for group in self.groups:
            shown = min(len(group.items), self.n_positions - len(ranking))
            shuffle_front(group.items, shown, rng)
            ranking += group.items[:shown]
            self.memo += [group] * shown
        return ranking

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: list[Group] | None = None) -> None:
        memo = self.memo if memo is None else memo
        for item, click, group in zip(ranking, clicks, memo, strict=True):
            group.observed[item] += 1  # a group that is gone may count on: nobody looks at it
            group.clicks[item] += click
        place = 0
        groups: list[Group] = []
        for group in self.groups:
            enough = self.budget / group.delta**2
            if len(group.items) > 1 and all(n >= enough for n in group.observed.values()):
                groups += self.tested(group, place)
            else:
                groups.append(group)
            place += len(group.items)
        self.groups = groups

    def tested(self, group: Group, place: int) -> list[Group]:
        """What becomes of a group whose first item stands at this place."""
        low, high = {}, {}
        for item in group.items:
            n = group.observed[item]
            low[item], high[item] = interval(self.bounds, group.clicks[item] / n, n, self.budget)
        order = sorted(group.items, key=lambda item: (-low[item], item))
        inside = self.n_positions - place
        kept = order
        if self.eliminate and len(order) > inside:
            at_last = low[order[inside - 1]]
            kept = order[:inside] + [item for item in order[inside:] if high[item] >= at_last]
        parts = [[kept[0]]]
        for i in range(1, len(kept)):
            if i < inside and min(low[item] for item in kept[:i]) > max(high[item] for item in kept[i:]):
                parts.append([])
            parts[-1].append(kept[i])
        if len(kept) == len(group.items) and len(parts) == 1:
            group.items = order
            group.delta /= 2
            self.events.append(("halved", int(math.log2(group.delta))))
            return [group]
        if len(kept) < len(order):
            self.events.append(("dropped", len(order) - len(kept)))
        if len(parts) > 1:
            self.events.append(("cut", len(parts)))
        return [Group(part) for part in parts]


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


# --- RankedExp3 ---------------------------------------------------------------------------------------------


class RankedExp3:
    """An Exp3 for each position; `mixing` is that of Auer et al. 1995, without it the weights are exp(-eta S).

    A score grows by one over a probability, which makes the next one larger still, so that rounding errors grow
    as fast as the scores do: to show the same lists, weights must be rounded as in the compiled code. They are
    relative to what was the largest, and so is their running total, since it last halved or doubled.
    """

    def __init__(self, n_items: int, n_positions: int, *, horizon: int, mixing: bool = False) -> None:
        self.n_items, self.n_positions, self.mixing = n_items, n_positions, mixing
        self.eta = math.sqrt(2 * math.log(n_items) / (horizon * n_items))
        self.gamma = 0.0
        if mixing:
            self.gamma = min(1.0, math.sqrt(n_items * math.log(n_items) / ((math.e - 1) * horizon)))
        self.score = [[0.0] * n_items for _ in range(n_positions)]
        self.shift = [0.0] * n_positions
        self.total = [float(n_items)] * n_positions
        self.usual = [float(n_items)] * n_positions
        self.memo: list[tuple[int, float]] = []

    def rank(self, rng: np.random.Generator) -> list[int]:
        ranking: list[int] = []
        self.memo = []
        for score, shift, total in zip(self.score, self.shift, self.total, strict=True):
            weight = [math.exp(s - shift) for s in score]
            u = rng.random()
            if u < self.gamma:
                item = math.floor(u / self.gamma * self.n_items)
            else:
                u = (u - self.gamma) / (1 - self.gamma)
                within = (i for i in range(self.n_items) if u * total < sum(weight[: i + 1]))
                item = next(within, self.n_items - 1)
            inverse = total / weight[item]  # one over the probability
            if self.mixing:
                inverse = 1 / ((1 - self.gamma) * (weight[item] / total) + self.gamma / self.n_items)
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
            before = math.exp(self.score[k][drawn] - self.shift[k])
            if self.mixing:
                self.score[k][drawn] += self.gamma / self.n_items * reward * inverse
            else:
                self.score[k][drawn] -= self.eta * (1 - reward) * inverse
            self.total[k] += math.exp(self.score[k][drawn] - self.shift[k]) - before
            if not self.usual[k] / 2 < self.total[k] < self.usual[k] * 2:
                self.shift[k] = max(self.score[k])
                self.total[k] = 0.0
                for score in self.score[k]:  # `sum` rounds less from Python 3.12 on
                    self.total[k] += math.exp(score - self.shift[k])
                self.usual[k] = self.total[k]


# --- yardsticks ---------------------------------------------------------------------------------------------


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


class Optimal:
    """The best list, as it was told."""

    def __init__(self, n_items: int, n_positions: int, *, horizon: int, best_list: Sequence[int]) -> None:
        self.best_list = list(best_list)
        self.memo: None = None

    def rank(self, rng: np.random.Generator) -> list[int]:
        return list(self.best_list)

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: None = None) -> None:
        pass
