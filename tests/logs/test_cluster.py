"""A log counted by the workers of a Dask cluster is the log counted here, also when a worker dies."""

import builtins
import gzip
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from distributed import Client, LocalCluster

from clickbandit import cli
from clickbandit import cluster as way_to_cluster
from clickbandit.click_models.dbn import DynamicBayesianModel
from clickbandit.errors import InputError
from clickbandit.logs import count_log, fit, generate_log
from clickbandit.queries import Query

LAW = DynamicBayesianModel([0.7, 0.5, 0.3, 0.2], [0.3, 0.5, 0.2, 0.6], 0.9)
QUERIES = [Query(name, [f"{name}{i}" for i in range(4)], {"DBN": LAW}) for name in ("x", "y")]
N_FILES = 5


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A scheduler with two workers that are processes of their own."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
    ) as made:
        yield made


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log in several files, one packed, one with a line that is none, one empty."""
    folder = tmp_path_factory.mktemp("log")
    for part in range(N_FILES):
        generate_log(QUERIES, folder / f"{part}.tsv", model="DBN", sessions=400, seed=part)
    text = (folder / "1.tsv").read_bytes()
    (folder / "1.tsv").write_bytes(gzip.compress(text))
    (folder / "2.tsv").write_text("nonsense\n" + (folder / "2.tsv").read_text())
    (folder / "9.tsv").write_text("")
    return folder


def test_counts_and_fits_are_those_of_counting_here(cluster: LocalCluster, log: Path) -> None:
    steps: list[tuple[int, int]] = []
    there = count_log(
        log / "*.tsv",
        "yandex-relpred",
        cluster=cluster.scheduler_address,
        progress=lambda *n: steps.append(n),
    )
    here = count_log(log / "*.tsv", "yandex-relpred")
    assert there.table.equals(here.table)
    assert there.pairs.equals(here.pairs)
    assert there.reading == here.reading
    assert there.reading.odd == {"malformed lines": 1, "files without a session": 1}
    for ours, theirs in zip((*here.cells, *here.endings), (*there.cells, *there.endings), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for model in ("CM", "PBM", "DCM", "SDBN", "DBN", "CCM", "UBM"):
        ours, theirs = (fit(counts, model, iterations=10).parameters for counts in (here, there))
        for name in ours:
            np.testing.assert_allclose(theirs[name], ours[name], rtol=0, atol=1e-12)
    n_bytes = sum(path.stat().st_size for path in log.glob("*.tsv"))
    assert [sum(column) for column in zip(*steps, strict=True)] == [n_bytes, 400 * N_FILES]


def test_the_command_prints_the_same_with_and_without_a_cluster(
    cluster: LocalCluster, log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []
    for more in ([], ["--cluster", cluster.scheduler_address]):
        monkeypatch.setattr(
            sys,
            "argv",
            [
                "clickbandit",
                "fit",
                f"{log}/*.tsv",
                "--format",
                "yandex-relpred",
                "--models",
                "CM",
                "--json",
                *more,
            ],
        )
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
        printed.append(json.loads(capsys.readouterr().out))
        del printed[-1]["models"][0]["seconds"]
    assert printed[0] == printed[1]


def test_the_files_of_a_worker_that_dies_are_counted_again(cluster: LocalCluster, log: Path) -> None:
    with Client(cluster, set_as_default=False) as client:
        pids = client.run(os.getpid)
    killed: list[int] = []

    def kill_one(n_bytes: int, sessions: int) -> None:
        if not killed:
            killed.append(next(iter(pids.values())))
            os.kill(killed[0], signal.SIGKILL)

    there = count_log(log / "*.tsv", "yandex-relpred", cluster=cluster.scheduler_address, progress=kill_one)
    assert killed
    assert there.table.equals(count_log(log / "*.tsv", "yandex-relpred").table)


def test_counts_by_item_and_saved_counts(cluster: LocalCluster, tmp_path: Path) -> None:
    text = "query,item,position,impressions,clicks\nq,a,1,{},1\nq,b,2,3,1\n"
    for part in (1, 2):
        (tmp_path / f"{part}.csv").write_text(text.format(part))
    address = cluster.scheduler_address
    there, here = (count_log(tmp_path / "*.csv", "counts", cluster=at) for at in (address, None))
    assert there.table.equals(here.table)
    assert (there.n_sessions, there.reading) == (here.n_sessions, here.reading)
    here.save(tmp_path / "saved.parquet")
    assert count_log(tmp_path / "saved.parquet", cluster=address).table.equals(here.table)


def test_what_goes_wrong_on_a_worker_is_told_here(
    cluster: LocalCluster, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = cluster.scheduler_address
    with pytest.raises(InputError, match=r"2.tsv:1: malformed line"):
        count_log(log / "*.tsv", "yandex-relpred", cluster=address, strict=True)
    (tmp_path / "empty").write_text("")
    with pytest.raises(InputError, match="no usable session"):
        count_log(tmp_path / "empty", "yandex-relpred", cluster=address)
    with pytest.raises(InputError, match="found a data frame"):
        count_log(pandas.DataFrame({"query": []}), cluster=address)
    gone = tmp_path / "gone" / "log.tsv"
    gone.parent.mkdir()
    shutil.copy(log / "0.tsv", gone)
    absolute = Path.absolute
    monkeypatch.setattr(Path, "absolute", lambda path: absolute(path).with_suffix(".elsewhere"))
    with pytest.raises(InputError, match="put logs where all workers can read them"):
        count_log(gone, "yandex-relpred", cluster=address)


def test_a_cluster_that_is_not_there_gets_a_sentence(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way_to_cluster, "CONNECTING", 0.2)
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        with pytest.raises(InputError, match=f"no Dask scheduler answers at {address}"):
            count_log(log / "0.tsv", cluster=address)


def test_a_cluster_without_workers_gets_a_sentence(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way_to_cluster, "PATIENCE", 0.2)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        pytest.raises(InputError, match="has no workers"),
    ):
        count_log(log / "0.tsv", cluster=empty.scheduler_address)


def test_without_dask_it_says_what_to_install(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importing = builtins.__import__

    def without_dask(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "distributed":
            raise ModuleNotFoundError(name)
        return importing(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_dask)
    with pytest.raises(InputError, match=r"pip install 'clickbandit\[cluster\]'"):
        count_log(log / "0.tsv", cluster="tcp://127.0.0.1:9")
