"""ClickTS's guard: rare, fair tests of neighbours, and orders that these contradict are not shown.

A test takes two neighbours of the list, or its last item and one outside, and a coin decides which of them stands
further up. Where exactly one of the two is clicked, that one wins. In every click model of the BatchRank paper the more
attractive item wins more often than not, and of two that are as attractive each wins as often: whatever ClickTS
believes, and whatever else is in the list. docs/click-ts.md has the proof, and what follows from it.

An order is contradicted while the item below has won so much more often than the one above that
(won - lost)^2 > 2 b (won + lost), with the budget b = log t + 3 log log t of the last fit; so with time it takes
more, and a verdict that was bad luck is taken back and tested again. While the tests do not favour the order that is
shown, one in sixteen lists tests a pair of it; others are tested the less often the longer it goes on.

The memo has the position of the test, from 1, or 0 for none, and the item of the pair that does not stand there.
"""

import math

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, kernel, slow_path
from clickbandit.policies.click_ts.state import State
from clickbandit.policies.common import draw_index

DOUBTED = 1 / 16
"""How many lists test a pair, if the tests so far do not favour the order that is shown."""
FAVOURED = 0.125
"""And otherwise, over the root of the number of lists; at most as many as those."""

# --- what was found -----------------------------------------------------------------------------------------


@slow_path
def set_budget(state: State) -> None:
    """b = log t + 3 log log t for the list that comes next."""
    step = state.learned[0] + 1
    state.budget[0] = math.log(step) + 3 * math.log(max(1.0, math.log(step)))


@kernel
def contradicted(state: State, above: int, below: int) -> bool:
    """Whether tests say that these two should be the other way round."""
    won, lost = state.wins[below, above], state.wins[above, below]
    return bool(won > lost and (won - lost) * (won - lost) > 2 * state.budget[0] * (won + lost))


@kernel
def learn_test(state: State, ranking: IntArray, clicks: IntArray, memo: FloatArray) -> None:
    """Count who won, if the list was a test and exactly one of the two was clicked."""
    if memo[0] > 0:
        k, other = int(memo[0]) - 1, int(memo[1])
        other_clicked = clicks[k + 1] if k + 1 < len(ranking) else 0
        if clicks[k] > other_clicked:
            state.wins[ranking[k], other] += 1
        elif clicks[k] < other_clicked:
            state.wins[other, ranking[k]] += 1


# --- what is shown ------------------------------------------------------------------------------------------


@kernel
def obey(state: State, value: FloatArray, ranking: IntArray) -> None:
    """Exchange neighbours, and the last item with one outside, until no order is contradicted.

    Tests that contradict each other in a circle, which takes bad luck, leave it at as many rounds as there are items.
    """
    for _ in range(len(state.order)):
        changed = let_in(state, value, ranking)
        for k in range(len(ranking) - 2, -1, -1):
            if contradicted(state, ranking[k], ranking[k + 1]):
                ranking[k], ranking[k + 1] = ranking[k + 1], ranking[k]
                changed = True
        if not changed:
            break


@kernel
def let_in(state: State, value: FloatArray, ranking: IntArray) -> bool:
    """Replace the last item by the highest of those outside that should stand above it; whether there is one."""
    n_positions, order = len(ranking), state.order
    last = ranking[n_positions - 1]
    found = -1
    for i in range(n_positions, len(order)):
        if contradicted(state, last, order[i]) and (found < 0 or value[order[i]] > value[order[found]]):
            found = i
    if found < 0:
        return False
    for i in range(n_positions):
        if order[i] == last:
            order[i] = order[found]
    ranking[n_positions - 1] = order[found]
    order[found] = last
    return True


@kernel
def maybe_test(state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray) -> None:
    """Make a test of the list now and then, and say so in the memo. Draws: whether; then those of `begin_test`."""
    chance = rng.random()
    if chance < DOUBTED:
        begin_test(state, rng, ranking, memo, chance)


@slow_path
def begin_test(
    state: State, rng: np.random.Generator, ranking: IntArray, memo: FloatArray, chance: float
) -> None:
    """Choose a pair, and if it is to be tested let a coin decide which of the two stands above.

    Draws, the first of them only where there is a choice: the upper position; if that is the last, which item outside
    is tested, and whether it is the highest instead; the coin.
    """
    n_positions, n_items = len(ranking), len(state.order)
    n_pairs = n_positions - 1 if n_items == n_positions else n_positions
    if n_pairs == 0:
        return
    k = draw_index(rng, n_pairs)
    above = ranking[k]
    below = ranking[k + 1] if k + 1 < n_positions else draw_outside(state, rng, ranking)
    favoured = state.wins[above, below] > state.wins[below, above]
    if favoured and chance >= FAVOURED / math.sqrt(state.learned[0] + 1):
        return
    if contradicted(state, below, above):
        return
    memo[0], memo[1] = k + 1, below
    if rng.random() < 0.5:
        ranking[k], memo[1] = below, above
        if k + 1 < n_positions:
            ranking[k + 1] = above


@slow_path
def draw_outside(state: State, rng: np.random.Generator, ranking: IntArray) -> int:
    """An item that is not in the list: by chance any of them, or the one with the highest drawn attraction."""
    for item in range(len(state.listed)):
        state.listed[item] = 0
    for k in range(len(ranking)):
        state.listed[ranking[k]] = 1
    left = draw_index(rng, len(state.listed) - len(ranking))
    highest, found = -1, -1
    for item in range(len(state.listed)):
        if state.listed[item]:
            continue
        if left == 0:
            found = item
        left -= 1
        if highest < 0 or state.sample[item] > state.sample[highest]:
            highest = item
    return highest if rng.random() < 0.5 else found


# --- items that come and go ---------------------------------------------------------------------------------


def renumber(memo: FloatArray, numbers: IntArray, n_items: int) -> FloatArray:
    """Drop tests against removed items."""
    if memo[0] > 0:
        memo[1] = numbers[int(memo[1])]
        if memo[1] < 0:
            memo[:] = 0
    return memo
