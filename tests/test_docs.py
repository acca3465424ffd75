"""What the documentation says is true: its commands and examples run, and nothing is left out."""

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from collections import Counter
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
PAGES = {
    path.name: path.read_text()
    for folder in (".", "docs", "docs/decisions")  # the code on policies' pages is that of their files
    for path in sorted((PROJECT / folder).glob("*.md"))
}
README, LIVE = PAGES["README.md"], PAGES["live.md"]
BLOCK = re.compile(
    r"^(?: *<!-- not run: (?P<why>.+) -->\n)? *```(?P<language>\w*)\n(?P<text>(?:.*\n)*?) *```$", re.M
)
RUN = {
    "README.md": {"python": 2},
    "audit.md": {"sh": 1, "python": 1},
    "fitting.md": {"sh": 3, "python": 1, "py": 1},
    "formats.md": {"json": 1},
    "live.md": {"sh": 2, "python": 3, "json": 1},
    "priors.md": {"python": 1, "sh": 2},
    "reproducing.md": {"python": 1},
}
"""How many blocks of each page the tests below run, and those of log formats the one in Python that is no program."""


def fenced(text: str, language: str, *, also_not_run: bool = False) -> list[str]:
    """The blocks of a page that are in a language; those that say why they are not run only if asked for."""
    return [
        block["text"]
        for block in BLOCK.finditer(text)
        if block["language"] == language and (also_not_run or not block["why"])
    ]


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


def test_every_block_is_run_or_says_why_not():
    found = {
        name: dict(Counter(block["language"] for block in BLOCK.finditer(text) if not block["why"]))
        for name, text in PAGES.items()
    }
    assert {name: blocks for name, blocks in found.items() if blocks} == RUN
    assert all(text.count("```") == 2 * len(BLOCK.findall(text)) for text in PAGES.values())


def test_the_readme_starts_with_two_commands_that_need_no_set_up():
    commands = fenced(README, "sh", also_not_run=True)[0].strip().splitlines()
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


@pytest.fixture
def smaller(program):
    """Runs the commands of a block, with fewer steps and sessions."""

    def run(block: str) -> list[str]:
        lines = [re.sub(r"\b1e[45]\b", "2e3", line) for line in block.strip().splitlines()]
        return [program.command(line) for line in lines]

    return run


def test_the_way_from_a_log_to_click_models(program, smaller, tmp_path):
    """What docs/fitting.md and docs/audit.md show runs as it stands, on the log that the first makes."""
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    page = PAGES["fitting.md"]
    first, saved, others = fenced(page, "sh")
    *_, printed = smaller(first)
    assert "fits best on 2,000 sessions" in printed
    (code,) = fenced(page, "python")
    printed = program(code)
    assert printed.startswith("2,000 sessions")
    assert printed.endswith("PBM\n")
    for day in ("monday", "tuesday"):
        (tmp_path / f"{day}.tsv.gz").symlink_to("log.tsv.gz")
    (tmp_path / "queries.json").unlink()
    assert "4,000 sessions" in smaller(saved)[-1]
    smaller(others)
    assert (tmp_path / "judgments.qrels").exists()
    assert (tmp_path / "bias.svg").exists()
    page = PAGES["audit.md"]
    (command,), (code,) = fenced(page, "sh"), fenced(page, "python")
    smaller(command)
    assert (tmp_path / "audit.html").exists()
    assert "Interval(" in program(code)


def test_what_is_known_from_the_start(program, smaller, tmp_path):
    """The example and the commands of docs/priors.md run as they stand."""
    page = PAGES["priors.md"]
    (tmp_path / "queries.json").symlink_to(PROJECT / "examples" / "queries.json")
    (code,) = fenced(page, "python")
    assert float(program(code)) < 100
    for block in fenced(page, "sh"):
        (printed,) = smaller(block.strip().replace("1e4", "20") + " --runs 1 --restart")
        assert "click-ts" in printed


def test_a_queries_file_by_example(tmp_path):
    (text,) = fenced(PAGES["formats.md"], "json")
    (tmp_path / "queries.json").write_text(text)
    (query,) = load_queries(tmp_path / "queries.json")
    assert set(query.models) == {"CM", "PBM"}


def test_an_experiment_from_python(program, tmp_path):
    """The example of docs/reproducing.md runs as it stands."""
    (code,) = fenced(PAGES["reproducing.md"], "python")
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
    serve, curls = fenced(LIVE, "sh")
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
    for text in PAGES.values()
    for block in fenced(text, "sh", also_not_run=True)
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
