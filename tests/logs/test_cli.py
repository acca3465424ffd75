"""The commands for logs: what they print and write, and one sentence with exit code 2 for bad input."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from clickbandit import cli
from clickbandit.click_models.dbn import DynamicBayesianModel
from clickbandit.logs import Counts
from clickbandit.queries import Query, load_queries, save_queries

Run = Callable[..., tuple[int, str, str]]
LAW = DynamicBayesianModel([0.7, 0.5, 0.3, 0.2], [0.3, 0.5, 0.2, 0.6], 0.9)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in a folder with queries and a log; its exit code and what it printed on both channels."""
    monkeypatch.chdir(tmp_path)
    queries = [Query(name, [f"{name}{i}" for i in range(4)], {"DBN": LAW}) for name in ("x", "y", "z")]
    save_queries("true.json", queries)

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["clickbandit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (int(ended.value.code or 0), *capsys.readouterr())

    code, out, _ = command(
        "generate", "true.json", "--model", "DBN", "--sessions", "3e3", "--out", "log.tsv.gz"
    )
    assert (code, out) == (0, "written: log.tsv.gz\n")
    return command


def test_from_a_log_to_queries_and_their_evaluation(run: Run) -> None:
    code, out, _ = run(
        "fit", "*.tsv.gz", "--format", "yandex-relpred", "--models", "CM,PBM,DBN", "--iterations", 20,
        "--top-queries", 2, "--items", 3, "--out", "fitted.json", "--table", "items.parquet",
    )  # fmt: skip
    assert code == 0
    assert "3 queries, 12 items; 3,000 sessions" in out
    assert [line.split()[0] for line in out.splitlines() if line.startswith((" CM", " PBM", " DBN"))]
    fitted = load_queries("fitted.json")
    assert [(query.query, len(query.items), list(query.models)) for query in fitted] == [
        ("x", 3, ["CM", "PBM", "DBN"]),
        ("y", 3, ["CM", "PBM", "DBN"]),
    ]
    table = pq.read_table("items.parquet")
    assert table.num_rows == 36
    assert {"model", "query", "item", "impressions", "attraction_error"} <= set(table.column_names)
    code, out, _ = run("evaluate", "fitted.json", "--log", "log.tsv.gz", "--figure", "perplexity.svg")
    assert code == 0
    assert "DBN fits best on 3,000 sessions" in out
    assert "<svg" in Path("perplexity.svg").read_text()


def test_json(run: Run) -> None:
    code, out, _ = run(
        "fit", "log.tsv.gz", "--models", "cm, PBM", "--iterations", 3, "--out", "q.json", "--json"
    )
    assert code == 0
    found = json.loads(out)
    assert [row["iterations"] for row in found["models"]] == [0, 3]
    assert found["reading"]["sessions"] == 3000
    code, out, _ = run("evaluate", "q.json", "--log", "log.tsv.gz", "--format", "yandex-relpred", "--json")
    models = json.loads(out)["models"]
    assert list(models) == ["CM", "PBM"]
    assert {"log_likelihood", "perplexity", "conditional_perplexity"} <= set(models["PBM"])
    assert models["PBM"]["log_likelihood"] == pytest.approx(found["models"][1]["log_likelihood"])


def test_progress_is_in_bytes_and_sessions(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    code, _, shown = run("fit", "log.tsv.gz", "--models", "CM")
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    size = Path("log.tsv.gz").stat().st_size
    assert re.search(rf"reading .*100%\s+{size / 1000:.1f}/{size / 1000:.1f} kB\s+3k sessions", plain)


def test_click_rates_are_written_evaluated_and_generated_from_but_not_simulated(run: Run) -> None:
    assert run("fit", "log.tsv.gz", "--models", "CM,gctr,RCTR,DCTR", "--out", "q.json")[0] == 0
    assert list(load_queries("q.json")[0].models) == ["CM", "GCTR", "RCTR", "DCTR"]
    code, out, _ = run("evaluate", "q.json", "--log", "log.tsv.gz", "--json")
    assert list(json.loads(out)["models"]) == ["CM", "GCTR", "RCTR", "DCTR"]
    assert run("generate", "q.json", "--model", "RCTR", "--sessions", 50, "--out", "new.tsv")[0] == 0
    code, out, _ = run("check", "q.json", "--positions", 3, "--json")
    assert {row["model"] for row in json.loads(out)["results"]} == {"CM"}
    for command in (["check", "q.json"], ["simulate", "--queries", "q.json", "--steps", 100, "--runs", 1]):
        code, _, error = run(*command, "--positions", 3, "--model", "DCTR")
        assert code == 2
        assert "found the click rate DCTR" in error


def test_counts_are_kept_for_another_day(run: Run) -> None:
    assert run("fit", "log.tsv.gz", "--models", "CM", "--save-counts", "counts.parquet")[0] == 0
    assert Counts.load("counts.parquet").n_sessions == 3000
    code, out, _ = run("fit", "counts.parquet", "--format", "counts", "--models", "CM")
    assert code == 0
    assert "3,000 sessions" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "none.tsv"], "there is none at none.tsv"),
        (["fit", "log.tsv.gz", "--format", "csv"], "looks like yandex-relpred"),
        (["fit", "log.tsv.gz", "--models", "PBN"], "did you mean"),
        (["fit", "log.tsv.gz", "--smoothing", "1"], "--smoothing"),
        (["fit", "log.tsv.gz", "--items", "0"], "--items must be at least 1"),
        (["fit", "log.tsv.gz", "--top-queries", "-1"], "--top-queries must be at least 1"),
        (["fit", "log.tsv.gz", "--query-key", "region"], "query or query+region"),
        (["fit", "log.tsv.gz", "--compat", "clax"], "compat"),
        (["fit", "log.tsv.gz", "--memory-limit", "little"], "memory limit"),
        (["fit", "log.tsv.gz", "--out", "true.json"], "true.json exists"),
        (["fit", "log.tsv.gz", "--out", "none/queries.json"], "cannot be written"),
        (["fit", "true.json", "--format", "yandex-relpred"], "no usable session"),
        (["fit", "true.json", "--format", "yandex-relpred", "--strict"], "read without --strict"),
        (["evaluate", "true.json", "--log", "log.tsv.gz", "--figure", "figure.txt"], ".svg"),
        (["evaluate", "true.json", "--log", "log.tsv.gz", "--model", "UBM"], "has no model UBM"),
        (["generate", "true.json", "--model", "DBN", "--out", "log.tsv.gz"], "exists"),
        (["generate", "true.json", "--model", "PBM", "--out", "new.tsv"], "has no model PBM"),
    ],
)
def test_bad_input_gets_one_sentence_and_changes_nothing(
    run: Run, arguments: list[str], message: str
) -> None:
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    code, _, error = run(*arguments)
    assert code == 2
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before
