"""The interaction of a policy with users, step by step: a template that `compilation` specialises and compiles."""

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
    """Take `steps` steps; the expected regret and the clicks of these steps.

    The arrays have a row to write to; `step` matters only where feedback comes late (see `late`).
    """
    ranking, clicked, memo = rankings[0], clicks[0], memos[0]
    regret = 0.0
    n_clicks = 0
    for _ in range(steps):
        rank(state, rng, ranking, memo)
        click(params, users, ranking, clicked)
        click_probability(params, ranking, probability)
        reward = 0.0
        for k in range(len(ranking)):
            reward += probability[k]
            n_clicks += clicked[k]
        regret += best_reward - reward
        update(state, ranking, clicked, memo)
    return regret, n_clicks


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
