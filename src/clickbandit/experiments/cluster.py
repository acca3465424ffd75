"""Jobs on a Dask cluster: each worker runs one at a time on each of its threads, and only numbers travel.

A job has random streams of its own, so it does not matter who runs it, or that it is run again because a worker
was lost: the numbers are those of a run here, bit for bit. Workers need the same package and no files, but for
those of the user's own policies, which must be there under the same path.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Event, Lock
from typing import Any

from clickbandit.click_models.base import ClickModel
from clickbandit.cluster import connected, result_of, wait_for_worker
from clickbandit.errors import InputError
from clickbandit.experiments.plan import Job, Keep, Unit, problem_of
from clickbandit.experiments.versions import versions
from clickbandit.simulation.outcome import Outcome, Progress, simulate_run, window_ends
from clickbandit.simulation.run import Run

_AT_ONCE = 1000  # units that the scheduler knows of: enough for all workers, and few enough to be quick
_compiling = Lock()


def run_on_cluster(address: str, jobs: Sequence[Job], keep: Keep, progress: Progress) -> None:
    """Run jobs on the workers of the Dask scheduler at an address, and keep each as soon as it is finished."""
    with connected(address) as client:
        from distributed import as_completed

        waiting = iter(enumerate(jobs))
        running: dict[str, int] = {}

        def submit(n: int) -> list[Any]:
            futures = []
            for number, (unit, problem) in islice(waiting, n):
                # not pure: a unit of the same name may have been run with other code
                there = replace(unit, policy=_anywhere(unit.policy))
                futures.append(client.submit(_run_unit, there, problem.model, versions(), pure=False))
                running[futures[-1].key] = number
            return futures

        arriving = as_completed(submit(_AT_ONCE), loop=client.loop)
        wait_for_worker(client, address)
        for future in arriving:
            number = running.pop(future.key)
            unit = jobs[number].unit
            keep(number, result_of(future, f"{unit.policy} on {unit.model} of {unit.query}"))
            future.release()
            progress(unit.steps)
            arriving.update(submit(1))


def _anywhere(policy: str) -> str:
    """The spelling of a policy of the user's own with the whole path of its file: workers have folders of their own."""
    file, is_file, rest = policy.partition(".py:")
    return f"{Path(file).absolute()}.py:{rest}" if is_file else policy


def _run_unit(unit: Unit, users: ClickModel, expected: dict[str, str]) -> Outcome | None:
    """One unit: what a worker does."""
    here = versions()
    told = [
        f"{name} is {here[name]} there and {expected[name]} here"
        for name in ("clickbandit", "code", "numpy", "numba")
        if here[name] != expected[name]
    ]
    if told:
        raise InputError(
            f"a worker would compute different results: {', '.join(told)}: install the same on all"
        )
    problem = _problem(unit.first, users)
    with _compiling:  # a worker's threads must not compile the same code twice; compiled, this takes no time
        if not problem.is_compiled:
            Run(problem).advance(0)
    windows = window_ends(unit.steps)
    return simulate_run(
        unit.run, problem, unit.seed, windows, lambda steps: None, Event(), unit.until_settled
    )


@lru_cache(maxsize=10_000)
def _problem(unit: Unit, users: ClickModel) -> Any:
    return problem_of(unit, users)
