"""Many steps at once for policies that show the items with the highest indices: a template, as `leap` is.

While the list stays the same, users are independent draws from one law. So it is chosen how many steps to take, and
then drawn how often each click vector occurred in all of them together. If in no order of these outcomes the indices
of two neighbours could meet, the list stayed the same, and the totals are learned at once. Else the same outcomes are
an urn: they are played one by one in random order until another list is shown, and the rest is thrown away.
Nothing is approximated (docs/decisions/0014-leaps-by-margin.md).
"""

import math
from typing import Any

import numpy as np

from clickbandit.click_models.cm import click, click_probability, log_likelihood  # model
from clickbandit.click_models.patterns import bits
from clickbandit.compiling.generator import give_back, take
from clickbandit.compiling.kernel import FloatArray, IntArray, counted_entry_point, kernel, slow_path
from clickbandit.leaps.binomial import draw_counts
from clickbandit.leaps.buffers import MAX_BITS, Margin
from clickbandit.policies.cascade_kl_ucb import absorb, budget, rank, span, update  # policy
from clickbandit.policies.cascading import looked_at  # policy
from clickbandit.simulation.memory import Scene, Slots

STRIDE = 32
"""Steps taken one by one before checking whether the list is still the same: most lists do not last longer."""
MAX_STRIDE = 256
"""The stride doubles as long as the list is the same and yet no leap is worth it."""
MAX_MISSES = 8
"""It doubles, too, where the list was another one more often than this since the last leap: it lives for few steps."""
MIN_LENGTH = 32
"""A leap takes as long as this many steps."""
MAX_CHEAP_OUTCOMES = 64
"""The law of more click vectors than this is found only where a leap will pay for it."""
TRIAL = 64
"""Over how many steps it is looked how fast indices could move."""
BOLDNESS = 0.6
"""How much of the way to its neighbour an index may be expected to go in a leap at the very most."""
GAP = 1e-11
"""Indices that are nearer than this may be taken for the same."""


@counted_entry_point
def leap(
    state: Any,
    params: Any,
    rng: np.random.Generator,
    users: np.random.Generator,
    slots: Slots,
    best_reward: float,
    step: int,
    ends: IntArray,
    regret: FloatArray,
    clicked: IntArray,
    always: bool,
    scratch: Margin,
) -> None:
    """As `windows.interact`, by leaps where they are quicker; or `always`, however short."""
    scene = Scene(state, params, rng, users, slots, best_reward)
    for window in range(len(ends)):
        steps = ends[window] - step
        regret[window], clicked[window] = go_on(scene, steps, always, scratch)
        step += steps


@slow_path
def go_on(scene: Scene, steps: int, always: bool, scratch: Margin) -> tuple[float, int]:
    """The expected regret and the clicks of `steps` steps."""
    state, params, _, users, slots, best_reward = scene
    first, last = (2, 2) if always else (STRIDE, MAX_STRIDE)
    regret, clicked, taken, stride, misses = 0.0, 0, 0, first, 0
    same = False
    scratch.shown[0] = -1
    for _ in range(steps):
        if taken == steps:
            break
        length = choose_length(state, params, slots, always, scratch) if same else 0
        length = min(length, steps - taken)
        if length > 0:
            draw_outcomes(users, length, scratch)
        if length > 0 and stays(state, length, scratch):
            absorb(state, scratch.shown, scratch.observed, scratch.clicked, length)
            regret += length * (best_reward - expected_clicks(slots))
            clicked += scratch.totals[0]
            taken += length
            misses = 0
            continue
        waits = misses > MAX_MISSES or (same and length == 0)
        stride = min(2 * stride, last) if waits else first
        most = length if length > 0 else min(stride, steps - taken)
        more_regret, more_clicks, more_steps = play(scene, most, length, scratch)
        regret += more_regret
        clicked += more_clicks
        taken += more_steps
        same = is_same(slots.rankings[0], scratch) and len(scratch.shown) <= MAX_BITS
        misses += not same
    return regret, clicked


@slow_path
def play(scene: Scene, steps: int, in_urn: int, scratch: Margin) -> tuple[float, int, int]:
    """Take steps one by one, as in `simulation.loop`, with the outcomes in the urn as long as the list is the same.

    The expected regret, the clicks, and how many steps were taken: with an urn, not beyond another list.
    """
    state, params, _, _, slots, best_reward = scene
    rng, users = take(scene.rng), take(scene.users)
    ranking, clicks, memo = slots.rankings[0], slots.clicks[0], slots.memos[0]
    probability = slots.probability
    regret, clicked, left = 0.0, 0, in_urn
    for step in range(steps):
        rank(state, rng, ranking, memo)
        if left > 0 and differs(ranking, scratch.shown):
            left = -1  # the rest is thrown away
        if left > 0:
            draw_from_urn(users, left, clicks, scratch)
            left -= 1
        else:
            click(params, users, ranking, clicks)
        click_probability(params, ranking, probability)
        reward = 0.0
        for k in range(len(ranking)):
            reward += probability[k]
            clicked += clicks[k]
        regret += best_reward - reward
        update(state, ranking, clicks, memo)
        if left < 0:
            steps = step + 1
            break
    give_back(scene.rng, rng)
    give_back(scene.users, users)
    return regret, clicked, steps


@kernel
def expected_clicks(slots: Slots) -> float:
    """Of the list that was shown last."""
    total = 0.0
    for k in range(len(slots.probability)):
        total += slots.probability[k]
    return total


@kernel
def differs(ranking: IntArray, shown: IntArray) -> bool:
    different = False
    for k in range(len(ranking)):
        different = different or ranking[k] != shown[k]
    return different


@kernel
def is_same(ranking: IntArray, scratch: Margin) -> bool:
    """Whether this is the list of the previous call; if not, remember it."""
    same = not differs(ranking, scratch.shown)
    if not same:
        scratch.n_outcomes[0] = 0
        for k in range(len(ranking)):
            scratch.shown[k] = ranking[k]
    return same


# --- how far to go ------------------------------------------------------------------------------------------


@slow_path
def choose_length(state: Any, params: Any, slots: Slots, always: bool, scratch: Margin) -> int:
    """For how many steps the list will probably stay as it is, whatever their order; 0 where a leap is not worth it.

    It depends only on what has been learned until now, not on what the leap will bring.
    """
    now = budget(state, 1)
    if scratch.n_outcomes[0] == 0:
        if 1 << len(scratch.shown) > MAX_CHEAP_OUTCOMES and not is_worth_a_law(state, now, slots, scratch):
            return 0
        find_law(state, params, slots, scratch)
        measure_pace(state, now, scratch)
    elif 8 * state.step[0] > 9 * scratch.measured_at[0]:
        measure_pace(state, now, scratch)
    length = reach(state, now, scratch)
    return int(length) if length >= (1 if always else max(MIN_LENGTH, scratch.n_outcomes[0])) else 0


@slow_path
def is_worth_a_law(state: Any, now: float, slots: Slots, scratch: Margin) -> bool:
    """Whether a leap would pay for finding the law of all click vectors, if users looked at every position."""
    for k in range(len(scratch.shown)):
        scratch.mean_observed[k] = 1.0
        scratch.mean_clicked[k] = slots.probability[k]
    measure_pace(state, now, scratch)
    return reach(state, now, scratch) >= 1 << len(scratch.shown)


@slow_path
def reach(state: Any, now: float, scratch: Margin) -> float:
    """In how many steps the first neighbours may meet, if they go on at this pace."""
    length = 1e15
    low, _ = span(state, 0, 0.0, 0.0, now, now)
    above = 0
    for place in range(1, len(state.order)):
        lowest, highest = span(state, place, 0.0, 0.0, now, now)
        gap = low - highest - GAP
        if not gap > 0:
            return 0.0
        length = min(length, gap / (scratch.down[above] + scratch.up[place]))
        if place < len(scratch.shown):
            low, above = lowest, place
    return BOLDNESS * length


@slow_path
def find_law(state: Any, params: Any, slots: Slots, scratch: Margin) -> None:
    """The law of the clicks on the list that is shown, and how often each item is observed and clicked on average."""
    ranking, clicks = slots.rankings[0], slots.clicks[0]
    for k in range(len(ranking)):
        scratch.mean_observed[k] = 0.0
        scratch.mean_clicked[k] = 0.0
    n = 0
    for pattern in range(1 << len(ranking)):
        for k in range(len(ranking)):
            clicks[k] = pattern >> k & 1
        probability = math.exp(log_likelihood(params, ranking, clicks))
        if probability > 0:
            scratch.outcomes[n] = pattern
            scratch.law[n] = probability
            scratch.examined[n] = looked_at(state, clicks)
            for k in range(scratch.examined[n]):
                scratch.mean_observed[k] += probability
                scratch.mean_clicked[k] += probability * clicks[k]
            n += 1
    scratch.n_outcomes[0] = n


@slow_path
def measure_pace(state: Any, now: float, scratch: Margin) -> None:
    """By how much the index at each place may fall and rise in a step, at the very most, if users are average."""
    scratch.measured_at[0] = state.step[0]
    later = budget(state, TRIAL)
    for k in range(len(scratch.shown)):
        scratch.position[scratch.shown[k]] = k
    for place in range(len(state.order)):
        looks, clicks = 0.0, 0.0
        if place < len(scratch.shown):
            k = scratch.position[state.order[place]]
            looks, clicks = TRIAL * scratch.mean_observed[k], TRIAL * scratch.mean_clicked[k]
        lowest, highest = span(state, place, 0.0, 0.0, now, now)
        low, high = span(state, place, looks, clicks, now, later)
        scratch.down[place] = (lowest - low) / TRIAL
        scratch.up[place] = (high - highest) / TRIAL


# --- what happens on the way --------------------------------------------------------------------------------


@slow_path
def draw_outcomes(users: np.random.Generator, length: int, scratch: Margin) -> None:
    """How often each click vector occurred in `length` steps, and what is learned from that."""
    n, counts = scratch.n_outcomes[0], scratch.counts
    for k in range(len(scratch.shown)):
        scratch.observed[scratch.shown[k]] = 0
        scratch.clicked[scratch.shown[k]] = 0
    scratch.totals[0] = 0
    draw_counts(users, scratch.law[:n], length, scratch.tail, counts)
    for i in range(n):
        if counts[i] > 0:
            pattern = scratch.outcomes[i]
            scratch.totals[0] += counts[i] * bits(pattern)
            for k in range(scratch.examined[i]):
                scratch.observed[scratch.shown[k]] += counts[i]
                scratch.clicked[scratch.shown[k]] += counts[i] * (pattern >> k & 1)


@slow_path
def stays(state: Any, length: int, scratch: Margin) -> bool:
    """Whether the list is the same at all of these steps, in whatever order the outcomes came."""
    n_positions = len(scratch.shown)
    now, later = budget(state, 1), budget(state, length)
    low = math.inf
    for place in range(len(state.order)):
        item = state.order[place]
        shown = place < n_positions
        looks = float(scratch.observed[item]) if shown else 0.0
        clicks = float(scratch.clicked[item]) if shown else 0.0
        lowest, highest = span(state, place, looks, clicks, now, later)
        if not highest < low - GAP:
            return False
        if shown:
            low = lowest
    return True


@slow_path
def draw_from_urn(users: np.random.Generator, n: int, clicks: IntArray, scratch: Margin) -> None:
    """One of the n outcomes that are left, each as probable as any other."""
    left = int(users.random() * n)
    i = 0
    while left >= scratch.counts[i]:
        left -= scratch.counts[i]
        i += 1
    scratch.counts[i] -= 1
    for k in range(len(clicks)):
        clicks[k] = scratch.outcomes[i] >> k & 1
