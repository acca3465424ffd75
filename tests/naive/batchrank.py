"""BatchRank in plain Python: slow, and written from the paper's pseudo-code."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from naive.common import interval, pick, shuffle_front, take

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
