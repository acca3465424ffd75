"""What BatchRank, as the paper's figures were run, tells the live ranker.

Items come and go as in `items`: new ones enter the batch that reaches the last position, which starts over,
and climb from batch to batch; where one leaves, the batches below move up and start over, and the last takes back what
was dropped. Batches above keep their counts, and the feedback to come.
"""

import math
from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, interpreted, kernel
from clickbandit.policies.batchrank.describe import describe_all
from clickbandit.policies.batchrank.experiment import State, climb, make_batch, test
from clickbandit.policies.batchrank.items import fade, with_new_items, without_item
from clickbandit.policies.batchrank.state import NEVER
from clickbandit.policies.contract import Leaps, Live
from clickbandit.policies.possible import like


@kernel
def propensity(state: State, ranking: IntArray, memo: FloatArray, out: FloatArray) -> None:
    """Each item of a batch is as probable as the others at each of its positions."""
    for k in range(len(ranking)):
        out[k] = 1 / (state.end[state.batch[k]] - state.batch[k])


def describe(state: State) -> dict[str, Any]:
    batches: list[dict[str, Any]] = []
    for start in np.unique(state.batch[: state.n_positions]).tolist():
        end = int(state.end[start])
        items = state.items[start:end]
        batch = {"first": start + 1, "last": min(end, state.n_positions), "items": np.sort(items).tolist()}
        if len(items) > 1:
            batch["stage"] = int(state.halvings[start])
            batch["at_least"] = int(state.needed[start] - state.observed[items].min())
        batches.append(batch)
    return describe_all(state, batches)


_COUNTS = ("observed", "clicks", "earlier_observed", "earlier_clicks")
_BY_PLACE = ("batch", "end", "halvings", "needed", "lacking", "version")


def admit(state: State, n_new: int) -> State:
    batch = int(state.batch[state.n_positions - 1])
    end = int(state.end[batch])
    n_items = len(state.items)
    room: dict[str, Any] = {
        name: np.insert(getattr(state, name), end, np.zeros(n_new, np.int64)) for name in _BY_PLACE
    }
    state = with_new_items(state, n_new, _COUNTS, at=end)
    state = state._replace(**room, budget=state.budget + math.log((n_items + n_new) / n_items))
    interpreted(make_batch)(state, batch, end + n_new)
    interpreted(fade)(state, batch, end - batch)
    return state


def retire(state: State, item: int) -> State:
    n_items = len(state.items)
    place = int(np.flatnonzero(state.items == item)[0])
    starts = np.unique(state.batch[: state.n_positions]).tolist()
    below = [start for start in starts if state.end[start] > place]
    ends = [int(state.end[start]) - 1 for start in below]
    state = without_item(state, item, _COUNTS)
    room: dict[str, Any] = {name: getattr(state, name)[:-1].copy() for name in _BY_PLACE}
    state = state._replace(**room, budget=state.budget + math.log((n_items - 1) / n_items))
    if not below:
        return state
    ends[-1] = n_items - 1  # the last batch takes back what was dropped
    starts = [below[0], *ends[:-1]]
    for start, end in zip(starts, ends, strict=True):
        if end > start:
            interpreted(make_batch)(state, start, end)
    interpreted(fade)(state, starts[-1], ends[-1] - starts[-1])
    for start in starts:
        if state.batch[start] == start:
            interpreted(climb)(state, start, int(state.end[start]))
    return state


def possible(state: State, fresh: State) -> bool:
    """Batches follow each other, down to the last position at least."""
    start = 0
    while start < state.n_positions and like(state, fresh):
        end = int(state.end[start])
        if not (start < end <= len(state.items) and (state.batch[start:end] == start).all()):
            return False
        if start == 0 and state.newcomer[state.items[:end]].any():
            return False  # or they would climb to a batch above the first
        start = end
    return start >= state.n_positions


# --- leaps over steps that cannot change the batches --------------------------------------------------------


@kernel
def quiet(state: State, n_positions: int) -> int:
    """For how many steps no batch can be tested: an item is observed at most once a step."""
    steps = NEVER
    for batch in range(n_positions):
        if state.batch[batch] == batch and state.end[batch] > batch + 1:
            least = NEVER
            for i in range(batch, state.end[batch]):
                least = min(least, state.observed[state.items[i]])
            steps = min(steps, state.needed[batch] - least)
    return steps


@kernel
def batches(state: State, batch: IntArray, size: IntArray) -> None:
    """For each position the first one of its batch, and how many items that has."""
    for k in range(len(batch)):
        batch[k] = state.batch[k]
        size[k] = state.end[batch[k]] - batch[k]


@kernel
def member(state: State, batch: int, i: int) -> int:
    """The i-th item of a batch."""
    return int(state.items[batch + i])


@kernel
def absorb(state: State, observed: IntArray, clicked: IntArray, together: IntArray) -> None:
    """Learn how often each item was observed and clicked in quiet steps."""
    for place in range(len(state.items)):
        item, batch = state.items[place], state.batch[place]
        if observed[item] > 0:
            before = state.observed[item]
            state.observed[item] += observed[item]
            state.clicks[item] += clicked[item]
            if before < state.needed[batch] <= state.observed[item]:
                state.lacking[batch] -= 1


LEAPS = Leaps(quiet, batches, member, absorb, test)
LIVE = Live(propensity=propensity, describe=describe, admit=admit, retire=retire, possible=possible)
