"""What is installed: the core works without the extras and says which one is missing; wheel and sdist are complete."""

import os
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import clickbandit
from clickbandit import extras
from clickbandit.extras import _EXTRAS
from lowest import lowest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BROUGHT = {
    name: {requirement.partition(">")[0].replace("-", "_") for requirement in requirements}
    for name, requirements in PROJECT["project"]["optional-dependencies"].items()
}

BARE = f"""
import sys
sys.modules.update(dict.fromkeys({sorted(_EXTRAS)!r}))  # importing any of these fails as if it were not installed
import clickbandit
from clickbandit import BatchRank, load_queries, simulate
from clickbandit.cli import main
from clickbandit.live import Ranker

def sentence(do):
    try:
        do()
    except ImportError as error:
        print(type(error).__name__, error)

def run(*words):
    sys.argv = ["clickbandit", *words]
    try:
        main()
    except SystemExit as end:
        return end.code

query = load_queries("example")[0]
trace = simulate(BatchRank(), query.models["PBM"], positions=3, steps=100, runs=1)
print(len(trace.final_lists[0]))
with Ranker("sqlite:///:memory:") as ranker:
    print(len(ranker.rank("q", ["a", "b", "c"], positions=2).items))
print(run("policies"), run("check", "example", "--model", "CM", "--query", "pasta recipe", "--positions", "2"))
sentence(trace.to_table)
sentence(trace.plot)
sentence(lambda: clickbandit.count_log)
sentence(lambda: clickbandit.live.Client)
print(run("simulate", "--queries", "example"), run("fit", "log.tsv"), run("serve"), run("demo"))
"""


def test_the_core_works_without_extras_and_says_which_is_missing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BARE],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    lines = done.stdout.splitlines()
    assert lines[:2] == ["3", "2"], done.stderr
    assert "0 0" in lines
    told = [line.partition(": pip install ")[2] for line in lines if line.startswith("MissingExtra")]
    assert told == ["'clickbandit[report]'"] * 2 + ["'clickbandit[logs]'", "'clickbandit[live]'"]
    assert lines[-1] == "2 2 2 2"
    errors = done.stderr.splitlines()
    assert [line.rpartition("[")[2] for line in errors] == ["report]'", "logs]'", "live]'", "live]'"]
    assert all(line.startswith("clickbandit: this needs ") for line in errors)


@pytest.mark.parametrize(("package", "extra"), _EXTRAS.items())
def test_the_extra_that_is_named_brings_the_package(package, extra):
    assert any(brought.startswith(package) for brought in BROUGHT[extra])


def tracked(*patterns: str) -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of the project's files")
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True)
    return listed.stdout.split()


def test_a_package_that_does_not_fit_the_others_is_no_traceback(monkeypatch):
    """pip installs the newest pyarrow beside the oldest NumPy that we take, and it refuses to be imported."""

    def refuse(name):
        raise ImportError("pyarrow requires NumPy 2.0 or newer, found 1.26.0")

    monkeypatch.setattr(extras.importlib, "import_module", refuse)
    with pytest.raises(
        extras.MissingExtra, match=r"^pyarrow is installed, but cannot be imported: pyarrow req"
    ):
        extras.pq  # noqa: B018


def test_every_package_has_a_lowest_version():
    constraints = dict(line.split("==") for line in lowest())
    needs = {re.match(r"[\w-]+", need)[0] for need in PROJECT["project"]["dependencies"]}
    needs |= {
        name.replace("_", "-") for extra in ("logs", "report", "live", "cluster") for name in BROUGHT[extra]
    }
    assert set(constraints) == needs | {"psycopg", "pandas"}
    assert constraints["numpy"] == "1.26"


def test_the_wheel_has_every_file_of_the_package():
    given = PROJECT["tool"]["setuptools"]["package-data"]["clickbandit"]
    files = [name.removeprefix("src/clickbandit/") for name in tracked("src/clickbandit")]
    assert len(files) > 200
    left_out = [
        name for name in files if not name.endswith(".py") and not any(fnmatch(name, data) for data in given)
    ]
    assert left_out == []


def test_the_sdist_has_every_file_of_the_project():
    lines = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    grafted = [line.split()[1] for line in lines if line.startswith("graft ")]
    included = [pattern for line in lines if line.startswith("include ") for pattern in line.split()[1:]]
    by_itself = ["src", "pyproject.toml", "LICENSE", "README.md", "MANIFEST.in", ".gitignore"]
    left_out = [
        name
        for name in tracked()
        if name.partition("/")[0] not in (*grafted, *by_itself)
        and not any(fnmatch(name, pattern) for pattern in included)
    ]
    assert left_out == []


def test_the_citation_is_of_this_version_and_that_of_the_command(capsys):
    from clickbandit.cli.cite import cite

    cite()
    printed = " ".join(capsys.readouterr().out.split())
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {clickbandit.__version__}" in lines
    titles = [
        line.partition("title: ")[2].strip('"') for line in lines if line.lstrip().startswith("title: ")
    ]
    assert len(titles) == 2
    names = [line.split("family-names: ")[1].split(",")[0] for line in lines if "family-names" in line]
    assert [text for text in (*titles, *names, f"{{{clickbandit.__version__}}}") if text not in printed] == []
