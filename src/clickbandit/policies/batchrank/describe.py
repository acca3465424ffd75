"""What BatchRank tells people and the live ranker: what was learned, and how probable its lists are."""

from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel
from clickbandit.policies.batchrank.state import State


@kernel
def propensity(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    """The items that are issued least stand at random places; the places that they leave go to random others."""
    for batch in range(len(ranking)):
        if state.last[batch] >= 0:
            length = state.last[batch] - batch + 1
            least = _least(state, batch, ranking, memo)
            for k in range(batch, batch + length):
                if least == state.size[batch] or memo[k] == state.epoch[batch]:
                    out[k] = 1 / max(least, length)
                else:
                    out[k] = (1 - least / length) / (state.size[batch] - least)


@kernel
def prefix(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    """As `display_batch` draws it: one of the least issued, or one of the others where they leave places."""
    whole = 1.0
    for batch in range(len(ranking)):
        if state.last[batch] >= 0:
            stop = state.last[batch] + 1
            fresh = _least(state, batch, ranking, memo)
            others = state.size[batch] - fresh
            for k in range(batch, stop):
                places = max(fresh, stop - k)
                if state.size[batch] > 1:
                    if memo[k] == state.epoch[batch] or others == 0:
                        whole /= places
                        fresh -= 1
                    else:
                        whole *= (places - fresh) / places / others
                        others -= 1
                out[k] = whole


@kernel
def _least(state: State, batch: int, ranking: IntArray, memo: FloatArray) -> int:
    """How many items of a batch were issued least before the list was made."""
    length = state.last[batch] - batch + 1
    counted = 0
    for k in range(batch, batch + length):
        counted += memo[k] == state.epoch[batch]
    if counted == 0:
        return int(state.size[batch])
    if counted == length and state.issued[ranking[batch]] != state.issued[state.items[state.start[batch]]]:
        return counted + int(state.fresh[batch])
    return counted


def describe(state: State) -> dict[str, Any]:
    batches: list[dict[str, Any]] = []
    for first in np.flatnonzero(state.last >= 0).tolist():
        items = state.items[state.start[first] : state.start[first] + state.size[first]]
        batch = {"first": first + 1, "last": int(state.last[first]) + 1, "items": np.sort(items).tolist()}
        if len(items) > 1:
            length = int(state.last[first]) - first + 1
            waits = int(state.observations[first]) - int(state.observed[items].min())
            batch["stage"] = int(state.stage[first])
            batch["at_least"] = max(waits, -(-int(state.missing[first]) // length))
        batches.append(batch)
    return describe_all(state, batches)


def describe_all(state: Any, batches: list[dict[str, Any]]) -> dict[str, Any]:
    """What is known of each item, and when something can change, of both variants."""
    observed = (state.earlier_observed + state.observed).tolist()
    clicks = (state.earlier_clicks + state.clicks).tolist()
    in_batch = {item for batch in batches for item in batch["items"]}
    waits = [batch["at_least"] for batch in batches if "at_least" in batch]
    return {
        "items": [
            {
                "item": item,
                "observed": n,
                "clicks": clicks[item],
                **({"estimate": clicks[item] / n} if n else {}),
                "low": float(state.lower[item]),
                "high": float(state.upper[item]),
                "eliminated": item not in in_batch,
            }
            for item, n in enumerate(observed)
        ],
        "groups": batches,
        "settled": not waits,
    } | ({"next_decision": min(waits)} if waits else {})
