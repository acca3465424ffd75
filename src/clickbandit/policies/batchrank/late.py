"""BatchRank where feedback is late or never comes: what was issued and will not be observed is issued again."""

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.policies.batchrank.state import State


@kernel
def void(state: State, ranking: IntArray, memo: FloatArray) -> None:
    """The list was never seen: what it would have counted is to be shown again."""
    for batch in range(len(ranking)):
        for k in range(batch, state.last[batch] + 1):
            if memo[k] == state.epoch[batch]:
                state.issued[ranking[k]] -= 1
                state.uneven[batch] = 1
                find_fresh(state, batch)


@slow_path
def find_fresh(state: State, batch: int) -> None:
    """Put the items that are issued least in front."""
    items = state.items
    start = state.start[batch]
    stop = start + state.size[batch]
    least = state.issued[items[start]]
    for i in range(start + 1, stop):
        least = min(least, state.issued[items[i]])
    fresh = start
    for i in range(start, stop):
        if state.issued[items[i]] == least:
            items[i], items[fresh] = items[fresh], items[i]
            fresh += 1
    state.fresh[batch] = fresh - start
