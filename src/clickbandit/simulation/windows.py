"""Steps one by one, window by window: a template that `compiling.specialise` specialises and compiles."""

from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, counted_entry_point
from clickbandit.simulation.loop import take_steps  # loop
from clickbandit.simulation.memory import Scene, Slots


@counted_entry_point
def interact(
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
) -> None:
    """Go on after the first `step` steps to the end of each window, for its expected regret and its clicks.

    The arguments are flat, since numba would take longer to unpack a tuple of them than for all else.
    """
    scene = Scene(state, params, rng, users, slots, best_reward)
    for window in range(len(ends)):
        steps = ends[window] - step
        regret[window], clicked[window] = take_steps(scene, step, steps)
        step += steps
