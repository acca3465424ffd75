"""An experiment on the workers of a Dask cluster comes to the numbers of a run here, also when a worker dies."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

from clickbandit import CascadeModel, InputError, PositionBasedModel, Query, cli, save_queries
from clickbandit import cluster as way_to_cluster
from clickbandit.experiments import cluster as on_cluster
from clickbandit.experiments.folder import Folder
from clickbandit.experiments.plan import Conditions, Plan, grid
from clickbandit.experiments.run import run

MODELS = {"CM": CascadeModel([0.5, 0.4, 0.2, 0.1]), "PBM": PositionBasedModel([0.2, 0.4, 0.6, 0.1], [1, 0.5])}
QUERIES = [Query(name, list("abcd"), MODELS) for name in ("x", "y")]
OPTIONS: dict[str, Any] = {"runs": 6, "steps": 30_000, "positions": 2, "seed": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A scheduler with two workers that are processes of their own."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
    ) as made:
        yield made


def table(path: Path, plan: Plan, **options: Any) -> Any:
    with Folder.open(path, plan) as folder:
        run(folder, **options)
        return folder.finish()


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan(QUERIES, grid(["random", "ranked-exp3"], QUERIES, ["CM", "PBM"], Conditions(**OPTIONS)))


@pytest.fixture(scope="module")
def here(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return table(tmp_path_factory.mktemp("here"), plan)


def test_results_are_those_of_a_run_here(
    cluster: LocalCluster, plan: Plan, here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_cluster, "_AT_ONCE", 5)  # so that units are handed out bit by bit
    steps: list[int] = []
    there = table(tmp_path, plan, cluster=cluster.scheduler_address, progress=steps.append)
    assert there.equals(here)
    assert sum(steps) == plan.steps


def test_users_who_change_are_the_same_there(cluster: LocalCluster, tmp_path: Path) -> None:
    size: dict[str, Any] = {**OPTIONS, "runs": 1, "drift": [5000, 20_000], "delay": 7, "flip": 0.1}
    plan = Plan(QUERIES, grid(["ranked-exp3"], QUERIES, ["CM", "PBM"], Conditions(**size)))
    there = table(tmp_path / "there", plan, cluster=cluster.scheduler_address)
    assert there.equals(table(tmp_path / "here", plan))


def test_what_was_begun_here_is_finished_there(
    cluster: LocalCluster, plan: Plan, here: Any, tmp_path: Path
) -> None:
    class Enough(Exception):
        pass

    done = 0

    def progress(steps: int) -> None:
        nonlocal done
        done += steps
        if done > plan.steps / 3:
            raise Enough

    with pytest.raises(Enough), Folder.open(tmp_path, plan) as folder:
        run(folder, progress=progress)
    steps: list[int] = []
    assert table(tmp_path, plan, cluster=cluster.scheduler_address, progress=steps.append).equals(here)
    assert 0 < sum(steps) < plan.steps


def test_the_units_of_a_worker_that_dies_are_run_again(
    cluster: LocalCluster, plan: Plan, here: Any, tmp_path: Path
) -> None:
    with Client(cluster, set_as_default=False) as client:
        pids = client.run(os.getpid)
    killed: list[int] = []

    def kill_one(steps: int) -> None:
        if not killed:
            killed.append(next(iter(pids.values())))
            os.kill(killed[0], signal.SIGKILL)

    there = table(tmp_path, plan, cluster=cluster.scheduler_address, progress=kill_one)
    assert killed
    assert there.equals(here)


def test_a_policy_of_the_users_own(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the workers are in another folder
    example = Path(__file__).parents[2] / "examples" / "my_policy.py"
    Path("mine.py").write_text(example.read_text())
    units = grid(["mine.py:EpsilonGreedy:epsilon=0.2"], QUERIES, ["CM"], Conditions(**{**OPTIONS, "runs": 2}))
    plan = Plan(QUERIES, units)
    there = table(tmp_path / "there", plan, cluster=cluster.scheduler_address)
    assert there.equals(table(tmp_path / "here", plan))


def test_workers_with_other_code_are_refused(
    cluster: LocalCluster, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {**on_cluster.versions(), "numpy": "0.1"}
    monkeypatch.setattr(on_cluster, "versions", lambda: expected)
    with pytest.raises(
        InputError, match=r"different results: numpy is .* there and 0.1 here: install the same"
    ):
        table(tmp_path, plan, cluster=cluster.scheduler_address)


def test_what_goes_wrong_on_a_worker_is_told_here(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy file that is here and not there."""
    monkeypatch.chdir(tmp_path)
    example = Path(__file__).parents[2] / "examples" / "my_policy.py"
    Path("mine.py").write_text(example.read_text())
    plan = Plan(QUERIES, grid(["mine.py:EpsilonGreedy"], QUERIES, ["CM"], Conditions(**OPTIONS)))
    _ = plan.problems
    monkeypatch.setattr(on_cluster, "_anywhere", lambda policy: f"elsewhere/{policy}")
    with pytest.raises(InputError, match=r"the policy file elsewhere/mine\.py does not exist"):
        table(tmp_path / "out", plan, cluster=cluster.scheduler_address)


def test_a_cluster_that_is_not_there_gets_a_sentence(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(way_to_cluster, "CONNECTING", 0.2)
    with pytest.raises(InputError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9"):
        table(tmp_path, plan, cluster="tcp://127.0.0.1:9")


def test_the_command_writes_the_same_with_and_without_a_cluster(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save_queries("queries.json", QUERIES)
    options = [
        "--queries",
        "queries.json",
        "--positions",
        "2",
        "--policies",
        "random",
        "--steps",
        "3000",
        "--runs",
        "2",
    ]
    written = []
    for folder, more in (("here", []), ("there", ["--cluster", cluster.scheduler_address])):
        monkeypatch.setattr(sys, "argv", ["clickbandit", "reproduce", *options, "--out", folder, *more])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
        written.append((Path(folder) / "results.parquet").read_bytes())
        assert f"report: {folder}/report.html" in capsys.readouterr().out
    assert written[0] == written[1]
