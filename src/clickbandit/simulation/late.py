"""As `loop`, with feedback that comes some steps late."""

from typing import Any

import numpy as np

from clickbandit.clicks.cm import click, click_probability  # model
from clickbandit.kernel import FloatArray, IntArray, counted_entry_point, slow_path
from clickbandit.policies.random import rank, update  # policy


@slow_path
def take_steps(
    state: Any,
    params: Any,
    rng: np.random.Generator,
    users: np.random.Generator,
    rankings: IntArray,
    clicks: IntArray,
    memos: FloatArray,
    probability: FloatArray,
    best_reward: float,
    step: int,
    steps: int,
) -> tuple[float, int]:
    """Take `steps` steps after the first `step`; the expected regret and the clicks of these steps.

    The arrays have a slot for each step whose feedback may be outstanding: with n + 1 slots, what the users of
    step t clicked is learned just before step t + n + 1.
    """
    slots = len(rankings)
    slot = step % slots
    regret = 0.0
    clicked = 0
    for t in range(step, step + steps):
        ranking = rankings[slot]
        rank(state, rng, ranking, memos[slot])
        click(params, users, ranking, clicks[slot])
        click_probability(params, ranking, probability)
        reward = 0.0
        for k in range(len(ranking)):
            reward += probability[k]
            clicked += clicks[slot, k]
        regret += best_reward - reward
        slot = slot + 1 if slot + 1 < slots else 0
        if t + 1 >= slots:
            update(state, rankings[slot], clicks[slot], memos[slot])
    return regret, clicked


@counted_entry_point
def interact(
    state: Any,
    params: Any,
    rng: np.random.Generator,
    users: np.random.Generator,
    rankings: IntArray,
    clicks: IntArray,
    memos: FloatArray,
    probability: FloatArray,
    best_reward: float,
    step: int,
    ends: IntArray,
    regret: FloatArray,
    clicked: IntArray,
) -> None:
    """Go on after the first `step` steps to the end of each window, for its expected regret and clicks."""
    for window in range(len(ends)):
        regret[window], clicked[window] = take_steps(
            state,
            params,
            rng,
            users,
            rankings,
            clicks,
            memos,
            probability,
            best_reward,
            step,
            ends[window] - step,
        )
        step = ends[window]
