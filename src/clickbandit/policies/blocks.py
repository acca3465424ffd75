"""What TopRank and UniRank share: items in ordered blocks, peeled from a relation between them.

A block is known by the place of its first item.
"""

from typing import Any

import numpy as np

from clickbandit.compiling.kernel import IntArray, interpreted, slow_path
from clickbandit.policies.possible import within

BELOW = -1
"""Stands for the block of the items below position K, of which nothing is learned."""


def memo_size(n_items: int, n_positions: int) -> int:
    """For each item the block in which it was played, whether it is shown or not."""
    return n_items


@slow_path
def peel(
    beats: IntArray,
    beaten: IntArray,
    n_positions: int,
    items: IntArray,
    block: IntArray,
    end: IntArray,
    ahead: IntArray,
) -> None:
    """The items that no remaining item beats are the next block, down to position K; in a cycle, all the rest.

    `beats` is 1 for each pair of which the first beats the second, and `beaten` counts by how many an item is. Fills
    in `items` by block and in increasing order, `block` by item, and by place the `end` of the block there; `ahead`
    is for counting.
    """
    for item in range(len(items)):
        block[item] = BELOW
        ahead[item] = beaten[item]
    place = 0
    while place < n_positions:
        start = place
        place = _place(start, start, 0, items, block, ahead)
        if place == start:
            place = _place(start, start, len(items), items, block, ahead)
        for i in range(start, place):
            end[i] = place
            for item in range(len(items) if place < n_positions else 0):
                ahead[item] -= beats[items[i], item]
    _place(place, BELOW, len(items), items, block, ahead)


@slow_path
def _place(place: int, name: int, max_ahead: int, items: IntArray, block: IntArray, ahead: IntArray) -> int:
    """Assign unassigned items with at most `max_ahead` items ahead to a block; return the next free place."""
    for item in range(len(items)):
        if block[item] == BELOW and ahead[item] <= max_ahead:
            items[place] = item
            block[item] = name
            place += 1
    return place


def is_peeled(
    beats: IntArray, beaten: IntArray, n_positions: int, items: IntArray, block: IntArray, end: IntArray
) -> bool:
    """Whether these blocks are those of this relation; the items of a block may be in any order."""
    if not (within(beats, 0, 2) and np.array_equal(beaten, beats.sum(axis=0))):
        return False
    expected, of_item, ends, ahead = np.zeros((4, len(items)), np.int64)
    interpreted(peel)(beats, beaten, n_positions, expected, of_item, ends, ahead)
    return (
        np.array_equal(block, of_item)
        and np.array_equal(end[:n_positions], ends[:n_positions])
        and np.array_equal(block[items], block[expected])
    )


def best_of_blocks(block: IntArray, wins: IntArray, ranking: IntArray) -> None:
    """The blocks in order, in each the items by their leads in wins over the others together."""
    for start in np.unique(block[block != BELOW]):
        items = np.flatnonzero(block == start)
        among = wins[np.ix_(items, items)]
        lead = among.sum(axis=1) - among.sum(axis=0)
        end = min(start + len(items), len(ranking))
        ranking[start:end] = items[np.argsort(-lead, kind="stable")][: end - start]


def describe_blocks(block: IntArray, n_positions: int) -> list[dict[str, Any]]:
    """The blocks with their positions, and the items below them."""
    groups: list[dict[str, Any]] = []
    for start in sorted(set(block.tolist()) - {BELOW}):
        items = np.flatnonzero(block == start).tolist()
        groups.append({"first": start + 1, "last": min(start + len(items), n_positions), "items": items})
    below = np.flatnonzero(block == BELOW).tolist()
    return groups + ([{"items": below}] if below else [])
