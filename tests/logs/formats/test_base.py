"""Formats are found by their names and by what files look like, also those of other packages."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer.main

from clickbandit import cli
from clickbandit.click_models.pbm import PositionBasedModel
from clickbandit.errors import InputError
from clickbandit.logs import count_log, formats, generate_log
from clickbandit.logs.formats.base import LogFormat, format_names, format_of, log_format, registered
from clickbandit.queries import Query, load_queries, save_queries

MODULES = Path(formats.__file__).parent.glob("[!_]*.py")
BUILT_IN = sorted(module.stem.replace("_", "-") for module in MODULES if module.stem != "base")
GUIDE = (Path(__file__).parents[3] / "docs" / "fitting.md").read_text()
LOG = (
    '{"their q": "x", "shown": ["a", "b"], "clicked": ["b"]}\n'
    '{"their q": "x", "shown": ["b", "a"], "clicked": []}\n'
)


def forget_entry_points() -> None:
    vars(registered).pop("_entry_points", None)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Installs a distribution that registers the class `Theirs` of a module's text as the format `json-lines`."""
    site = tmp_path / "site"
    metadata = site / "their_logs-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-logs\nVersion: 1.0\n")

    def installed(text: str, points: str = "json-lines = their_logs:JSONLines\n") -> None:
        (site / "their_logs.py").write_text(text)
        (metadata / "entry_points.txt").write_text(f"[clickbandit.log_formats]\n{points}")
        monkeypatch.syspath_prepend(site)
        forget_entry_points()

    yield installed
    sys.modules.pop("their_logs", None)
    forget_entry_points()


@pytest.fixture
def their_format(install: Callable[[str], None]) -> str:
    """The format that the guide shows, installed; with a field of its own, as a format made from the guide may be
    among ours."""
    (text,) = re.findall(r"```py\n(.*?)```", GUIDE, flags=re.S)
    text = text.replace('"q"', '"their q"')
    install(text)
    return text


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Runs a command; its exit code and all that it printed, in one line; help is made anew, as formats come and go."""
    monkeypatch.setattr(typer.main, "get_command", inspect.unwrap(typer.main.get_command))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["clickbandit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), " ".join("".join(capsys.readouterr()).split())

    return command


def test_built_in_formats_are_the_modules_of_the_package() -> None:
    assert format_names() == BUILT_IN
    assert {"counts", "csv", "jsonl", "parquet", "ubi", "yandex-personalized", "yandex-relpred"} <= set(
        BUILT_IN
    )
    assert {"csv", "yandex-relpred"} <= set(format_names(writable=True)) < set(BUILT_IN)
    for name in BUILT_IN:
        assert registered.name_of(type(log_format(name))) == name
        assert type(log_format(name)).__doc__


def test_help_names_the_formats(run: Callable[..., tuple[int, str]]) -> None:
    for command in ("fit", "evaluate", "reproduce"):
        assert f"format: {', '.join(BUILT_IN)}." in run(command, "--help")[1]
    assert f"format: {', '.join(format_names(writable=True))}." in run("generate", "--help")[1]


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_guide_says_what_a_format_looks_like(name: str) -> None:
    assert re.search(rf"^\|[^|]*`{name}`", GUIDE, flags=re.M)


def test_a_format_of_another_package_is_found_by_fit_and_evaluate(
    their_format: str, run: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    Path("log.jsonl").write_text(LOG)
    assert format_of(Path("log.jsonl")) == "json-lines"
    for more in ([], ["--format", "json-lines"]):
        code, printed = run("fit", "log.jsonl", "--models", "CM", "--out", "q.json", "--force", *more)
        assert code == 0
        assert "1 query, 2 items; 2 sessions, 1 click" in printed
    assert sorted(load_queries("q.json")[0].items) == ["a", "b"]
    code, printed = run("evaluate", "q.json", "--log", "log.jsonl")
    assert (code, "CM fits best on 2 sessions" in printed) == (0, True)
    assert "csv, json-lines, jsonl, parquet" in run("fit", "--help")[1]


def test_errors_name_a_format_of_another_package(
    their_format: str, run: Callable[..., tuple[int, str]]
) -> None:
    Path("log.jsonl").write_text(LOG)
    Path("story").write_text("Once upon a time\n")
    save_queries("q.json", [Query("x", ["a", "b"], {"PBM": PositionBasedModel([0.5, 0.5], [1, 1])})])
    for command in (["fit"], ["evaluate", "q.json", "--log"]):
        assert "did you mean json-lines?" in run(*command, "log.jsonl", "--format", "json-line")[1]
        assert "is not csv: it looks like json-lines" in run(*command, "log.jsonl", "--format", "csv")[1]
        code, printed = run(*command, "story")
        assert code == 2
        assert "json-lines" in format_names()
        assert (
            f"story looks like no log format: choose one with --format ({', '.join(format_names())})"
            in printed
        )
    code, printed = run("generate", "q.json", "--format", "json-lines", "--out", "new")
    assert (code, "logs cannot be generated as 'json-lines'" in printed) == (2, True)


def test_what_two_formats_recognise_is_asked_about(install: Callable[..., None], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("query,list,clicks\nq,a|b,0|1\n")
    text = "from clickbandit.logs.formats.csv import CSVFormat\nclass JSONLines(CSVFormat): pass\n"
    install(text)
    with pytest.raises(InputError, match=r"looks like csv and json-lines: choose one with --format"):
        count_log(path)
    assert count_log(path, "csv").n_sessions == count_log(path, "json-lines").n_sessions == 1
    queries = [Query("x", ["a", "b"], {"PBM": PositionBasedModel([0.5, 0.5], [1, 1])})]
    generate_log(queries, path, model="PBM", sessions=3, format="json-lines")
    assert count_log(path, "json-lines").n_sessions == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import nothing_of_that_name", "cannot be loaded: No module named"),
        ("JSONLines = 3", "must name a class derived from LogFormat, found 3"),
    ],
)
def test_a_broken_format_of_another_package_gets_a_sentence(
    install: Callable[..., None], tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("query,list,clicks\nq,a|b,0|1\n")
    install(text)
    with pytest.raises(InputError, match=f"entry point json-lines of clickbandit.log_formats {problem}"):
        count_log(path)
    assert count_log(path, "csv").n_sessions == 1  # what is asked for needs no other format


def test_a_format_must_say_how_to_recognise_and_read() -> None:
    with pytest.raises(TypeError, match="abstract"):
        LogFormat()  # type: ignore[abstract]
