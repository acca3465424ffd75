"""Whether users have changed: the clicks since the last fit against those that it foresaw.

An item whose exposure has grown by m since then, with the slope w, is foreseen to have a m more clicks, with variance

    a m + (a m)^2 / (1 + clicks) + a^2 |F^-1 w|^2:

as Poisson, as its attraction is known from its clicks, and as the law is known by its precision F F^T. What an item
had beyond that adds up from fit to fit, as does the variance, and fades: at each fit 0.9 of it is kept. The sum S with
the variance V is a contradiction if S^2 > 4 b (V + |S| / 3), with the guard's budget b: Bernstein's inequality has 2 b,
and the rest is room for users whom the law does not quite fit. Then all counts shrink to a hundred lists, and it
relearns. Only what is shown can contradict: an item outside the list that became better is not noticed.
"""

from clickbandit.compiling.kernel import slow_path
from clickbandit.policies.click_ts.fit import find_slope, solve_lower, unfold
from clickbandit.policies.click_ts.state import State

KEPT = 0.9
MARGIN = 2.0
"""How many times the guard's budget it takes."""


@slow_path
def contradicts(state: State) -> bool:
    """Whether the clicks of some item contradict what was foreseen; adds up what they were beyond that."""
    unfold(state.x, state.examination, state.carry)
    found = False
    for item in range(len(state.surprise)):
        exposure = slope_of(state, item)
        more = exposure - state.exposure_then[item]
        if more > 0:
            known = state.shape[item] + state.clicks_then[item]
            attraction = known / (state.rate[item] + state.exposure_then[item])
            expected = attraction * more
            law = attraction * attraction * variance_of_law(state, item)
            variance = expected + expected * expected / known + law
            surprise = state.clicks[item] - state.clicks_then[item] - expected
            state.surprise[item] = KEPT * state.surprise[item] + surprise
            state.surprise_variance[item] = KEPT * KEPT * state.surprise_variance[item] + variance
            off = abs(state.surprise[item])
            if off * off > 2 * MARGIN * state.budget[0] * (state.surprise_variance[item] + off / 3):
                found = True
    if found:
        for item in range(len(state.surprise)):
            state.surprise[item], state.surprise_variance[item] = 0.0, 0.0
    return found


@slow_path
def slope_of(state: State, item: int) -> float:
    """Find the slope of an item's exposure; the exposure."""
    return find_slope(state.shown[item], state.carried[item], state.examination, state.carry, state.slope)


@slow_path
def variance_of_law(state: State, item: int) -> float:
    """|F^-1 w|^2 for the slope w of what an item's exposure has grown by."""
    grown = state.step
    for p in range(len(grown)):
        grown[p] = state.slope[p] - state.slope_then[item, p]
    solve_lower(state.factor, grown)
    total = 0.0
    for p in range(len(grown)):
        total += grown[p] * grown[p]
    return total


@slow_path
def foresee(state: State) -> None:
    """Keep what the clicks up to the next fit will be compared with."""
    unfold(state.x, state.examination, state.carry)
    for item in range(len(state.surprise)):
        state.clicks_then[item] = state.clicks[item]
        state.exposure_then[item] = slope_of(state, item)
        for p in range(len(state.slope)):
            state.slope_then[item, p] = state.slope[p]
