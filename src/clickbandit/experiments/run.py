"""The one engine: runs on the threads of this machine or on a Dask cluster, each kept as soon as it is finished."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from queue import SimpleQueue
from threading import Condition, Event, Lock, Thread
from typing import TYPE_CHECKING

from clickbandit.cores import cores
from clickbandit.experiments.cluster import run_on_cluster
from clickbandit.experiments.plan import Job, Keep
from clickbandit.policies.contract import Rank
from clickbandit.simulation.outcome import Progress, simulate_run, window_ends
from clickbandit.simulation.run import Problem, Run

if TYPE_CHECKING:
    from clickbandit.experiments.folder import Folder

MIN_STEPS_TO_COMPILE = 3_000
"""Fewer steps than this are sooner taken as plain Python, with the same numbers, than their code is compiled."""
PATIENCE = 0.5
"""Seconds that Ctrl-C waits for the threads: one that compiles or is in the middle of a long leap is left behind."""
_THREAD = "clickbandit engine"
_Kind = tuple[bool, bool, bool, Rank, type]


def run(
    folder: "Folder",
    *,
    threads: int | None = None,
    cluster: str | None = None,
    progress: Progress = lambda steps: None,
) -> None:
    """Run all units that are not finished, on that many threads or on the cluster at an address.

    Each is in the folder as soon as it is finished. Ctrl-C ends it with KeyboardInterrupt; whenever and however it
    ends, the same folder continues where it was, with the same numbers.
    """
    units = folder.unfinished
    jobs = [Job(unit, folder.plan.problems[unit]) for unit in units]
    run_jobs(
        jobs,
        lambda number, outcome: folder.add(units[number], outcome),
        threads=threads,
        cluster=cluster,
        progress=progress,
    )


def run_jobs(
    jobs: Sequence[Job],
    keep: Keep,
    *,
    threads: int | None = None,
    cluster: str | None = None,
    progress: Progress = lambda steps: None,
) -> None:
    """Run these jobs; `keep` is called with the number and the outcome of each, from whatever thread ran it."""
    if not all(job.problem.policy.built_in for job in jobs):
        _on_threads(1, lambda: _try_out(jobs))
    if cluster is not None:
        run_on_cluster(cluster, jobs, keep, progress)
        return
    _leave_uncompiled(jobs)
    schedule = _Schedule([job.problem for job in jobs])
    keeping, closed = Lock(), Event()

    def work() -> None:
        while (task := schedule.next()) is not None:
            number, compiles = task
            (unit, problem) = jobs[number]
            if compiles:
                if not problem.is_compiled:
                    Run(problem).advance(0)
                schedule.compiled(number)
            windows = window_ends(unit.steps)
            outcome = simulate_run(
                unit.run, problem, unit.seed, windows, tell, schedule.stopped, unit.until_settled
            )
            with keeping:
                if outcome is not None and not closed.is_set():
                    keep(number, outcome)  # here: Ctrl-C interrupts the main thread alone, and never this

    def tell(steps: int) -> None:
        if not closed.is_set():
            progress(steps)

    try:
        _on_threads(min(threads or cores(), len(jobs)), work, schedule.stop)
    finally:
        with keeping:  # a thread that was left behind keeps nothing more
            closed.set()


def _try_out(jobs: Sequence[Job]) -> None:
    """Find what is wrong with the user's own policies before anything is run."""
    tried = set()
    for unit, problem in jobs:
        if (unit.policy, unit.model) not in tried and not problem.policy.built_in:
            problem.try_out()
        tried.add((unit.policy, unit.model))


def _leave_uncompiled(jobs: Sequence[Job]) -> None:
    """Take few steps as plain Python. What compiles is decided by what was asked for alone, not by what is cached."""
    steps: Counter[_Kind] = Counter()
    for unit, problem in jobs:
        steps[_kind(problem)] += unit.steps
    for _, problem in jobs:
        few = steps[_kind(problem)] < MIN_STEPS_TO_COMPILE
        if few and problem.policy.built_in and not problem.leaps:
            problem.loop = problem.make_loop(compiled=False)


def _on_threads(n: int, work: Callable[[], None], stop: Callable[[], None] = lambda: None) -> None:
    """Do this work on n threads at once, until all have ended, one has failed, or Ctrl-C.

    The main thread does nothing but wait, so that Ctrl-C reaches it whatever the others are doing.
    """
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def target() -> None:
        try:
            work()
            ended.put(None)
        except BaseException as error:
            ended.put(error)

    workers = [Thread(target=target, daemon=True, name=_THREAD) for _ in range(n)]
    until = float("inf")
    try:
        for worker in workers:
            worker.start()
        for _ in workers:
            error = ended.get()
            if error is not None:
                raise error
    except KeyboardInterrupt:
        until = time.monotonic() + PATIENCE
        raise
    finally:
        stop()
        for worker in workers:
            worker.join(min(max(until - time.monotonic(), 0), threading.TIMEOUT_MAX))


class _Schedule:
    """Which problem comes next, so that no thread waits for the compiler while there is something else to run.

    Problems of the same kind (policy, click model, ..) run the same code. The first of a kind compiles it; numba
    compiles in one thread at a time, and twice if two ask for the same, so only one compiles at a time, and
    the others of its kind wait. All that are ready are run in their order.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.stopped = Event()
        self._kinds = [_kind(problem) for problem in problems]
        self._changed = Condition()
        self._ready: list[int] = []
        self._waiting: dict[_Kind, deque[int]] = {}
        self._compiling = False
        for number, kind in enumerate(self._kinds):
            self._waiting.setdefault(kind, deque()).append(number)

    def next(self) -> tuple[int, bool] | None:
        """A number, and whether its code must be compiled first; None when there is nothing more to do."""
        with self._changed:
            while not self.stopped.is_set():
                if self._waiting and not self._compiling:
                    self._compiling = True
                    # what leaps comes last: it takes longest to compile, and next to no time to run
                    kind = min(self._waiting, key=lambda kind: (kind[0], self._waiting[kind][0]))
                    return self._waiting[kind].popleft(), True
                if self._ready:
                    return heappop(self._ready), False
                if not self._compiling:
                    return None
                self._changed.wait()
            return None

    def compiled(self, number: int) -> None:
        """What is of this one's kind is ready to run."""
        with self._changed:
            self._compiling = False
            for other in self._waiting.pop(self._kinds[number]):
                heappush(self._ready, other)
            self._changed.notify_all()

    def stop(self) -> None:
        """Give out nothing more, and stop what is running at its next look."""
        self.stopped.set()
        with self._changed:
            self._changed.notify_all()


def _kind(problem: Problem) -> _Kind:
    """Problems of the same kind run the same code."""
    rank = problem.policy.algorithm.rank  # variants of a policy have functions of their own
    return problem.leaps, problem.delay > 0, problem.flip > 0, rank, type(problem.model)
