"""An experiment is run to its end whatever happens in between: threads, Ctrl-C, kill -9, damaged files."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clickbandit import CascadeModel, InputError, PositionBasedModel, Query, simulate
from clickbandit.experiments import run as engine
from clickbandit.experiments.folder import Folder
from clickbandit.experiments.plan import Conditions, Plan, grid
from clickbandit.experiments.results import load_results
from clickbandit.experiments.run import run
from clickbandit.simulation.run import Problem

CM = CascadeModel([0.5, 0.4, 0.2, 0.1])
PBM = PositionBasedModel([0.2, 0.4, 0.6, 0.1], [1, 0.5, 0.3])
QUERIES = [Query(name, list("abcd"), {"CM": CM, "PBM": PBM}) for name in ("shoes", "pasta")]
POLICIES = ("random", "ranked-exp3")


def plan(**changes: object) -> Plan:
    options = {"runs": 3, "steps": 2000, "positions": 2, "seed": 1, **changes}
    return Plan(
        QUERIES, grid(POLICIES, QUERIES, ["CM", "PBM"], Conditions(**options)), {"made": "for a test"}
    )


def result(folder: Path, **options: object) -> pa.Table:
    with Folder.open(folder, plan()) as opened:
        run(opened, **options)
        return opened.finish()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    return result(tmp_path_factory.mktemp("undisturbed"))


def test_results_are_those_of_simulating_each_by_itself(undisturbed: pa.Table, tmp_path: Path) -> None:
    assert undisturbed.column_names == ["policy", "model", "query", "run", "step", "regret", "clicks"]
    assert undisturbed.num_rows == 2 * 2 * 2 * 3 * 100
    expected = [
        simulate(policy, users, positions=2, steps=2000, runs=3, seed=1, query=query.query).to_table()
        for users in (CM, PBM)
        for query in QUERIES
        for policy in POLICIES
    ]
    assert undisturbed.equals(pa.concat_tables(expected).combine_chunks())


@pytest.mark.parametrize("threads", [1, 5])
def test_threads_do_not_change_the_results(undisturbed: pa.Table, tmp_path: Path, threads: int) -> None:
    assert result(tmp_path, threads=threads).equals(undisturbed)
    assert pq.read_table(tmp_path / "results.parquet").equals(undisturbed)
    assert load_results(tmp_path).table.equals(undisturbed)


def test_a_finished_experiment_is_not_run_again(
    undisturbed: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result(tmp_path)
    before = (tmp_path / "runs.log").read_bytes()
    monkeypatch.setattr(engine, "simulate_run", lambda *arguments: pytest.fail("ran again"))
    assert result(tmp_path).equals(undisturbed)
    assert (tmp_path / "runs.log").read_bytes() == before


def test_ctrl_c_keeps_what_is_finished(undisturbed: pa.Table, tmp_path: Path) -> None:
    done = 0

    def progress(steps: int) -> None:
        nonlocal done
        done += steps
        if done == 5 * 2000 + 20:  # in the sixth run
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)

    threads = set(threading.enumerate())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # test runners may ignore it
    try:
        with pytest.raises(KeyboardInterrupt), Folder.open(tmp_path, plan()) as folder:
            run(folder, threads=1, progress=progress)
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(
        InputError, match="is not finished: 19 of 24 runs are missing: resume it with the command"
    ):
        load_results(tmp_path)
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)
        assert not thread.is_alive(), "its threads must end"
    steps = []
    assert result(tmp_path, progress=steps.append).equals(undisturbed)
    assert sum(steps) == 19 * 2000


def test_an_error_in_a_run_ends_all_and_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_run = engine.simulate_run

    def failing(number: int, problem: object, *arguments: object) -> object:
        if number == 1:
            raise RuntimeError("broken")
        return simulate_run(number, problem, *arguments)

    monkeypatch.setattr(engine, "simulate_run", failing)
    with Folder.open(tmp_path, plan()) as folder:
        with pytest.raises(RuntimeError, match="broken"):
            run(folder, threads=2)
        assert 1 <= len(folder.finished) <= 8


SCRIPT = """
import sys
from clickbandit.experiments.folder import Folder
from clickbandit.experiments.run import run
from clickbandit.simulation.run import Problem
sys.path.insert(0, {tests!r})
from test_run import plan
with Folder.open({folder!r}, plan(steps=400_000, runs=4)) as folder:
    run(folder, threads=2)
"""


def test_killed_in_the_middle_it_goes_on_with_the_same_numbers(tmp_path: Path) -> None:
    script = SCRIPT.format(tests=str(Path(__file__).parent), folder=str(tmp_path / "killed"))
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)])
    log = tmp_path / "killed" / "runs.log"
    while process.poll() is None and (not log.exists() or log.read_bytes().count(b"\n") < 3):
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it must be killed before it ends"
    there = plan(steps=400_000, runs=4)
    with Folder.open(tmp_path / "killed", there) as folder:
        left = len(folder.unfinished)
        run(folder)
        killed = folder.finish()
    with Folder.open(tmp_path / "whole", there) as folder:
        run(folder)
        whole = folder.finish()
    assert 0 < left <= len(there.units) - 3
    assert killed.equals(whole)


def test_the_same_code_is_compiled_by_one_thread_only(
    undisturbed: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one kind of unit compiles, those of other kinds run."""
    compiling: list[str] = []
    most = meanwhile = 0
    ran_meanwhile = threading.Event()

    class SlowRun(engine.Run):
        def advance(self, steps: int) -> tuple[float, int]:
            nonlocal most
            compiling.append(str(self.problem.policy))
            most = max(most, len(compiling))
            if len(set(compiled)) == 1:
                assert ran_meanwhile.wait(20), "the other thread must run what is compiled"
            compiled.append(f"{self.problem.policy} {self.problem.model.name}")
            compiling.pop()
            return super().advance(steps)

    compiled: list[str] = []
    monkeypatch.setattr(engine, "Run", SlowRun)
    monkeypatch.setattr(engine.Problem, "is_compiled", False)  # as at the first use

    def progress(steps: int) -> None:
        nonlocal meanwhile
        meanwhile += steps if len(compiled) == 1 and compiling else 0
        if meanwhile > 2 * 2000:  # more than the unit that its thread had compiled for
            ran_meanwhile.set()

    assert result(tmp_path, threads=4, progress=progress).equals(undisturbed)
    assert most == 1
    assert sorted(compiled) == ["random CM", "random PBM", "ranked-exp3 CM", "ranked-exp3 PBM"]


def test_few_steps_are_not_compiled_and_come_out_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit: a folder may be resumed with few steps to go."""
    found, make_loop = [], Problem.make_loop

    def watched(problem: Problem, *, compiled: bool) -> object:
        seen.append(compiled)
        return make_loop(problem, compiled=compiled)

    monkeypatch.setattr(Problem, "make_loop", watched)
    for least in (2 * 1000, 2 * 1000 + 1):
        seen: list[bool] = []
        monkeypatch.setattr(engine, "MIN_STEPS_TO_COMPILE", least)
        traces = simulate(["ranked-exp3", "cts"], CM, positions=2, steps=1000, runs=2, seed=1)
        found.append((set(seen), [(trace.regret.tolist(), trace.final_lists) for trace in traces]))
    (first, results), (second, same) = found
    assert (first, second) == ({True}, {False})
    assert results == same


def test_runs_that_differ_in_one_setting_are_apart(tmp_path: Path) -> None:
    tables = []
    for i, changes in enumerate(
        ({}, {"seed": 2}, {"delay": 7}, {"horizon": 10_000}, {"drift": (500,)}, {"flip": 0.1})
    ):
        with Folder.open(tmp_path / str(i), plan(runs=1, **changes)) as folder:
            run(folder)
            tables.append(np.asarray(folder.finish()["regret"]))
    for i in range(len(tables)):
        for j in range(i):
            assert not np.array_equal(tables[i], tables[j])
