"""What a run comes to, window by window."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.errors import InputError
from clickbandit.simulation.run import MIN_HORIZON, Problem, Run

WINDOWS = 100
MAX_STEPS = 10**15
_QUICK_CALL = 0.05  # seconds
_COMPILED_CHUNK = 1 << 16  # steps, one by one, between two looks at the progress bar and at Ctrl-C
_INTERPRETED_CHUNK = 1 << 10

Progress = Callable[[int], None]
"""Is told how many steps were taken since it was last called."""


@dataclass(frozen=True)
class Outcome:
    """What a run leaves: regret and clicks a step, by window."""

    run: int
    regret: FloatArray
    clicks: FloatArray
    final_list: list[int]
    seconds: float


def check_steps(problem: Problem, steps: int) -> None:
    """Refuse a number of steps that a run of this problem cannot have."""
    if not MIN_HORIZON <= steps <= MAX_STEPS:
        raise InputError(
            f"at least {MIN_HORIZON} steps are needed and at most {MAX_STEPS:,}, found {steps:,}"
        )
    if problem.delay > steps:
        raise InputError(f"a delay of {problem.delay:,} steps leaves no feedback within {steps:,} steps")
    if problem.drift and problem.drift[-1].after >= steps:
        raise InputError(
            f"drift after step {problem.drift[-1].after:,} leaves nothing to see within {steps:,} steps"
        )


def window_ends(steps: int) -> IntArray:
    """The last step of each window of a run."""
    n_windows = min(WINDOWS, steps)
    return np.array([(i + 1) * steps // n_windows for i in range(n_windows)])


def simulate_run(
    number: int, problem: Problem, seed: int, windows: IntArray, progress: Progress, stop: Event
) -> Outcome | None:
    """One run, window by window; None when it was stopped."""
    if stop.is_set():
        return None
    run = Run(problem, seed=seed, run=number)
    run.advance(0)  # compiles, so that the time below is the steps' own
    regret, clicks = np.zeros(len(windows)), np.zeros(len(windows))
    started = time.thread_time()
    at_once = 1  # windows to take in one call: more as long as that is too quick to wait for
    chunk = _COMPILED_CHUNK if problem.policy.compiled else _INTERPRETED_CHUNK
    window = 0
    while window < len(windows):
        if stop.is_set():
            return None
        before, call = run.step, time.perf_counter()
        near = int(np.searchsorted(windows, run.step + chunk, "right")) - window
        n = at_once if problem.leaps else min(at_once, near)
        ends = windows[window : window + n] if n > 0 else np.array([run.step + chunk])
        more_regret, more_clicks = run.advance_windows(ends)
        regret[window : window + len(ends)] += more_regret
        clicks[window : window + len(ends)] += more_clicks
        window += n
        at_once = 2 * at_once if time.perf_counter() - call < _QUICK_CALL else 1
        progress(run.step - before)
    sizes = np.diff(windows, prepend=0)
    return Outcome(number, regret / sizes, clicks / sizes, run.best(), time.thread_time() - started)
