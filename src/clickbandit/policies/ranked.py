"""What ranked bandits share: a learner for each position, and what is shown when two of them draw the same item.

They state no propensities: where an item stands depends on all draws of the learners above, of which there are too
many to add up.
"""

from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.policies.common import draw_index
from clickbandit.policies.items import renumber_drawn
from clickbandit.policies.possible import like, within


def memo_size(n_items: int, n_positions: int) -> int:
    """For each position the item that its learner drew."""
    return n_positions


def renumber(memo: FloatArray, numbers: IntArray, n_items: int) -> FloatArray:
    return renumber_drawn(memo, numbers, len(memo))


@kernel
def show(drawn: int, in_list: IntArray, step: int, rng: np.random.Generator, n_absent: int) -> int:
    """The item to show where a learner drew this one: itself, or a random one if it is in the list already.

    `in_list` has for each item the last step at which it was put in the list. Draws: which of the absent items, in
    the order of their numbers, if one is needed.
    """
    item = drawn
    if in_list[item] == step:
        item = absent(in_list, step, draw_index(rng, n_absent))
    in_list[item] = step
    return item


@kernel
def absent(in_list: IntArray, step: int, n: int) -> int:
    """The n-th item that is not in the list yet."""
    item, found = 0, 0
    for i in range(len(in_list)):  # to the end: a way out in between would be mispredicted, which costs more
        found += in_list[i] != step
        item += found <= n
    return item


@kernel
def earned(k: int, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> int:
    """What position k's learner earned: 1 if the item that it drew was shown there and clicked, else 0."""
    return int(clicks[k]) if ranking[k] == int(memo[k]) else 0


def favourites(value: Any, ranking: IntArray) -> None:
    """Position by position the item with the learner's highest value that is not in the list yet."""
    value = np.array(value, np.float64)
    for k in range(len(ranking)):
        value[k, ranking[:k]] = -np.inf
        ranking[k] = value[k].argmax()


def shares(observed: Any, clicked: Any) -> Any:
    """Shares of clicks, 0 where nothing was observed."""
    return clicked / np.maximum(observed, 1)


def describe_learners(observed: Any, clicked: Any) -> dict[str, Any]:
    """How often each item was drawn, and clicked where its learner had drawn it, over all positions.

    There is no estimate: what a learner expects of an item depends on what the learners above it show.
    """
    pairs = zip(observed.sum(axis=0).tolist(), clicked.sum(axis=0).tolist(), strict=True)
    return {"items": [{"item": item, "observed": n, "clicks": c} for item, (n, c) in enumerate(pairs)]}


def possible(state: Any, fresh: Any) -> bool:
    """No item was put in a list that is still to come, or there would be too few for it."""
    return like(state, fresh) and within(state.step, 0) and within(state.in_list, 0, int(state.step[0]) + 1)
