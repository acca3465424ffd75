"""The list with the most expected clicks under a drawn law: exchanges, from the last list on.

The expected clicks of a list follow from a walk down its positions that knows how probably the last click above is at
each of them. A change of the list at a position leaves the walk above it as it is.
"""

from clickbandit.compiling.kernel import FloatArray, slow_path
from clickbandit.policies.click_ts.state import State

MAX_PASSES = 3
MIN_GAIN = 1e-9


@slow_path
def search(state: State, attraction: FloatArray) -> None:
    """Improve the last list by exchanges until none helps, at most three times through.

    Each position in turn changes places with each below it and then with the items outside the list, by
    decreasing attraction, that are among the 2K most attractive; whatever improves the list is kept at once.
    """
    n_positions = len(state.last)
    n_candidates = min(2 * n_positions, len(state.order))
    walk(state, attraction, 0)
    for _ in range(MAX_PASSES):
        improved = False
        for k in range(n_positions):
            for other in range(k + 1, n_positions):
                improved = exchange(state, attraction, k, other) or improved
            for i in range(n_candidates):
                improved = replace(state, attraction, k, state.order[i]) or improved
        if not improved:
            return


@slow_path
def exchange(state: State, attraction: FloatArray, k: int, other: int) -> bool:
    """Exchange two positions if that is better."""
    shown = state.last
    shown[k], shown[other] = shown[other], shown[k]
    if expected(state, attraction, k) > state.gain[k] + MIN_GAIN:
        walk(state, attraction, k)
        return True
    shown[k], shown[other] = shown[other], shown[k]
    return False


@slow_path
def replace(state: State, attraction: FloatArray, k: int, item: int) -> bool:
    """Put an item in the place of another if it is not in the list and that is better."""
    shown = state.last
    for i in range(len(shown)):
        if shown[i] == item:
            return False
    before, shown[k] = shown[k], item
    if expected(state, attraction, k) > state.gain[k] + MIN_GAIN:
        walk(state, attraction, k)
        return True
    shown[k] = before
    return False


@slow_path
def walk(state: State, attraction: FloatArray, first: int) -> None:
    """From a position on: where the last click above is, and the expected clicks from each position to the end."""
    shown, reach = state.last, state.reach
    if first == 0:
        reach[0, 0] = 1.0
    for k in range(first, len(shown)):
        for r in range(k + 1):
            reach[k + 1, r] = reach[k, r]
        state.gain[k] = take_position(state, attraction, k, reach[k + 1])
    total = 0.0
    for k in range(len(shown) - 1, -1, -1):
        clicked = reach[k + 1, k + 1]
        total += clicked
        state.gain[k] = total


@slow_path
def expected(state: State, attraction: FloatArray, first: int) -> float:
    """The expected clicks of the list from a position on."""
    for r in range(first + 1):
        state.trial[r] = state.reach[first, r]
    total = 0.0
    for k in range(first, len(state.last)):
        total += take_position(state, attraction, k, state.trial)
    return total


@slow_path
def take_position(state: State, attraction: FloatArray, k: int, reach: FloatArray) -> float:
    """Go past a position: the probability of a click there, and where the last click is then."""
    shown, look_after = state.last, state.look_after
    attracted = attraction[shown[k]]
    clicked = reach[0] * attracted * state.look[k]
    reach[0] -= clicked
    above = k * (k - 1) // 2
    last_carry = look_after.shape[1] - 1
    for r in range(k):
        part = reach[r + 1] * attracted * look_after[above + r, min(shown[r], last_carry)]
        reach[r + 1] -= part
        clicked += part
    reach[k + 1] = clicked
    return float(clicked)
