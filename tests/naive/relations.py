"""The policies that learn which of two items is better, in plain Python: slow, and written from the papers.

As in `naive.policies`, only the order in which items stand before a draw has to be that of the compiled code.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np

from naive.policies import shuffle_front

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
