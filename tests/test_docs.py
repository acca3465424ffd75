"""What the documentation says is true: its commands and examples run, and nothing is left out."""

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from clickbandit import cli, load_queries
from clickbandit.click_models.base import model_names
from clickbandit.live import Ranker, algorithm
from clickbandit.policies.base import policy_names
from live.conftest import specialise_plainly

PROJECT = Path(__file__).parents[1]
README = (PROJECT / "README.md").read_text()
FITTING = (PROJECT / "docs" / "fitting.md").read_text()
REPRODUCING = (PROJECT / "docs" / "reproducing.md").read_text()
CLUSTER = (PROJECT / "docs" / "cluster.md").read_text()
LIVE = (PROJECT / "docs" / "live.md").read_text()
WHICH = (PROJECT / "docs" / "which-policy.md").read_text()


def fenced(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.S)


@pytest.fixture
def program(tmp_path, monkeypatch, capsys):
    """Runs a program's text, or a command, in a folder of its own, and gives what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(algorithm, "specialise", specialise_plainly)

    def run(text: str) -> str:
        exec(compile(text, "<documentation>", "exec"), {"__name__": "__main__"})
        return capsys.readouterr().out

    def command(text: str) -> str:
        words = shlex.split(text)
        assert words[0] == "clickbandit"
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert not ended.value.code, err
        return out

    run.command = command
    return run


def test_the_readme_starts_with_two_commands_that_need_no_set_up():
    commands = fenced(README, "sh")[0].strip().splitlines()
    assert len(commands) == 2
    assert all(command.startswith("python3 -m venv ") for command in commands)


def test_the_readmes_examples_run(program, tmp_path):
    code, live = fenced(README, "python")
    live += "\nprint(ranker.settle(shown.id).clicked)\nranker.close()"
    assert program(live) in ("('A',)\n", "()\n")  # A is one of six that five positions show
    code = (
        code.replace("1_000_000", "500")
        + "\ntrace.plot().save('chart.svg')\ntrace.plot().save('chart.html')\n"
    )
    assert "10 runs of 500 steps" in program(code)
    assert "<svg" in (tmp_path / "chart.svg").read_text()
    assert "vega" in (tmp_path / "chart.html").read_text()


def test_the_way_from_a_log_to_click_models(program, tmp_path):
    """The first commands and the example of docs/fitting.md run as they stand."""
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    commands = fenced(FITTING, "sh")[0].strip().splitlines()
    assert len(commands) == 3
    *_, printed = (program.command(command.replace("1e5", "5e3")) for command in commands)
    assert "fits best on 5,000 sessions" in printed
    (code,) = fenced(FITTING, "python")
    printed = program(code)
    assert printed.startswith("5,000 sessions")
    assert printed.endswith("PBM\n")


def test_an_experiment_from_python(program, tmp_path):
    """The example of docs/reproducing.md runs as it stands."""
    (code,) = fenced(REPRODUCING, "python")
    (tmp_path / "queries.json").write_text((PROJECT / "examples" / "queries.json").read_text())
    code = (
        code.replace("20_000", "500")
        + "\nassert load_results('mine').table.equals(table)\nprint(table.num_rows)"
    )
    assert program(code) == f"{2 * 3 * 3 * 100}\n"


def test_rankers_in_a_program(program):
    """The first two examples of docs/live.md run as they stand, one after the other."""
    threads, loop, _ = fenced(LIVE, "python")
    for code, says in ((threads, "accepted duplicate 1"), (loop, "accepted")):
        lines = [line for line in program(code).splitlines() if not line.startswith("(")]
        assert " ".join(lines) == says


def test_the_service_by_example(tmp_path):
    """The commands of docs/live.md are answered as it says, its client works, and the metrics it names are there.

    As plain Python: so few lists need not wait for a compiler, and compiled services have tests of their own.
    """
    serve, curls = fenced(LIVE, "sh")[:2]
    command = shlex.split(serve.splitlines()[1], comments=True)
    with subprocess.Popen(
        [sys.executable, "-m", *command, "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            here = re.search(r"http://\S+", process.stdout.readline())[0]
            answers = [curl(line.replace("http://127.0.0.1:8000", here)) for line in curls.splitlines()]
            code = fenced(LIVE, "python")[2].replace("http://127.0.0.1:8000", here)
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            backup = re.search(r"sqlite3 clicks.db \"(.*?)\"", LIVE)[1]
            with closing(sqlite3.connect(tmp_path / "clicks.db")) as file:
                file.execute(backup.replace("backup.db", str(tmp_path / "backup.db")))
        finally:
            process.kill()
    with Ranker(f"sqlite:///{tmp_path}/backup.db") as ranker:
        assert ranker.stats().impressions == 2
        assert ranker.verify("red shoes")
    assert done.stdout == "accepted\n", done.stderr
    shown, events, settled, query, frozen, reset = map(json.loads, answers[:-1])
    (example,) = map(json.loads, fenced(LIVE, "json"))
    assert [(name, type(value)) for name, value in shown.items()] == [
        (name, type(value)) for name, value in example.items()
    ]
    assert [item["propensity"] for item in shown["items"]] == [
        item["propensity"] for item in example["items"]
    ]
    on_list = "A" in [item["id"] for item in shown["items"]]
    assert events["results"][0]["verdict"] == ("accepted" if on_list else "invalid")
    assert settled["clicked"] == ["A"] * on_list
    assert query["summary"]["learned"] == 1
    assert (frozen["frozen"], reset["frozen"]) == (True, False)
    assert (reset["policy"], reset["positions"]) == ("toprank", 2)
    names = set(re.findall(r"clickbandit_[a-z_]+", LIVE)) - {"clickbandit_holdout_difference"}
    assert len(names) >= 5
    assert [name for name in names if name.removesuffix("_bucket") not in answers[-1]] == []


def curl(line: str) -> str:
    """What curl would print."""
    program, url, *options = shlex.split(line)
    assert program == "curl"
    body = options[1].encode() if options[:1] == ["--json"] else b"" if options == ["-X", "POST"] else None
    assert body is not None or not options
    with urlopen(Request(url, body, {"content-type": "application/json"} if body else {})) as answer:
        return answer.read().decode()


COMMANDS = [
    line
    for text in (README, FITTING, REPRODUCING, CLUSTER, LIVE, WHICH)
    for block in fenced(text, "sh")
    for line in block.splitlines()
    if line.startswith("clickbandit ")
]


@pytest.mark.parametrize("command", sorted({line.split()[1] for line in COMMANDS}))
def test_the_commands_in_the_documentation_exist(command, program):
    """Every command of the README and the guides is one, with options that it has."""
    told = program.command(f"clickbandit {command} --help")
    for line in COMMANDS:
        words = line.replace("\\", "").split("#")[0].split()
        if words[1] == command:
            assert [word for word in words if word.startswith("--") and word not in told] == [], line


def test_the_examples_queries_have_both_of_the_papers_models():
    queries = load_queries(PROJECT / "examples" / "queries.json")
    assert all(set(query.models) == {"CM", "PBM"} for query in queries)


def test_the_example_policy_keeps_the_contract():
    from clickbandit.policies.base import parse_policy
    from clickbandit.testing import check_policy

    check_policy(parse_policy(f"{PROJECT / 'examples' / 'my_policy.py'}:EpsilonGreedy"))


@pytest.mark.parametrize("name", [*policy_names(), *model_names()])
def test_every_policy_and_model_is_in_the_readme(name):
    words = json.dumps(README).lower().replace("-", "")
    assert name.lower().replace("-", "") in words


def test_nothing_in_the_project_names_a_machine():
    files = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True).stdout.split()
    for file in files:
        text = (PROJECT / file).read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"/(root|home)/\w", text), file
