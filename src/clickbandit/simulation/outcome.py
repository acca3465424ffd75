"""The outcome of a run, window by window."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

import numpy as np
from numpy.typing import NDArray

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.errors import InputError
from clickbandit.policies.contract import Margins
from clickbandit.simulation.run import MIN_HORIZON, Problem, Run

WINDOWS = 100
MAX_STEPS = 10**15
LOSING = 1e-3
"""A run loses if its regret a step is above this in the last tenth of its steps: it has not learned, or wrongly."""
TAIL = 0.9
"""Of the runs have no more regret than what is told as the tail."""
_QUICK_CALL = 0.05  # seconds
_COMPILED_CHUNK = 1 << 16  # steps, one by one, between two looks at the progress bar and at Ctrl-C
_LEAPING_CHUNK = 1 << 20
_LEAPING_WINDOWS = 16
_LEAPING_STEPS = 1 << 24
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
    settled: int | None = None
    """The last step, if the run ended before all were taken because its list was settled."""


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
    return np.arange(1, n_windows + 1) * steps // n_windows


def last_tenth(steps: IntArray) -> NDArray[np.bool_]:
    """Which windows lie in the last tenth of the steps, by the last step of each; at least the last one."""
    late: NDArray[np.bool_] = 10 * np.append(0, steps[:-1]) >= 9 * steps[-1]
    late[-1] = True
    return late


def simulate_run(
    number: int,
    problem: Problem,
    seed: int,
    windows: IntArray,
    progress: Progress,
    stop: Event,
    until_settled: bool = False,
) -> Outcome | None:
    """One run, window by window; None when it was stopped.

    With `until_settled` it ends when its list is settled, and the windows that are left have the mean regret and clicks
    of its last tenth.
    """
    if stop.is_set():
        return None
    run = Run(problem, seed=seed, run=number)
    if not problem.is_compiled:
        run.advance(0)  # so that the time below is the steps' own
    regret, clicks = np.zeros(len(windows)), np.zeros(len(windows))
    started = time.thread_time()
    # windows to take in one call: more as long as that is too quick to wait for
    chunk = _chunk(problem)
    at_once = 1
    if problem.leaps and not until_settled:
        at_once = max(_LEAPING_WINDOWS, int(np.searchsorted(windows, _LEAPING_STEPS, "right")))
    lists = _Lists(problem, len(windows)) if until_settled else None
    window = 0
    while window < len(windows) and not (lists and lists.settled):
        if stop.is_set():
            return None
        before, call = run.step, time.perf_counter()
        near = int(np.searchsorted(windows, run.step + chunk, "right")) - window if chunk else at_once
        n = min(at_once, near)
        ends = windows[window : window + n] if n > 0 else np.array([run.step + chunk])
        more_regret, more_clicks = run.advance_windows(ends)
        regret[window : window + len(ends)] += more_regret
        clicks[window : window + len(ends)] += more_clicks
        window = min(window + n, len(windows))
        if lists and n > 0:
            lists.add(run.step, run.best())
        elif time.perf_counter() - call < _QUICK_CALL:
            at_once *= 2
        else:
            at_once = 1
        progress(run.step - before)
    settled = run.step if run.step < windows[-1] else None
    seconds = time.thread_time() - started
    progress(int(windows[-1]) - run.step)
    sizes = windows.copy()
    sizes[1:] -= windows[:-1]
    for values in (regret, clicks):
        values /= sizes
        if settled is not None:
            tenth = slice(window - -(-len(windows) // 10), window)
            values[window:] = np.average(values[tenth], weights=sizes[tenth])
    return Outcome(number, regret, clicks, run.best(), seconds, settled)


def _chunk(problem: Problem) -> int:
    """After how many steps to look up, at the latest; 0 if leaps are so long that it is done after each window."""
    if problem.leaps:
        return _LEAPING_CHUNK if isinstance(problem.policy.leaps, Margins) else 0
    return _COMPILED_CHUNK if problem.policy.compiled else _INTERPRETED_CHUNK


class _Lists:
    """Whether the list of a run is settled.

    It is when what the policy would show if it stopped exploring has been the same at the end of every window for a
    fifth of all steps, since the last drift.
    """

    def __init__(self, problem: Problem, n_windows: int) -> None:
        self._calm_from = problem.drift[-1].after if problem.drift else 0
        self._enough = -(-n_windows // 5)
        self._last: tuple[int, list[int]] = (-1, [])
        self._same = 0  # windows in a row

    def add(self, step: int, ranking: list[int]) -> None:
        """What it would show after a step."""
        before, last = self._last
        self._same = self._same + 1 if ranking == last and before >= self._calm_from else 0
        self._last = step, ranking

    @property
    def settled(self) -> bool:
        return self._same >= self._enough
