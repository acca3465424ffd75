"""The policies that learn which of two items is better, in plain Python: slow, and written from the papers.

As in `naive.twins`, only the order in which items stand before a draw has to be that of the compiled code.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, permutations
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from naive.common import kl, kl_upper, pick, shuffle_front

Blocks = list[list[int]]


def show(blocks: Blocks, n_positions: int, rng: np.random.Generator) -> list[int]:
    """The blocks one after the other, each shuffled where it stands, as far as there are positions."""
    ranking: list[int] = []
    for block in blocks:
        shown = min(len(block), n_positions - len(ranking))
        shuffle_front(block, shown, rng)
        ranking += block[:shown]
    return ranking


def differences(
    blocks: Sequence[Sequence[int]], ranking: Sequence[int], clicks: Sequence[int]
) -> list[tuple[int, int]]:
    """The pairs of one block of which the first was clicked and the second was not, shown or not."""
    clicked = {item for item, click in zip(ranking, clicks, strict=True) if click}
    return [
        (i, j) for block in blocks for i, j in permutations(block, 2) if i in clicked and j not in clicked
    ]


# --- TopRank ------------------------------------------------------------------------------------------------


class TopRank:
    """Algorithm 1: peel blocks from the relation, show them shuffled, let the relation grow."""

    def __init__(self, n_items: int, n_positions: int, *, horizon: int) -> None:
        self.n_items, self.n_positions = n_items, n_positions
        self.delta = 1 / horizon
        self.lead: Counter[tuple[int, int]] = Counter()
        """S_ij."""
        self.n: Counter[frozenset[int]] = Counter()
        """N_ij."""
        self.relation: set[tuple[int, int]] = set()
        self.events: list[tuple[str, int]] = []
        """What happened: added (pairs to the relation), blocks (their number after that), cycle."""
        self.blocks = self.peel()
        self.memo: list[tuple[int, ...]] = []

    def peel(self) -> Blocks:
        left = list(range(self.n_items))
        blocks = []
        while left:
            block = [j for j in left if not any((i, j) in self.relation for i in left)]
            if not block:
                self.events.append(("cycle", len(left)))
                block = left
            blocks.append(block)
            left = [item for item in left if item not in block]
        return blocks

    def rank(self, rng: np.random.Generator) -> list[int]:
        ranking = show(self.blocks, self.n_positions, rng)
        self.memo = [tuple(block) for block in self.blocks]
        return ranking

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: list[Any] | None = None) -> None:
        pairs = differences(self.memo if memo is None else memo, ranking, clicks)
        for i, j in pairs:
            self.lead[i, j] += 1
            self.lead[j, i] -= 1
            self.n[frozenset((i, j))] += 1
        before = len(self.relation)
        for i, j in pairs:
            n = self.n[frozenset((i, j))]
            c = 4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2))
            if self.lead[i, j] >= math.sqrt(2 * n * math.log(c / self.delta * math.sqrt(n))):
                self.relation.add((i, j))
        if len(self.relation) > before:
            self.events.append(("added", len(self.relation) - before))
            self.blocks = self.peel()
            self.events.append(("blocks", len(self.blocks)))


# --- UniRank ------------------------------------------------------------------------------------------------


class Leaders:
    """How often each leader led: exactly, or as a table of 256 slots has it where a newcomer evicts."""

    def __init__(self, exact: bool = False) -> None:
        self.exact = exact
        self.times: Counter[Any] = Counter()
        self.taken: dict[int, tuple[int, ...]] = {}
        self.evictions = 0

    def count(self, leader: tuple[int, ...]) -> int:
        """Once more, for a leader that is written as numbers."""
        if not self.exact:
            slot = self.slot(leader)
            other = self.taken.get(slot)
            if other is not None and other != leader:
                del self.times[other]
                self.evictions += 1
            self.taken[slot] = leader
        self.times[leader] += 1
        return self.times[leader]

    @staticmethod
    def slot(leader: tuple[int, ...]) -> int:
        """The last byte of the second polynomial is that of the key."""
        value = sum(x * 1_540_483_477**power for power, x in enumerate(reversed(leader)))
        return value % (2**31 - 19) % 256


class UniRank:
    """The leader from the mean differences of clicks, the partitions a step away, and KL-UCB to choose from these."""

    def __init__(self, n_items: int, n_positions: int, *, horizon: int, exact: bool = False) -> None:
        self.n_items, self.n_positions = n_items, n_positions
        self.total: Counter[tuple[int, int]] = Counter()
        """The sum of C_i - C_j."""
        self.n: Counter[tuple[int, int]] = Counter()
        """D_ij."""
        self.leaders = Leaders(exact)
        self.memo: Blocks = []
        self.events: list[tuple[str, int]] = []
        """What was played: leader (its number of parts), merge (which part), join (which item), cycle."""

    def tau(self, i: int, j: int) -> float:
        return self.total[i, j] / self.n[i, j] if self.n[i, j] else 0.0

    def leader(self) -> tuple[Blocks, list[int]]:
        """Its parts down to position K, and the items below."""
        left = list(range(self.n_items))
        parts: Blocks = []
        while sum(map(len, parts)) < self.n_positions:
            part = [i for i in left if all(self.tau(i, j) >= 0 for j in left)]
            if not part:
                self.events.append(("cycle", len(left)))
                part = left
            parts.append(part)
            left = [item for item in left if item not in part]
        return parts, left

    def optimism(self, j: int, i: int, times: int) -> float:
        """How large the share of j's wins over i may be, if it may be above 1/2 (else some number below)."""
        if times < 3:
            return 1.0
        budget = math.log(times) + 3 * math.log(math.log(times))
        share, n = (1 + self.tau(j, i)) / 2, self.n[j, i]
        if share < 1 / 2 and n * kl(share, 1 / 2) > budget + 1e-9:
            return 0.0
        return kl_upper(share, n, budget)

    def rank(self, rng: np.random.Generator) -> list[int]:
        parts, below = self.leader()
        times = self.leaders.count(tuple(2 * i + (i == part[0]) + 1 for part in parts for i in part))
        played, highest, event = parts, 1 / 2, ("leader", len(parts))
        for c in range(len(parts) - 1):
            value = max(self.optimism(j, i, times) for j in parts[c + 1] for i in parts[c])
            if value > highest + 1e-12:
                played = [*parts[:c], parts[c] + parts[c + 1], *parts[c + 2 :]]
                highest, event = value, ("merge", c)
        for j in below:
            value = max(self.optimism(j, i, times) for i in parts[-1])
            if value > highest + 1e-12:
                played = [*parts[:-1], [*parts[-1], j]]
                highest, event = value, ("join", j)
        self.events.append(event)
        self.memo = [list(part) for part in played]
        return show(played, self.n_positions, rng)

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: Blocks | None = None) -> None:
        for i, j in differences(self.memo if memo is None else memo, ranking, clicks):
            self.total[i, j] += 1
            self.total[j, i] -= 1
            self.n[i, j] += 1
            self.n[j, i] += 1


# --- GRAB ---------------------------------------------------------------------------------------------------


class GRAB:
    """The best assignment of means, its neighbours, and KL-UCB to choose from these."""

    def __init__(self, n_items: int, n_positions: int, *, horizon: int, exact: bool = False) -> None:
        self.n_items, self.n_positions = n_items, n_positions
        self.clicks = np.zeros((n_items, n_positions))
        self.shown = np.zeros((n_items, n_positions))
        self.leaders = Leaders(exact)
        self.memo = None
        self.events: list[tuple[str, int]] = []
        """What was played: turn (the leader's), stay (no neighbour was better), swap, replace."""

    def means(self) -> Any:
        return self.clicks / np.maximum(self.shown, 1)

    def leader(self) -> list[int]:
        """Equal assignments are told apart by a little that is taken from items of high numbers on top."""
        value = self.means()
        for (i, k), _ in np.ndenumerate(value):
            value[i, k] -= 1e-8 * i / self.n_items * ((self.n_positions - k) / self.n_positions) ** 0.7
        items, positions = linear_sum_assignment(value, maximize=True)
        return [int(item) for _, item in sorted(zip(positions, items, strict=True))]

    def neighbours(self, leader: list[int]) -> list[list[int]]:
        mean = self.means()
        order = sorted(range(self.n_positions), key=lambda k: (-mean[leader[k], k], k))
        found = []
        for k, other in pairwise(order):
            swapped = list(leader)
            swapped[k], swapped[other] = leader[other], leader[k]
            found.append(swapped)
        for item in range(self.n_items):
            if item not in leader:
                replaced = list(leader)
                replaced[order[-1]] = item
                found.append(replaced)
        return found

    def gain(self, neighbour: list[int], leader: list[int], times: int) -> float:
        gain = 0.0
        for k in range(self.n_positions):
            if neighbour[k] != leader[k]:
                gain += self.optimism(neighbour[k], k, times) - self.means()[leader[k], k]
        return gain

    def optimism(self, item: int, k: int, times: int) -> float:
        if times < 3 or self.shown[item, k] == 0:
            return 1.0
        budget = math.log(times) + 3 * math.log(math.log(times))
        return kl_upper(self.clicks[item, k] / self.shown[item, k], int(self.shown[item, k]), budget)

    def rank(self, rng: np.random.Generator) -> list[int]:
        leader = self.leader()
        times = self.leaders.count(tuple(item + 1 for item in leader))
        if self.n_items == 1 or times % max(2, self.n_items - 1) == 0:
            self.events.append(("turn", times))
            return leader
        played, most = leader, 0.0
        for neighbour in self.neighbours(leader):
            gain = self.gain(neighbour, leader, times)
            if gain > most + 1e-12:
                played, most = neighbour, gain
        changes = sum(a != b for a, b in zip(played, leader, strict=True))
        self.events.append((("stay", "replace", "swap")[changes], times))
        return played

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: None = None) -> None:
        for k, (item, click) in enumerate(zip(ranking, clicks, strict=True)):
            self.shown[item, k] += 1
            self.clicks[item, k] += click


# --- BubbleRank ---------------------------------------------------------------------------------------------


class BubbleRank:
    """Algorithm 1, with challengers for the last position where not all items are shown."""

    def __init__(
        self, n_items: int, n_positions: int, *, horizon: int, base: str = "", power: float = 4.0
    ) -> None:
        self.n_positions = n_positions
        named = [int(number) for number in base.split("/")] if base else []
        order = named + [item for item in range(n_items) if item not in named]
        self.list, self.hidden = order[:n_positions], sorted(order[n_positions:])
        self.delta = horizon**-power
        self.s: Counter[tuple[int, int]] = Counter()
        self.n: Counter[tuple[int, int]] = Counter()
        self.t = 0
        self.memo: list[tuple[int, int]] = []
        self.events: list[tuple[str, int]] = []
        """What happened: swap (of neighbours in a list), challenge (at the last position), exchange (for good, of which
        position), entry (for good, of which item)."""

    def clear(self, i: int, j: int) -> bool:
        return self.s[i, j] > 2 * math.sqrt(self.n[i, j] * math.log(1 / self.delta))

    def rank(self, rng: np.random.Generator) -> list[int]:
        self.t += 1
        h = self.t % 2
        ranking = list(self.list)
        self.memo = []
        for upper in range(h + 1, self.n_positions + 1, 2):  # positions from 1, as in the paper
            i = self.list[upper - 1]
            if upper < self.n_positions:
                j = self.list[upper]
                if not self.clear(i, j) and rng.random() >= 1 / 2:
                    ranking[upper - 1], ranking[upper] = j, i
                    self.events.append(("swap", upper))
                self.memo.append((i, j))
            else:
                challengers = [j for j in self.hidden if not self.clear(i, j)]
                if challengers:
                    j = challengers[pick(rng, len(challengers))]
                    if rng.random() >= 1 / 2:
                        ranking[upper - 1] = j
                        self.events.append(("challenge", j))
                    self.memo.append((i, j))
        return ranking

    def update(self, ranking: Sequence[int], clicks: Sequence[int], memo: Any = None) -> None:
        clicked = {item for item, click in zip(ranking, clicks, strict=True) if click}
        for i, j in self.memo if memo is None else memo:
            difference = (i in clicked) - (j in clicked)
            if difference:
                self.s[i, j] += difference
                self.s[j, i] -= difference
                self.n[i, j] += 1
                self.n[j, i] += 1
        for k in range(self.n_positions - 1):
            i, j = self.list[k : k + 2]
            if self.clear(j, i):
                self.list[k : k + 2] = [j, i]
                self.events.append(("exchange", k))
        last = self.list[-1]
        winners = [j for j in self.hidden if self.clear(j, last)]
        if winners:
            self.list[-1] = winners[0]
            self.hidden = sorted({*self.hidden, last} - {winners[0]})
            self.events.append(("entry", winners[0]))
