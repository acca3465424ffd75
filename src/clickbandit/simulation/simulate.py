"""Simulating many runs, on all cores."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import NamedTuple

import numpy as np

from clickbandit.click_models.base import ClickModel
from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.errors import InputError
from clickbandit.policies.base import Policy
from clickbandit.progress import progress_bar
from clickbandit.simulation.drift import Change
from clickbandit.simulation.run import LEAST_HORIZON, Method, Problem, Run
from clickbandit.simulation.trace import Trace

WINDOWS = 100
MOST_STEPS = 10**15
_SOON = 0.05  # seconds
_COMPILED_CHUNK = 1 << 16  # steps, one by one, between two looks at the progress bar and at Ctrl-C
_INTERPRETED_CHUNK = 1 << 10

Progress = Callable[[int], None]


class Interrupted(KeyboardInterrupt):
    """A simulation was stopped by Ctrl-C; `traces` holds the runs that were finished."""

    def __init__(self, traces: list[Trace]) -> None:
        super().__init__("the simulation was interrupted")
        self.traces = traces


def simulate(
    policy: Policy | str,
    model: ClickModel,
    *,
    positions: int = 5,
    steps: int,
    runs: int = 1,
    seed: int = 0,
    horizon: int | None = None,
    delay: int = 0,
    drift: Sequence[Change] = (),
    flip: float = 0.0,
    method: Method = "auto",
    query: str = "",
    threads: int | None = None,
) -> Trace:
    """Let a policy learn from simulated users, and watch its regret.

    `horizon` is the number of steps that the policy is tuned for (by default all of them); the feedback to step t
    is learned just before step t + `delay` + 1. The same arguments give the same trace, whatever else is run.

    `drift` has the steps after which users change: a step alone shuffles the items, the same for all policies and runs
    of a seed; (step, model) names the users from then on. Regret is against the best list of the users at hand; what a
    policy is told of the users it is told at the start. `flip` is the share of clicks, and of positions that were not
    clicked, that are seen inverted; regret is by the users' own clicks.

    With `method` "leap" many steps are taken at once where nothing can change, which is exact in distribution and
    up to a thousand times faster; "step" takes them one by one; "auto" leaps where the policy allows it and that is
    quicker. By leaps the regret is the mean over the orders in which the policy would have shuffled the items: its
    curve lacks the noise of the orders that happened, which "step" has.

    >>> from clickbandit import BatchRank, PositionBasedModel
    >>> model = PositionBasedModel(attraction=[0.9, 0.6, 0.5, 0.3, 0.2], examination=[1, 0.6, 0.3])
    >>> trace = simulate(BatchRank(), model, positions=3, steps=10_000, runs=2, seed=1)
    >>> trace.regret.shape
    (2, 100)
    """
    problem = Problem(
        policy,
        model,
        positions=positions,
        horizon=steps if horizon is None else horizon,
        query=query,
        delay=delay,
        drift=drift,
        flip=flip,
        method=method,
    )
    task = Task(policy if isinstance(policy, str) else str(policy), problem)
    total = steps * runs
    with progress_bar(total, "simulating") as advance:
        return simulate_all([task], steps=steps, runs=runs, seed=seed, threads=threads, progress=advance)[0]


class Task(NamedTuple):
    """A problem to simulate, and how its policy is called in the results."""

    policy: str
    problem: Problem


def simulate_all(
    tasks: Sequence[Task],
    *,
    steps: int,
    runs: int,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = lambda steps: None,
) -> list[Trace]:
    """The traces of many problems, their runs shared out over threads."""
    if runs < 1:
        raise InputError(f"runs must be at least 1, found {runs}")
    for task in tasks:
        check_steps(task.problem, steps)
        if not task.problem.policy.built_in:
            task.problem.try_out()
    windows = window_ends(steps)
    stop = Event()
    futures: list[list[Future[Outcome | None]]] = []
    interrupted = False
    with ThreadPoolExecutor(threads or len(os.sched_getaffinity(0))) as pool:
        try:
            for task in tasks:
                arguments = (task.problem, seed, windows, progress, stop)
                futures.append([pool.submit(simulate_run, run, *arguments) for run in range(runs)])
            for group in futures:
                for future in group:
                    future.result()
        except BaseException as error:
            stop.set()
            if not isinstance(error, KeyboardInterrupt):
                raise
            interrupted = True
    outcomes = [[future.result() for future in group] for group in futures]
    traces = [
        _trace(task, windows, [outcome for outcome in group if outcome is not None])
        for task, group in zip(tasks, outcomes, strict=False)  # not all were begun if interrupted
        if any(group)
    ]
    if interrupted:
        raise Interrupted(traces)
    return traces


def check_steps(problem: Problem, steps: int) -> None:
    """Refuse a number of steps that a run of this problem cannot have."""
    if not LEAST_HORIZON <= steps <= MOST_STEPS:
        raise InputError(
            f"at least {LEAST_HORIZON} steps are needed and at most {MOST_STEPS:,}, found {steps:,}"
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


@dataclass(frozen=True)
class Outcome:
    """What a run leaves: regret and clicks a step, by window."""

    run: int
    regret: FloatArray
    clicks: FloatArray
    final_list: list[int]
    seconds: float


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
    at_once = 1  # windows to go on by in one call: more as long as that is too quick to wait for
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
        at_once = 2 * at_once if time.perf_counter() - call < _SOON else 1
        progress(run.step - before)
    sizes = np.diff(windows, prepend=0)
    return Outcome(number, regret / sizes, clicks / sizes, run.best(), time.thread_time() - started)


def _trace(task: Task, windows: IntArray, outcomes: list[Outcome]) -> Trace:
    return Trace(
        policy=task.policy,
        model=task.problem.model.name,
        query=task.problem.query,
        runs=np.array([outcome.run for outcome in outcomes]),
        steps=windows,
        regret=np.array([outcome.regret for outcome in outcomes]),
        clicks=np.array([outcome.clicks for outcome in outcomes]),
        final_lists=[outcome.final_list for outcome in outcomes],
        seconds=sum(outcome.seconds for outcome in outcomes),
    )
