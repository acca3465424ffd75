"""What BatchRank, as printed, tells the live ranker: propensities, what was learned, items that come and go.

**New items** enter the batch that reaches the last position, which starts again at stage 0 with zero counts, so that
all its items are compared on equal observation. That alone could never bring an item above that batch. So new items
are newcomers until a split puts them below an item that is none, which tells that they are worse than the batches
above; and a batch of newcomers alone is merged with the batch above it (`batchrank.climb`).

**An item that leaves** its batch leaves a position to the ones below: they move up, and start their stages again. The
last one takes back all items that were eliminated, for each of those was only known to be worse than K others, and
starts at stage 0. Batches above keep their counts, and the feedback to come. An eliminated item leaves nothing behind.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel, slow_path
from clickbandit.policies.items import without_number

if TYPE_CHECKING:
    from clickbandit.policies.batchrank import State

FAINT = 32
"""What an item's observations count for, at most, once it is compared with items that were observed elsewhere."""


@kernel
def propensity(state: "State", ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    """The items that are issued least stand at random places; the places that they leave go to random others."""
    for batch in range(len(ranking)):
        if state.last[batch] >= 0:
            length = state.last[batch] - batch + 1
            counted = 0
            for k in range(batch, batch + length):
                counted += memo[k] == state.epoch[batch]
            least = counted  # how many items were issued least before the list was made
            if counted == 0:
                least = state.size[batch]
            elif (
                counted == length
                and state.issued[ranking[batch]] != state.issued[state.items[state.start[batch]]]
            ):
                least = counted + state.fresh[batch]
            for k in range(batch, batch + length):
                if counted == 0 or memo[k] == state.epoch[batch]:
                    out[k] = 1 / max(least, length)
                else:
                    out[k] = (1 - least / length) / (state.size[batch] - least)


def describe(state: "State") -> dict[str, Any]:
    groups: list[dict[str, Any]] = []
    for batch in np.flatnonzero(state.last >= 0).tolist():
        items = state.items[state.start[batch] : state.start[batch] + state.size[batch]]
        group = {"first": batch + 1, "last": int(state.last[batch]) + 1, "items": np.sort(items).tolist()}
        if len(items) > 1:
            length = int(state.last[batch]) - batch + 1
            waits = int(state.observations[batch]) - int(state.observed[items].min())
            group["stage"] = int(state.stage[batch])
            group["at_least"] = max(waits, -(-int(state.missing[batch]) // length))
        groups.append(group)
    return describe_all(state, groups)


def describe_all(state: Any, groups: list[dict[str, Any]]) -> dict[str, Any]:
    """What is known of each item, and when something can change, of both variants."""
    observed = (state.earlier_observed + state.observed).tolist()
    clicks = (state.earlier_clicks + state.clicks).tolist()
    in_group = {item for group in groups for item in group["items"]}
    waits = [group["at_least"] for group in groups if "at_least" in group]
    return {
        "items": [
            {
                "item": item,
                "observed": n,
                "clicks": clicks[item],
                **({"estimate": clicks[item] / n} if n else {}),
                "low": float(state.lower[item]),
                "high": float(state.upper[item]),
                "eliminated": item not in in_group,
            }
            for item, n in enumerate(observed)
        ],
        "groups": groups,
        "settled": not waits,
    } | ({"next_decision": min(waits)} if waits else {})


@slow_path
def fade(state: Any, start: int, size: int) -> None:
    """Let these items, which were not always together, remember little of what was observed of them before.

    Only `best` looks at that: it keeps an order until there is a better one, and does not stand in its way.
    """
    for i in range(start, start + size):
        item = state.items[i]
        n = state.earlier_observed[item]
        if n > FAINT:
            state.earlier_clicks[item] = round(state.earlier_clicks[item] * (FAINT / n))
            state.earlier_observed[item] = FAINT


_COUNTS = ("issued", "observed", "clicks", "earlier_observed", "earlier_clicks")


def admit(state: "State", n_new: int) -> "State":
    from clickbandit.policies.batchrank import make_batch

    last = len(state.last) - 1
    (batch,) = np.flatnonzero(state.last == last).tolist()
    start, size = int(state.start[batch]), int(state.size[batch])
    state = with_new_items(state, n_new, _COUNTS, at=start + size)
    interpreted(make_batch)(state, batch, last, start, size + n_new)
    interpreted(fade)(state, start, size)
    return state


def retire(state: "State", item: int) -> "State":
    from clickbandit.policies.batchrank import climb, make_batch, open_stage

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
