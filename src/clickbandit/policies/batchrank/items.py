"""BatchRank where items come and go.

**New items** enter the batch that reaches the last position, which starts again at stage 0 with zero counts, so that
all its items are compared on equal observation. That alone could never bring an item above that batch. So new items
are newcomers until a split puts them below an established item, which shows that they are worse than the batches
above; and a batch of newcomers alone is merged with the batch above it (`climb`).

**An item that leaves** its batch leaves a position to the ones below: they move up, and start their stages again. The
last one takes back all items that were eliminated, for each of those was only known to be worse than K others, and
starts at stage 0. Batches above keep their counts, and the feedback to come. An eliminated item leaves nothing behind.
"""

from typing import Any

import numpy as np

from clickbandit.compiling.kernel import IntArray, interpreted, slow_path
from clickbandit.policies.batchrank.state import State, make_batch, open_stage
from clickbandit.policies.items import without_number

MAX_MEMORY = 32
"""What an item's observations count for, at most, once it is compared with items that were observed elsewhere."""


@slow_path
def place_newcomers(state: State, items: IntArray, split: int) -> None:
    """At a split, newcomers below an established item are known to be worse than the batches above."""
    for i in range(split):
        if state.newcomer[items[i]] == 0:
            for j in range(split, len(items)):
                state.newcomer[items[j]] = 0
            return


@slow_path
def climb(state: State, batch: int) -> None:
    """Merge a batch of newcomers alone with the batch above it: they may be better than that, too."""
    start, end = state.start[batch], state.start[batch] + state.size[batch]
    for i in range(start, end):
        if state.newcomer[state.items[i]] == 0:
            return
    last, state.last[batch] = state.last[batch], -1
    above = batch - 1
    while state.last[above] < 0:
        above -= 1
    make_batch(state, above, last, state.start[above], end - state.start[above])
    fade(state, state.start[above], state.size[above])


@slow_path
def fade(state: Any, start: int, size: int) -> None:
    """Let these items, which were not always together, remember little of what was observed of them before.

    Only `best` looks at that: it keeps an order until there is a better one, and does not stand in its way.
    """
    for i in range(start, start + size):
        item = state.items[i]
        n = state.earlier_observed[item]
        if n > MAX_MEMORY:
            state.earlier_clicks[item] = round(state.earlier_clicks[item] * (MAX_MEMORY / n))
            state.earlier_observed[item] = MAX_MEMORY


_COUNTS = ("issued", "observed", "clicks", "earlier_observed", "earlier_clicks")


def admit(state: State, n_new: int) -> State:
    last = len(state.last) - 1
    (batch,) = np.flatnonzero(state.last == last).tolist()
    start, size = int(state.start[batch]), int(state.size[batch])
    state = with_new_items(state, n_new, _COUNTS, at=start + size)
    interpreted(make_batch)(state, batch, last, start, size + n_new)
    interpreted(fade)(state, start, size)
    return state


def retire(state: State, item: int) -> State:
    place = int(np.flatnonzero(state.items == item)[0])
    batches = np.flatnonzero(state.last >= 0)
    below = [batch for batch in batches.tolist() if state.start[batch] + state.size[batch] > place]
    state = without_item(state, item, _COUNTS)
    if not below:
        return state
    sizes, stages = state.size[below].tolist(), state.stage[below].tolist()
    position, start = below[0], int(state.start[below[0]])
    sizes[0] -= 1
    state.last[below] = -1
    for size, stage in zip(sizes[:-1], stages[:-1], strict=True):
        if size > 0:
            interpreted(make_batch)(state, position, position + size - 1, start, size)
            interpreted(open_stage)(state, position, stage)
            position, start = position + size, start + size
    interpreted(make_batch)(state, position, len(state.last) - 1, start, len(state.items) - start)
    interpreted(fade)(state, start, len(state.items) - start)
    for batch in range(below[0], len(state.last)):
        if state.last[batch] >= 0:
            interpreted(climb)(state, batch)
    return state


def with_new_items(state: Any, n_new: int, counts: tuple[str, ...], at: int) -> Any:
    """A state of either variant with room for new items, which are newcomers at this place."""
    n_items = len(state.items)
    grown = {name: np.append(getattr(state, name), np.zeros(n_new, np.int64)) for name in counts}
    return state._replace(
        **grown,
        items=np.insert(state.items, at, np.arange(n_items, n_items + n_new)),
        upper=np.append(state.upper, np.ones(n_new)),
        lower=np.append(state.lower, np.zeros(n_new)),
        newcomer=np.append(state.newcomer, np.ones(n_new, np.int64)),
    )


def without_item(state: Any, item: int, counts: tuple[str, ...]) -> Any:
    """A state of either variant without an item; those with higher numbers have one less."""
    names = (*counts, "upper", "lower", "newcomer")
    kept = {name: np.delete(getattr(state, name), item) for name in names}
    return state._replace(**kept, items=without_number(state.items, item))
