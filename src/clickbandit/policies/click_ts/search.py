"""The list with the most expected clicks under a drawn law: exchanges, from the last list on.

The expected clicks of a list follow from a walk down its positions that knows how probably the last click above is at
each of them. A change of the list at a position leaves the walk above it as it is.
"""

from clickbandit.compiling.kernel import FloatArray, kernel, slow_path
from clickbandit.policies.click_ts.state import State

MAX_PASSES = 3
MAX_OUTSIDE = 10
"""How many items beyond the K most attractive may come into a list, at most."""
MIN_GAIN = 1e-9
"""By how many clicks an exchange must be better."""


@slow_path
def search(state: State, attraction: FloatArray, thorough: bool) -> bool:
    """Improve the last list by exchanges until none helps, at most three times through; whether it is done.

    Each position in turn changes places with each below it, or if not thorough with the next, and then with the items
    outside the list, by decreasing attraction, that are among the 2K most attractive (for more than ten positions
    among K + 10); whatever improves the list is kept at once.
    """
    n_positions = len(state.last)
    furthest = n_positions if thorough else 1
    for item in range(len(state.listed)):
        state.listed[item] = 0
    for k in range(n_positions):
        state.listed[state.last[k]] = 1
    walk(state, attraction, 0)
    unimproved = 0  # positions in a row for which nothing was better
    for n in range(MAX_PASSES * n_positions):
        k = n % n_positions
        improved = False
        for other in range(k + 1, min(k + 1 + furthest, n_positions)):
            improved = exchange(state, attraction, k, other) or improved
        for i in range(n_candidates(state)):
            improved = replace(state, attraction, k, state.order[i]) or improved
        unimproved = 0 if improved else unimproved + 1
        if unimproved == n_positions:
            return True
    return False


@kernel
def n_candidates(state: State) -> int:
    """How many of the most attractive items may come into the list."""
    n_positions = len(state.last)
    if len(state.order) == n_positions:
        return 0
    return min(2 * n_positions, n_positions + MAX_OUTSIDE, len(state.order))


@kernel
def exchange(state: State, attraction: FloatArray, k: int, other: int) -> bool:
    """Exchange two positions if that is better."""
    shown = state.last
    shown[k], shown[other] = shown[other], shown[k]
    if expected(state, attraction, k) > state.gain[k] + MIN_GAIN:
        walk(state, attraction, k)
        return True
    shown[k], shown[other] = shown[other], shown[k]
    return False


@kernel
def replace(state: State, attraction: FloatArray, k: int, item: int) -> bool:
    """Put an item in the place of another if it is not in the list and that is better."""
    if state.listed[item]:
        return False
    shown = state.last
    before, shown[k] = shown[k], item
    if expected(state, attraction, k) > state.gain[k] + MIN_GAIN:
        state.listed[before], state.listed[item] = 0, 1
        walk(state, attraction, k)
        return True
    shown[k] = before
    return False


@kernel
def walk(state: State, attraction: FloatArray, first: int) -> None:
    """From a position on: where the last click above is, and the expected clicks from each position to the end."""
    shown, reach = state.last, state.reach
    if first == 0:
        reach[0, 0] = 1.0
    for k in range(first, len(shown)):
        for r in range(k + 1):
            reach[k + 1, r] = reach[k, r]
        take_position(state, attraction, k, reach[k + 1])
    total = 0.0
    for k in range(len(shown) - 1, -1, -1):
        total += reach[k + 1, k + 1]
        state.gain[k] = total


@kernel
def expected(state: State, attraction: FloatArray, first: int) -> float:
    """The expected clicks of the list from a position on."""
    for r in range(first + 1):
        state.trial[r] = state.reach[first, r]
    total = 0.0
    for k in range(first, len(state.last)):
        total += take_position(state, attraction, k, state.trial)
    return total


@kernel
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
