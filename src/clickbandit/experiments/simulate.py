"""Simulating in memory: the same engine, and traces instead of a folder."""

from collections.abc import Sequence
from threading import Event
from typing import Any, NamedTuple, Required, TypedDict, Unpack, overload

import numpy as np

from clickbandit.errors import InputError
from clickbandit.experiments.plan import Job, Unit
from clickbandit.experiments.run import run_jobs
from clickbandit.leaps.buffers import MAX_BITS
from clickbandit.policies.contract import Leaps
from clickbandit.priors import Prior
from clickbandit.progress import progress_bar
from clickbandit.queries import Against
from clickbandit.simulation.arguments import PolicyLike, Users, whole
from clickbandit.simulation.drift import Change
from clickbandit.simulation.outcome import Outcome, Progress, check_steps, simulate_run, window_ends
from clickbandit.simulation.run import Method, Problem
from clickbandit.simulation.trace import Trace

MAX_BRIEF_STEPS = 10_000_000
"""Of a run that needs no thread of its own: see `_is_brief`."""


class Interrupted(KeyboardInterrupt):
    """A simulation was stopped by Ctrl-C; `traces` holds the runs that were finished."""

    def __init__(self, traces: list[Trace]) -> None:
        super().__init__("the simulation was interrupted")
        self.traces = traces


class SimulateArguments(TypedDict, total=False):
    """What `simulate` takes besides policies and users."""

    positions: int
    steps: Required[float]
    runs: float
    seed: int
    horizon: float | None
    delay: float
    drift: Sequence[Change]
    flip: float
    method: Method
    against: Against
    prior: Prior | None
    until_settled: bool
    query: str
    threads: int | None


@overload
def simulate(policy: PolicyLike, model: Users, **options: Unpack[SimulateArguments]) -> Trace: ...


@overload
def simulate(
    policy: list[Any] | tuple[Any, ...], model: Users, **options: Unpack[SimulateArguments]
) -> list[Trace]: ...


def simulate(
    policy: PolicyLike | list[Any] | tuple[Any, ...],
    model: Users,
    *,
    positions: int = 5,
    steps: float,
    runs: float = 1,
    seed: int = 0,
    horizon: float | None = None,
    delay: float = 0,
    drift: Sequence[Change] = (),
    flip: float = 0.0,
    method: Method = "auto",
    against: Against = "clicks",
    prior: Prior | None = None,
    until_settled: bool = False,
    query: str = "",
    threads: int | None = None,
) -> Trace | list[Trace]:
    """Let a policy learn from simulated users, and watch its regret.

    `policy` is a policy, its class (with default settings) or its spelling on the command line; a list of them gives
    a list of traces. `model` is a click model, or a query that has only one. Steps may be written as 1e6.

    `horizon` is the number of steps that the policy is tuned for (by default all of them); the feedback to step t
    is learned just before step t + `delay` + 1. The same arguments give the same trace, whatever else is run. In each
    run all policies meet the same users, and items are numbered by chance; traces have the numbers of the model.

    `drift` has the steps after which users change: a step alone shuffles the items, differently in each run but alike
    for all policies; (step, model) names the users from then on. Regret is against the best list of the current users;
    what policies are told of users is true of those at the start. `flip` is the share of clicks, and of missing clicks,
    that are seen inverted; regret is computed from the users' own clicks.

    With `method` "leap" many steps are taken at once where nothing can change, which is exact in distribution and
    up to a thousand times faster; "step" takes them one by one; "auto" leaps where the policy allows it and that is
    quicker. By leaps the regret is the mean over the orders in which the policy would have shuffled the items, without
    the noise of those that happened.

    Regret is `against` the list with the most expected clicks ("clicks"), or that of the items by decreasing attraction
    ("attraction"). `prior` is what is known before the first step, in the numbers of the model;
    policies that cannot start from one say so. With `until_settled` a run ends once the list that its policy would show
    has been the same for a fifth of all steps; the steps that are left count with the mean regret and clicks of the
    last tenth, and `trace.settled` says where it ended. Ctrl-C raises a KeyboardInterrupt whose `traces` hold the runs
    that were finished.

    >>> from clickbandit import BatchRank, PositionBasedModel
    >>> model = PositionBasedModel(attraction=[0.9, 0.6, 0.5, 0.3, 0.2], examination=[1, 0.6, 0.3])
    >>> trace = simulate(BatchRank(), model, positions=3, steps=10_000, runs=2, seed=1)
    >>> trace.regret.shape
    (2, 100)
    >>> [trace.policy for trace in simulate(["random", BatchRank], model, positions=3, steps=1e3)]
    ['random', 'batchrank']
    """
    steps, runs, seed = whole("steps", steps), whole("runs", runs), whole("seed", seed)
    policies, tasks = (policy if isinstance(policy, (list, tuple)) else [policy]), []
    for one in policies:
        problem = Problem(
            one,
            model,
            positions=positions,
            horizon=steps if horizon is None else horizon,
            query=query,
            delay=delay,
            drift=drift,
            flip=flip,
            method=method,
            against=against,
            prior=prior,
        )
        tasks.append(Task(one if isinstance(one, str) else str(problem.policy), problem, until_settled))
    with progress_bar(steps * runs * len(tasks), "simulating") as advance:
        traces = simulate_all(tasks, steps=steps, runs=runs, seed=seed, threads=threads, progress=advance)
    return traces if policies is policy else traces[0]


class Task(NamedTuple):
    """A problem to simulate, and how its policy is called in the results."""

    policy: str
    problem: Problem
    until_settled: bool = False


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
    jobs = [Job(_unit(task, run, steps, seed), task.problem) for task in tasks for run in range(runs)]
    outcomes: dict[int, Outcome] = {}

    def traces() -> list[Trace]:
        groups = [
            [outcomes[job] for job in range(i * runs, (i + 1) * runs) if job in outcomes]
            for i in range(len(tasks))
        ]
        return [_trace(task, steps, group) for task, group in zip(tasks, groups, strict=True) if group]

    try:
        if len(jobs) == 1 and _is_brief(*jobs[0]):
            outcomes[0] = _take(*jobs[0], progress)
        else:
            run_jobs(jobs, outcomes.__setitem__, threads=threads, progress=progress)
    except KeyboardInterrupt:
        raise Interrupted(traces()) from None
    return traces()


def _is_brief(unit: Unit, problem: Problem) -> bool:
    """Whether a run is over in less time than Ctrl-C may take, so that it needs no thread, which would take longer to
    start than many leaps: even if none of them paid, so few steps over so few items are taken within a second."""
    return (
        isinstance(problem.policy.leaps, Leaps)
        and problem.policy.built_in
        and problem.leaps
        and not problem.always_leaps
        and problem.model.patterns.closed_form
        and problem.model.n_items <= MAX_BITS
        and unit.steps <= MAX_BRIEF_STEPS
        and problem.is_compiled
    )


def _take(unit: Unit, problem: Problem, progress: Progress) -> Outcome:
    """That run, on this thread."""
    outcome = simulate_run(
        unit.run, problem, unit.seed, window_ends(unit.steps), progress, Event(), unit.until_settled
    )
    assert outcome is not None
    return outcome


def _unit(task: Task, run: int, steps: int, seed: int) -> Unit:
    problem = task.problem
    return Unit(
        policy=task.policy,
        model=problem.model.name,
        query=problem.query,
        run=run,
        steps=steps,
        positions=problem.positions,
        seed=seed,
        horizon=problem.horizon,
        delay=problem.delay,
        drift=tuple(drift.after for drift in problem.drift),
        flip=problem.flip,
        against=problem.against,
        until_settled=task.until_settled,
        prior=problem.prior,
    )


def _trace(task: Task, steps: int, outcomes: list[Outcome]) -> Trace:
    return Trace(
        policy=task.policy,
        model=task.problem.model.name,
        query=task.problem.query,
        runs=np.array([outcome.run for outcome in outcomes]),
        steps=window_ends(steps),
        regret=np.array([outcome.regret for outcome in outcomes]),
        clicks=np.array([outcome.clicks for outcome in outcomes]),
        final_lists=[outcome.final_list for outcome in outcomes],
        seconds=sum(outcome.seconds for outcome in outcomes),
        against=task.problem.against,
        settled=[outcome.settled for outcome in outcomes],
    )
