"""The commands `reproduce` and `report`: what they print, write and refuse, and that they go on after any end."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from clickbandit import cli, load_queries, logs
from clickbandit.experiments import discussion, paper
from clickbandit.experiments import run as engine
from clickbandit.logs import generate_log

Run = Callable[..., tuple[int, str, str]]
ATTRACTION = [0.5, 0.4, 0.2, 0.1]
MODELS = {"CM": {"attraction": ATTRACTION}, "PBM": {"attraction": ATTRACTION[::-1], "examination": [1, 0.5]}}
QUERIES = {
    "format": "clickbandit/queries",
    "version": 1,
    "queries": [{"query": name, "items": list("abcd"), "models": MODELS} for name in ("shoes", "pasta")],
}
ON_QUERIES = ("reproduce", "--queries", "queries.json", "--positions", 2)
CHEAP = (*ON_QUERIES, "--policies", "random,ranked-exp3")
SMALL = ("--steps", 500, "--runs", 2, "--out", "out")
TINY = (*CHEAP, *SMALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "queries.json").write_text(json.dumps(QUERIES))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command; its exit code, and what it printed on both channels."""

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["clickbandit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (int(ended.value.code or 0), *capsys.readouterr())

    return command


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log and a discussion that are soon done with."""
    tiny = discussion.Discussion(steps=600, runs=2, shares=(1, 0.25), items=(3, 4), gap=0.2, method="step")
    scale = paper.Scale(steps=200, runs=2, top_queries=3, method="step", discussion=tiny)
    monkeypatch.setitem(paper.SCALES, "quick", scale)
    monkeypatch.setattr(paper, "SESSIONS", 2000)


def test_everything_without_an_argument(run: Run, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log is generated, click models are learned, the paper's policies are run, and all of it is drawn."""
    code, out, err = run("reproduce")
    assert (code, err) == (0, "")
    assert out.startswith("4 policies on CM, PBM of 3 queries: 48 runs of 200 steps, and the discussion")
    for name in paper.POLICIES:
        assert name in out
    for sentence in ("CascadeKL-UCB has less regret", "Theorem 1", "Hoeffding bounds", "Without elimination"):
        assert sentence in out
    assert "What is not shown here needs --scale paper." in out
    assert out.splitlines()[-1] == "report: reproduction-quick/report.html"
    folder = Path("reproduction-quick")
    table = pq.read_table(folder / "results.parquet")
    assert table.column_names == ["policy", "model", "query", "run", "step", "regret", "clicks"]
    assert table.num_rows == 48 * 100
    queries = load_queries(folder / "queries.json")
    assert [(len(query.items), list(query.models)) for query in queries] == [(10, ["CM", "PBM"])] * 3
    assert table["query"].unique().to_pylist() == [query.query for query in queries]
    assert (folder / "report.html").stat().st_size > 10_000
    assert (folder / "log.tsv.gz").exists()
    discussed = pq.read_table(folder / "discussion" / "results.parquet")
    assert discussed["query"].unique().to_pylist() == [
        "examination 1",
        "examination 0.25",
        "items 3",
        "items 4",
    ]

    before = (folder / "results.parquet").read_bytes()
    (folder / "report.html").unlink()
    code, again, err = run("report", folder)
    assert (code, err) == (0, "")
    assert again == out.partition("\n")[2]
    assert (folder / "report.html").exists()
    for name in ("paper.learn_queries", "run.simulate_run"):  # everything is there
        monkeypatch.setattr(f"clickbandit.experiments.{name}", lambda *_, **__: pytest.fail("again"))
    code, again, _ = run("reproduce")
    assert (code, again) == (0, out)
    assert (folder / "results.parquet").read_bytes() == before


def test_a_log_that_is_given(run: Run, folder: Path) -> None:
    generate_log(
        load_queries("queries.json"), folder / "a.tsv", model="PBM", sessions=500, positions=2, format="csv"
    )
    text = (folder / "a.tsv").read_text()
    (folder / "a.tsv").write_text(text.replace("query", "term", 1))
    log = ("reproduce", "--log", "a.tsv", "--columns", "query=term", "--top-queries", 1, "--items", 3)
    tiny = ("--positions", 2, "--policies", "random", "--steps", 500, "--runs", 1, "--out", "out")
    with open("a.tsv", "a") as file:
        file.write("nonsense\n" * 10)
    code, out, err = run(*log, *tiny)
    assert code == 0
    assert "random" in out
    assert "warning: 10 of 510 lines (2.0%) were dropped: for example" in err
    (query,) = load_queries("out/queries.json")
    assert len(query.items) == 3
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["settings"]["input"]["log"] == [f"a.tsv, {os.path.getsize('a.tsv')} bytes"]
    assert manifest["settings"]["input"]["columns"] == "Columns(query='term')"
    with open("a.tsv", "a") as file:
        file.write("nonsense\n")
    code, _, err = run(*log, *tiny)
    assert code == 2
    assert "holds the results of another experiment (log: expected a.tsv, " in err


def test_the_same_numbers_as_simulating(run: Run) -> None:
    code, _, _ = run(*TINY)
    assert code == 0
    run(
        *("simulate", "--queries", "queries.json", "--positions", 2, "--steps", 500, "--runs", 2),
        *("--policy", "random", "--policy", "ranked-exp3", "--out", "simulated.parquet"),
    )
    ours, theirs = (
        pq.read_table(name).sort_by(
            [(column, "ascending") for column in ("policy", "model", "query", "run", "step")]
        )
        for name in ("out/results.parquet", "simulated.parquet")
    )
    assert ours.equals(theirs)


def test_killed_in_the_middle_the_same_command_goes_on(run: Run, folder: Path) -> None:
    options = ("--models", "CM", "--steps", "3e5", "--runs", 6)
    code, printed, _ = run(*CHEAP, *options, "--out", "whole")
    assert code == 0
    command = [sys.executable, "-m", "clickbandit", *map(str, (*CHEAP, *options, "--out", "killed"))]
    process = subprocess.Popen(command)
    log = folder / "killed" / "runs.log"
    while process.poll() is None and (not log.exists() or log.read_bytes().count(b"\n") < 4):
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it must be killed before it ends"
    assert not (folder / "killed" / "results.parquet").exists()
    code, out, err = run("report", "killed")
    assert code == 2
    assert "is not finished" in err
    assert "of 24 runs are missing: resume it with the command that began it" in err
    code, out, err = run(*CHEAP, *options, "--out", "killed")
    assert code == 0
    assert out.replace("killed", "whole") == printed
    assert pq.read_table("killed/results.parquet").equals(pq.read_table("whole/results.parquet"))


def test_ctrl_c_says_how_to_go_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_run, done = engine.simulate_run, []

    def interrupted(*arguments: Any) -> Any:
        done.append(simulate_run(*arguments))
        if len(done) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
        return done[-1]

    monkeypatch.setattr(engine, "simulate_run", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # test runners may ignore it
    try:
        code, _, err = run(*TINY, "--threads", 1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == 130
    assert err.endswith("stopped; 3 of 16 runs are done, and the same command resumes from there\n")
    code, _, _ = run(*TINY)
    assert code == 0
    assert len(done) == 16


def stopping(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def again(*_: object, **__: object) -> None:
    pytest.fail("again")


@pytest.fixture(params=["generated", "given"])
def on_a_log(request: pytest.FixtureRequest, folder: Path, small: None) -> tuple[object, ...]:
    """Learns from a log, which is generated or given."""
    size = ("--top-queries", 2, "--items", 3, "--positions", 2, "--policies", "random")
    log = ("--log", "a.csv") if request.param == "given" else ()
    if log:
        queries = load_queries("queries.json")
        generate_log(queries, folder / "a.csv", model="PBM", sessions=500, positions=2, format="csv")
    return ("reproduce", *size, *log, *SMALL)


def test_what_is_counted_is_not_counted_again(
    run: Run, on_a_log: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(paper, "learn_queries", stopping)
        code, out, err = run(*on_a_log)
    sentence = "the log is counted, but nothing was run yet, and the same command resumes from there"
    assert (code, out, err) == (130, "", f"clickbandit: stopped; {sentence}\n")
    with monkeypatch.context() as patched:
        patched.setattr(logs.Counts, "load", stopping)
        assert run(*on_a_log) == (130, "", f"clickbandit: stopped; {sentence}\n")
    with monkeypatch.context() as patched:
        for name in ("write_realistic_log", "count_log"):
            patched.setattr(f"clickbandit.logs.{name}", again)
        assert run(*on_a_log)[0] == 0
    names = {path.name for path in Path("out").iterdir()}
    assert not any("before" in name for name in names)
    assert ("log.tsv.gz" in names) == ("--log" not in on_a_log)
    assert run(*on_a_log, "--out", "whole")[0] == 0
    assert Path("out/queries.json").read_text() == Path("whole/queries.json").read_text()


def test_what_is_counted_anew(
    run: Run, on_a_log: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After --restart, and if the log is another by now."""
    counted = []
    count_log = logs.count_log
    monkeypatch.setattr(logs, "count_log", lambda *log, **how: counted.append(log) or count_log(*log, **how))
    monkeypatch.setattr(paper, "learn_queries", stopping)
    run(*on_a_log)
    run(*on_a_log)
    assert len(counted) == 1
    _, _, err = run(*on_a_log, "--restart")
    assert len(counted) == 2
    assert err.endswith("the log is counted, but nothing was run yet, and the same command starts again\n")
    log = Path("a.csv") if "--log" in on_a_log else next(Path("out").glob(".before*gz"))
    os.utime(log, (1, 1))
    run(*on_a_log)
    assert len(counted) == 3


def test_half_a_log_cannot_be_kept(
    run: Run, on_a_log: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new folder in which nothing is kept is not left behind."""
    with monkeypatch.context() as patched:
        patched.setattr(logs, "count_log", stopping)
        code, _, err = run(*on_a_log)
    is_given = "--log" in on_a_log
    kept = "was not read to its end" if is_given else "is generated, but not counted yet"
    then = "reads it from its start" if is_given else "resumes from there"
    assert (code, err) == (130, f"clickbandit: stopped; the log {kept}, and the same command {then}\n")
    assert Path("out").exists() != is_given
    if not is_given:
        monkeypatch.setattr(logs, "write_realistic_log", again)
    assert run(*on_a_log)[0] == 0


def test_stopped_while_a_log_is_generated(run: Run, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "write_realistic_log", stopping)
    code, _, err = run("reproduce", "--out", "out")
    assert (code, err) == (
        130,
        "clickbandit: stopped; nothing was run yet, and the same command starts again\n",
    )
    assert not Path("out").exists()


def test_another_log_is_refused_before_it_is_counted(
    run: Run, on_a_log: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*on_a_log)
    for name in ("write_realistic_log", "count_log"):
        monkeypatch.setattr(logs, name, again)
    code, _, err = run(*on_a_log, "--items", 4)
    assert (code, err.count("\n")) == (2, 1)
    assert "out holds the results of another experiment (items: expected 4, found 3): give another" in err


def test_what_is_damaged_is_run_again(run: Run) -> None:
    run(*TINY)
    whole = pq.read_table("out/results.parquet")
    log = Path("out/runs.log")
    log.write_bytes(log.read_bytes()[:-100])
    code, _, err = run("report", "out")
    assert code == 2
    assert "out is not finished: 1 of 16 runs is missing (1 damaged): resume it with the command" in err
    code, _, err = run(*TINY)
    assert (code, err) == (0, "1 damaged result in out will be run again\n")
    assert pq.read_table("out/results.parquet").equals(whole)


def test_another_experiment_needs_another_folder_or_a_restart(run: Run) -> None:
    run(*TINY)
    code, _, err = run(*TINY, "--seed", 2, "--runs", 3)
    assert code == 2
    assert (
        "out holds the results of another experiment (runs: expected 3, found 2; seed: expected 2, found 1"
        in err
    )
    assert "--restart" in err
    before = pq.read_table("out/results.parquet")
    code, _, _ = run(*TINY, "--seed", 2, "--restart")
    assert code == 0
    assert not pq.read_table("out/results.parquet").equals(before)


def test_one_of_each(run: Run) -> None:
    one = {**QUERIES, "queries": QUERIES["queries"][:1]}  # type: ignore[index]
    Path("queries.json").write_text(json.dumps(one))
    code, out, _ = run(*ON_QUERIES, *SMALL, "--policies", "random", "--models", "CM", "--runs", 1)
    assert code == 0
    assert out.startswith("1 policy on CM of 1 query: 1 run of 500 steps, in out\n")
    page = Path("out/report.html").read_text()
    assert "There is 1 query, not 60" in page
    assert not re.search(r"[^0-9.,]1 (policies|queries|runs|times|models|experiments)\b", out + page)


def test_policies_have_commas_of_their_own(run: Run) -> None:
    policies = ("--policy", "cascade-kl-ucb:feedback=last,budget=log t,random", "--policies", "random")
    code, _, _ = run(*ON_QUERIES, *SMALL, *policies, "--models", "pbm", "--runs", 1)
    assert code == 0
    table = pq.read_table("out/results.parquet")
    assert table["policy"].unique().to_pylist() == ["cascade-kl-ucb:feedback=last,budget=log t", "random"]
    assert table["model"].unique().to_pylist() == ["PBM"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--scale", "papper"], "there is no scale 'papper': did you mean paper?"),
        (["--steps", "many"], "expected a whole number such as 1000000 or 1e6, found 'many'"),
        (["--steps", "3"], "at least 5 steps are needed, found 3"),
        (["--runs", "0"], "--runs must be at least 1, found 0"),
        (["--threads", "0"], "--threads must be at least 1, found 0"),
        (["--policies", "batchrang"], "there is no policy 'batchrang': did you mean batchrank?"),
        (["--policies", ","], "expected policies, comma-separated if there are several"),
        (["--policies", "batchrank:bounds=x,random"], "bounds must be kl or hoeffding"),
        (["--models", "CM,PMB"], "there is no click model 'PMB': did you mean PBM?"),
        (["--models", "DBN"], "query shoes has no model DBN: it has CM, PBM"),
        (["--positions", "5"], "5 positions need as many items"),
        (["--log", "x"], "do not go with --queries"),
        (["--items", "5"], "do not go with --queries"),
        (["--queries", "nowhere.json"], "nowhere.json cannot be read"),
        (["--out", "."], "neither empty nor a folder of results: there is queries.json in it"),
        (["--out", "queries.json"], "queries.json cannot be written"),
        (["--cluster", "nonsense://x"], "no Dask scheduler answers at nonsense://x"),
    ],
)
def test_bad_input_is_one_sentence(run: Run, arguments: list[str], sentence: str) -> None:
    code, _, err = run(*TINY, *arguments)
    assert code == 2
    assert sentence in err
    assert err.startswith("clickbandit: ")
    assert err.count("\n") == 1
    assert not Path("out/runs.log").exists() or not Path("out/runs.log").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["report", "nowhere"], "nowhere holds no results: there is no manifest.json in it"),
        (["reproduce", "--format", "csv"], "--columns and what goes with them are for a --log"),
        (["reproduce", "--columns", "query=q"], "--columns and what goes with them are for a --log"),
        (["reproduce", "--log", "none.tsv"], "there is none at none.tsv"),
    ],
)
def test_other_bad_input(run: Run, arguments: list[str], sentence: str) -> None:
    code, _, err = run(*arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert sentence in err
