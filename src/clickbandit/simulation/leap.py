"""Many steps at once, exact in distribution: a template that `compilation` specialises and compiles.

Some policies show ordered blocks of items, each in random order, and change the blocks only after a test that no
outcome of the next so many steps can bring about. Over such quiet steps the lists are independent draws from a
known law, so it is drawn what was clicked in all of them together (see `outcomes`), and the policy learns the
totals. Nothing is approximated; what is lost is the order inside the blocks at each step, so the regret here is the
mean over these orders.
"""

from typing import Any

import numpy as np

from clickbandit.kernel import FloatArray, IntArray, counted_entry_point, kernel, slow_path
from clickbandit.policies.batchrank import IN_ROUNDS, absorb, blocks, member, quiet, test  # policy
from clickbandit.simulation.loop import take_steps  # loop
from clickbandit.simulation.outcomes import draw_outcomes, price  # outcomes
from clickbandit.simulation.scratch import MOST_BITS, Scratch

MOST_WORK = 10_000_000
"""A leap that takes as long as more steps than this, about a second, is taken only where that is quicker."""


@slow_path
def leap_over(
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
    always: bool,
    scratch: Scratch,
) -> None:
    """Go on after the first `step` steps to the end of each window, and add up its expected regret and clicks.

    Leaps are taken where they are cheaper than single steps, or `always` where they are possible within about a second.
    """
    for window in range(len(ends)):
        for _ in range(ends[window] - step):
            if step == ends[window]:
                break
            blocks(state, scratch.block, scratch.size)
            most = min(quiet(state, len(scratch.block)), ends[window] - step)
            round_length = steps_of_round(scratch)
            length = most // round_length * round_length
            worth = max(length, MOST_WORK) if always else length
            if length > 0 and fits(scratch) and price(scratch, IN_ROUNDS) <= worth:
                for k in range(scratch.block[-1]):
                    scratch.shown[k] = member(state, scratch.block[k], k - scratch.block[k])
                for i in range(scratch.size[-1]):
                    scratch.members[i] = member(state, scratch.block[-1], i)
                draw_outcomes(params, rng, users, length // round_length, round_length, IN_ROUNDS, scratch)
                absorb(state, scratch.observed, scratch.clicked, scratch.together)
                test(state, len(scratch.block))
                more_regret, more_clicks = best_reward * length - scratch.totals[0], int(scratch.totals[1])
            else:
                length = max(1, most)
                more_regret, more_clicks = take_steps(
                    state, params, rng, users, rankings, clicks, memos, probability, best_reward, step, length
                )
            regret[window] += more_regret
            clicked[window] += more_clicks
            step += length


@counted_entry_point
def leap(
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
    always: bool,
    scratch: Scratch,
) -> None:
    leap_over(
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
        ends,
        regret,
        clicked,
        always,
        scratch,
    )


@kernel
def steps_of_round(scratch: Scratch) -> int:
    """How many steps it takes to show each item of the last block once, if it is shown in rounds."""
    positions = len(scratch.block) - scratch.block[-1]
    return -(-scratch.size[-1] // positions) if IN_ROUNDS else 1


@kernel
def fits(scratch: Scratch) -> bool:
    """Whether the tables of a leap have room for this."""
    return len(scratch.block) <= MOST_BITS and scratch.size[-1] <= MOST_BITS
