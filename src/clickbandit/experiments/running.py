"""Running the units of an experiment on the threads of this machine, or on a Dask cluster."""

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from queue import SimpleQueue
from threading import Condition, Event, Thread

from clickbandit.experiments.folder import Folder
from clickbandit.experiments.plan import Unit
from clickbandit.simulation.run import Problem, Run
from clickbandit.simulation.simulate import Outcome, Progress, simulate_run, window_ends

_Kind = tuple[bool, str, type, type, bool]
Keep = Callable[[Unit, Outcome], None]
"""What is called with each finished unit, from whatever thread ran it."""


def run(
    folder: Folder,
    *,
    threads: int | None = None,
    cluster: str | None = None,
    progress: Progress = lambda steps: None,
) -> None:
    """Run all units that are not finished, on so many threads or on the cluster at an address.

    Each is in the folder as soon as it is finished. Ctrl-C ends it with KeyboardInterrupt; whenever and however it
    ends, the same folder goes on where it was, with the same numbers.
    """
    units = folder.unfinished
    problems = folder.plan.problems
    tried = set()
    for unit in units:
        if (unit.policy, unit.model) not in tried and not problems[unit].policy.built_in:
            problems[unit].try_out()
        tried.add((unit.policy, unit.model))

    if cluster is None:
        _run_here(units, problems, folder.add, threads or len(os.sched_getaffinity(0)), progress)
    else:
        from clickbandit.experiments.cluster import run_on_cluster

        run_on_cluster(cluster, folder.plan, units, folder.add, progress)


def _run_here(
    units: Sequence[Unit], problems: Mapping[Unit, Problem], keep: Keep, threads: int, progress: Progress
) -> None:
    schedule = _Schedule(units, problems)
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def work() -> None:
        try:
            while (task := schedule.next()) is not None:
                unit, compiles = task
                problem, windows = problems[unit], window_ends(unit.steps)
                if compiles:
                    Run(problem).advance(0)
                    schedule.compiled(unit)
                outcome = simulate_run(unit.run, problem, unit.seed, windows, progress, schedule.stopped)
                if outcome is not None:
                    keep(unit, outcome)  # here: Ctrl-C interrupts the main thread alone, and never this
            ended.put(None)
        except BaseException as error:
            ended.put(error)

    workers = [Thread(target=work, daemon=True) for _ in range(threads)]
    try:
        for worker in workers:
            worker.start()
        for _ in workers:
            error = ended.get()
            if error is not None:
                raise error
    finally:
        schedule.stop()
        for worker in workers:
            worker.join()


class _Schedule:
    """Which unit comes next, so that no thread waits for the compiler while there is something else to run.

    Units of the same kind (policy, click model, ..) run the same code. The first of a kind compiles it; numba
    compiles in one thread at a time, and twice if two ask for the same, so only one unit compiles at a time, and
    the others of its kind wait. All that are ready are run in their order.
    """

    def __init__(self, units: Sequence[Unit], problems: Mapping[Unit, Problem]) -> None:
        self.stopped = Event()
        self._problems = problems
        self._changed = Condition()
        self._ready: list[tuple[int, Unit]] = []
        self._waiting: dict[_Kind, deque[tuple[int, Unit]]] = {}
        self._compiling = False
        for number, unit in enumerate(units):
            self._waiting.setdefault(self._kind(unit), deque()).append((number, unit))

    def _kind(self, unit: Unit) -> _Kind:
        problem = self._problems[unit]
        policy = problem.policy
        return problem.leaps, policy.module.__name__, type(policy), type(problem.model), problem.flip > 0

    def next(self) -> tuple[Unit, bool] | None:
        """A unit, and whether its code must be compiled first; None when there is nothing more to do."""
        with self._changed:
            while not self.stopped.is_set():
                if self._waiting and not self._compiling:
                    self._compiling = True
                    # what leaps comes last: it takes longest to compile, and next to no time to run
                    kind = min(self._waiting, key=lambda kind: (kind[0], self._waiting[kind][0][0]))
                    return self._waiting[kind].popleft()[1], True
                if self._ready:
                    return heappop(self._ready)[1], False
                if not self._compiling:
                    return None
                self._changed.wait()
            return None

    def compiled(self, unit: Unit) -> None:
        """The units of this kind are ready to run."""
        with self._changed:
            self._compiling = False
            for entry in self._waiting.pop(self._kind(unit)):
                heappush(self._ready, entry)
            self._changed.notify_all()

    def stop(self) -> None:
        """Give out nothing more, and stop what is running at its next look."""
        self.stopped.set()
        with self._changed:
            self._changed.notify_all()
