"""What leaps need of BatchRank: the batches stay as they are until a stage can end (see `clickbandit.leaps`)."""

from clickbandit.compiling.kernel import IntArray, kernel
from clickbandit.policies.batchrank.algorithm import test
from clickbandit.policies.batchrank.state import NEVER, State
from clickbandit.policies.contract import Leaps


@kernel
def quiet(state: State, n_positions: int) -> int:
    """For how many steps the batches stay as they are; 0 while a batch has shown some items more often than others."""
    steps = NEVER
    for batch in range(n_positions):
        if state.last[batch] >= 0:
            if state.fresh[batch] < state.size[batch]:
                return 0
            length = state.last[batch] - batch + 1
            round_length = -(-state.size[batch] // length)
            steps = min(steps, state.missing[batch] // state.size[batch] * round_length)
    return steps


@kernel
def batches(state: State, batch: IntArray, size: IntArray) -> None:
    for first in range(len(batch)):
        for k in range(first, state.last[first] + 1):
            batch[k] = first
            size[k] = state.size[first]


@kernel
def member(state: State, batch: int, i: int) -> int:
    return int(state.items[state.start[batch] + i])


@kernel
def absorb(state: State, observed: IntArray, clicked: IntArray, together: IntArray) -> None:
    for batch in range(len(state.last)):
        if state.last[batch] >= 0 and state.size[batch] > 1:
            for i in range(state.start[batch], state.start[batch] + state.size[batch]):
                item = state.items[i]
                state.issued[item] += observed[item]
                state.observed[item] += observed[item]
                state.clicks[item] += clicked[item]
                state.missing[batch] -= observed[item]


LEAPS = Leaps(quiet, batches, member, absorb, test, in_rounds=True)
