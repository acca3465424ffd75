"""Many steps at once, exact in distribution: a template that `compiling.specialise` specialises and compiles.

Some policies show ordered batches of items, each in random order, and change the batches only after a test that no
outcome of the next so many steps can bring about. Over such quiet steps the lists are independent draws from a
known law, so it is drawn what was clicked in all of them together (see `outcomes`), and the policy learns the
totals. Nothing is approximated; what is lost is the order inside the batches at each step, so the regret here is the
mean over these orders.
"""

from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray, counted_entry_point, kernel, slow_path
from clickbandit.leaps.buffers import MAX_BITS, Scratch
from clickbandit.leaps.by_pattern import draw_outcomes, price  # outcomes
from clickbandit.policies.batchrank.algorithm import test  # policy
from clickbandit.policies.batchrank.leaps import absorb, batches, member, quiet  # policy
from clickbandit.simulation.loop import take_steps  # loop
from clickbandit.simulation.memory import Scene, Slots

IN_ROUNDS = True  # policy
MAX_WORK = 10_000_000
"""A leap that takes as long as more steps than this, about a second, is taken only where that is quicker."""


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
    scratch: Scratch,
) -> None:
    """As `windows.interact`, by leaps where they are quicker; or `always`, if they take no more than about a second."""
    scene = Scene(state, params, rng, users, slots, best_reward)
    scratch.known[0] = 0
    for window in range(len(ends)):
        steps = ends[window] - step
        regret[window], clicked[window] = leap_over(scene, step, steps, always, scratch)
        step += steps


@slow_path
def leap_over(scene: Scene, step: int, steps: int, always: bool, scratch: Scratch) -> tuple[float, int]:
    """The expected regret and the clicks of `steps` steps after the first `step`."""
    state, best_reward = scene.state, scene.best_reward
    regret = 0.0
    clicked = 0
    end = step + steps
    for _ in range(steps):
        if step == end:
            break
        batches(state, scratch.batch, scratch.size)
        most = min(quiet(state, len(scratch.batch)), end - step)
        round_length = steps_of_round(scratch)
        length = most // round_length * round_length
        worth = max(length, MAX_WORK) if always else length
        if length > 0 and fits(scratch) and price(scratch) <= worth:
            for k in range(scratch.batch[-1]):
                scratch.shown[k] = member(state, scratch.batch[k], k - scratch.batch[k])
            for i in range(scratch.size[-1]):
                scratch.members[i] = member(state, scratch.batch[-1], i)
            draw_outcomes(scene.params, scene.rng, scene.users, length // round_length, round_length, scratch)
            absorb(state, scratch.observed, scratch.clicked, scratch.together)
            test(state, len(scratch.batch))
            more_regret, more_clicks = best_reward * length - scratch.totals[0], int(scratch.totals[1])
        else:
            length = max(1, most)
            more_regret, more_clicks = take_steps(scene, step, length)
        regret += more_regret
        clicked += more_clicks
        step += length
    return regret, clicked


@kernel
def steps_of_round(scratch: Scratch) -> int:
    """How many steps it takes to show each item of the last batch once, if it is shown in rounds."""
    positions = len(scratch.batch) - scratch.batch[-1]
    return -(-scratch.size[-1] // positions) if IN_ROUNDS else 1


@kernel
def fits(scratch: Scratch) -> bool:
    """Whether the tables of a leap have room for this."""
    return len(scratch.batch) <= MAX_BITS and scratch.size[-1] <= MAX_BITS
