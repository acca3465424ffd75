"""The best assignment of items to positions, and for how long it stays the best, for GRAB."""

import math

from clickbandit.compiling.kernel import FloatArray, IntArray, slow_path

FREE = -1
"""Stands for the position of an item that has none, and for the start of a chain."""


@slow_path
def assign(
    value: FloatArray, items: IntArray, position: IntArray, distance: FloatArray, chain: IntArray
) -> None:
    """Fill in the items that make the sum of `value[item, position]` the largest, and the position of each item.

    The Hungarian method: position after position takes an item, along the chain of exchanges that costs least. Prices
    of items and wages of positions keep what an item lacks at each position, `wage + price - value`, from being
    negative, and zero where it stands. `distance` and `chain` are for counting, with a column for each item.
    """
    n_items, n_positions = value.shape
    price, wage, least = distance[0], distance[1], distance[2]
    before, reached = chain[0], chain[1]
    for item in range(n_items):
        position[item] = FREE
        price[item] = 0.0
    for start in range(n_positions):
        for item in range(n_items):
            least[item] = math.inf
            reached[item] = 0
        wage[start] = -math.inf
        for item in range(n_items):
            wage[start] = max(wage[start], value[item, start] - price[item])
        last = extend(value, position, distance, chain, start)
        for _ in range(start + 1):  # everyone on the chain hands its item on
            previous = before[last]
            position[last] = start if previous == FREE else position[previous]
            if previous == FREE:
                break
            last = previous
    for item in range(n_items):
        if position[item] != FREE:
            items[position[item]] = item


@slow_path
def extend(value: FloatArray, position: IntArray, distance: FloatArray, chain: IntArray, start: int) -> int:
    """Find the chain of exchanges from a position to a free item that costs least; that item."""
    n_items = len(position)
    price, wage, least = distance[0], distance[1], distance[2]
    before, reached = chain[0], chain[1]
    at, last = start, FREE
    for _ in range(start + 1):
        nearest = FREE
        for item in range(n_items):
            if not reached[item]:
                lack = wage[at] + price[item] - value[item, at]
                if lack < least[item]:
                    least[item] = lack
                    before[item] = last
                if nearest == FREE or least[item] < least[nearest]:
                    nearest = item
        step = least[nearest]
        wage[start] -= step
        for item in range(n_items):
            if reached[item]:
                price[item] += step
                wage[position[item]] -= step
            else:
                least[item] -= step
        reached[nearest] = 1
        last = nearest
        if position[nearest] == FREE:
            break
        at = position[nearest]
    return last


@slow_path
def best_exchange(value: FloatArray, items: IntArray, position: IntArray, gain: FloatArray) -> float:
    """What the best exchange of items along a cycle of positions would gain.

    Above 0 there is a better assignment; else it is what the second best one lacks. `gain` has a row and a column for
    each position, and one for the items outside: what is gained where an item goes from the one to the other, along the
    best path (Floyd and Warshall).
    """
    n_items, n_positions = value.shape
    outside = n_positions
    gain[outside, outside] = -math.inf
    for to in range(n_positions):
        now = value[items[to], to]
        gain[to, outside] = 0.0
        gain[outside, to] = -math.inf
        for item in range(n_items):
            if position[item] == FREE:
                gain[outside, to] = max(gain[outside, to], value[item, to] - now)
        for k in range(n_positions):
            gain[k, to] = value[items[k], to] - now if k != to else -math.inf
    for via in range(n_positions + 1):
        for k in range(n_positions + 1):
            for to in range(n_positions + 1):
                gain[k, to] = max(gain[k, to], gain[k, via] + gain[via, to])
    most = -math.inf
    for k in range(n_positions + 1):
        most = max(most, gain[k, k])
    return most
