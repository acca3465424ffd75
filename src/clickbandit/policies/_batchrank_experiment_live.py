"""What BatchRank, as the paper's figures were run, tells the live ranker.

Items come and go as in `_batchrank_live`: new ones enter the group that reaches the last position, which starts anew,
and climb from group to group; where one leaves, the groups below move up and start anew, and the last takes back what
was dropped. Groups above keep their counts, and the feedback to come.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel
from clickbandit.policies._batchrank_live import describe_all, fade, with_new_items, without_item

if TYPE_CHECKING:
    from clickbandit.policies._batchrank_experiment import State


@kernel
def propensity(state: "State", ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    """Each item of a group is as probable as the others at each of its positions."""
    for k in range(len(ranking)):
        out[k] = 1 / (state.end[state.group[k]] - state.group[k])


def describe(state: "State") -> dict[str, Any]:
    groups: list[dict[str, Any]] = []
    for start in np.unique(state.group[: state.n_positions]).tolist():
        end = int(state.end[start])
        items = state.items[start:end]
        group = {"first": start + 1, "last": min(end, state.n_positions), "items": np.sort(items).tolist()}
        if len(items) > 1:
            group["stage"] = int(state.halvings[start])
            group["at_least"] = int(state.needed[start] - state.observed[items].min())
        groups.append(group)
    return describe_all(state, groups)


_COUNTS = ("observed", "clicks", "earlier_observed", "earlier_clicks")
_BY_PLACE = ("group", "end", "halvings", "needed", "lacking", "version")


def admit(state: "State", n_new: int) -> "State":
    from clickbandit.policies._batchrank_experiment import make_group

    group = int(state.group[state.n_positions - 1])
    end = int(state.end[group])
    n_items = len(state.items)
    room: dict[str, Any] = {
        name: np.insert(getattr(state, name), end, np.zeros(n_new, np.int64)) for name in _BY_PLACE
    }
    state = with_new_items(state, n_new, _COUNTS, at=end)
    state = state._replace(**room, budget=state.budget + math.log((n_items + n_new) / n_items))
    interpreted(make_group)(state, group, end + n_new)
    interpreted(fade)(state, group, end - group)
    return state


def retire(state: "State", item: int) -> "State":
    from clickbandit.policies._batchrank_experiment import climb, make_group

    n_items = len(state.items)
    place = int(np.flatnonzero(state.items == item)[0])
    starts = np.unique(state.group[: state.n_positions]).tolist()
    below = [start for start in starts if state.end[start] > place]
    ends = [int(state.end[start]) - 1 for start in below]
    state = without_item(state, item, _COUNTS)
    room: dict[str, Any] = {name: getattr(state, name)[:-1].copy() for name in _BY_PLACE}
    state = state._replace(**room, budget=state.budget + math.log((n_items - 1) / n_items))
    if not below:
        return state
    ends[-1] = n_items - 1  # the last group takes back what was dropped
    starts = [below[0], *ends[:-1]]
    for start, end in zip(starts, ends, strict=True):
        if end > start:
            interpreted(make_group)(state, start, end)
    interpreted(fade)(state, starts[-1], ends[-1] - starts[-1])
    for start in starts:
        if state.group[start] == start:
            interpreted(climb)(state, start, int(state.end[start]))
    return state
