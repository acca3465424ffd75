"""Results that were written before are read, drawn and resumed, and the same command gives the same numbers."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clickbandit import cli
from clickbandit.experiments import manifest
from clickbandit.experiments.results import load_results

DATA = Path(__file__).parent / "data"
BEFORE = DATA / "streams-1"
"""What was written when each policy still had users of its own."""
COMPARE = (
    *("compare", "--queries", "queries.json", "--positions", 2, "--policies", "batchrank,random"),
    *("--steps", 1000, "--runs", 2, "--drift", 400, "--flip", 0.05, "--delay", 3, "--out", "comparison"),
)
SIMULATE = (
    *("simulate", "--queries", "queries.json", "--positions", 2, "--policy", "batchrank"),
    *("--policy", "ranked-exp3", "--model", "CM", "--model", "PBM", "--steps", "1e5", "--runs", 2),
    *("--seed", 3, "--out", "simulated.parquet"),
)
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command that succeeds, and gives what it printed."""
    shutil.copy(DATA / "queries.json", tmp_path)
    monkeypatch.chdir(tmp_path)

    def command(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["clickbandit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert not ended.value.code, err
        return str(out)

    return command


def numbers(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata(None)


@pytest.mark.parametrize("data", [DATA, BEFORE])
def test_a_comparison_is_drawn(run: Run, data: Path) -> None:
    shutil.copytree(data / "comparison", "comparison")
    before = load_results("comparison")
    out = run("report", "comparison")
    assert "Best overall: batchrank" in out
    assert Path("comparison/report.html").stat().st_size > 100_000
    assert before.table.equals(pq.read_table("comparison/results.parquet"))


def test_a_comparison_comes_to_the_same_numbers(run: Run) -> None:
    run(*COMPARE)
    assert load_results("comparison").table.equals(load_results(DATA / "comparison").table)
    ours, theirs = (
        json.loads((folder / "manifest.json").read_text())
        for folder in (Path("comparison"), DATA / "comparison")
    )
    assert ours | {"versions": None} == theirs | {"versions": None}


def test_a_comparison_is_resumed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the code were the same: results of other code are refused."""
    shutil.copytree(DATA / "comparison", "comparison")
    log = Path("comparison/runs.log")
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:5]))
    versions = json.loads(Path("comparison/manifest.json").read_text())["versions"]
    monkeypatch.setattr(manifest, "versions", lambda: versions)
    run(*COMPARE)
    assert load_results("comparison").table.equals(load_results(DATA / "comparison").table)


def test_runs_of_other_streams_are_not_continued(run: Run) -> None:
    """What was run before all policies met the same users, and items were numbered by chance."""
    shutil.copytree(BEFORE / "comparison", "comparison")
    before = load_results("comparison").table
    with pytest.raises(AssertionError) as refused:
        run(*COMPARE)
    assert str(refused.value).splitlines()[0] == (
        "clickbandit: comparison holds runs whose random numbers were drawn in another way (streams 1, now 2), which "
        "new runs must not be mixed with: give another folder, or start over with --restart, which discards them"
    )
    assert load_results("comparison").table.equals(before)
    run(*COMPARE, "--restart")
    assert load_results("comparison").table.equals(load_results(DATA / "comparison").table)


@pytest.mark.parametrize("data", [DATA, BEFORE])
def test_a_table_is_drawn(run: Run, data: Path) -> None:
    shutil.copy(data / "simulated.parquet", ".")
    out = run("report", "simulated.parquet")
    assert out.splitlines()[-1] == "report: simulated.html"
    assert "ranked-exp3" in out
    assert "RankedExp3" in Path("simulated.html").read_text()


def test_simulating_comes_to_the_same_numbers(run: Run) -> None:
    run(*SIMULATE)
    assert numbers(pq.read_table("simulated.parquet")).equals(
        numbers(pq.read_table(DATA / "simulated.parquet"))
    )
