"""What someone sees in the first minute: a greeting, help without types, tables that fit, JSON for programs."""

import inspect
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.main import get_command

from clickbandit import cli, terminal
from clickbandit.cli._shared import PANELS, app
from clickbandit.report.pages import comparison

COMMANDS = get_command(app).commands


def test_alone_it_says_what_to_do_next(run):
    code, out, _ = run()
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    named = re.findall(r"^  clickbandit (\w+)", out, re.M)
    assert len(named) >= 5
    assert set(named) <= set(COMMANDS)


def test_help_has_every_command_once_under_a_heading(run):
    code, out, _ = run("--help")
    assert code == 0
    assert sorted(name for names in PANELS.values() for name in names) == sorted(COMMANDS)
    assert all(heading in out for heading in PANELS)


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_names_no_types(run, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(*([command] if command else []), "--help")
    assert code == 0
    assert re.findall(r"<[a-z]\w*|\b(?:TEXT|INTEGER|FLOAT|BOOLEAN)\b", out) == []
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_what_prints_a_table_prints_json_too(name):
    module = inspect.getmodule(COMMANDS[name].callback)
    source = inspect.getsource(COMMANDS[name].callback)
    if re.search(r"print_\w+\(|show\(|draw_\w+\(|_print_rows\(|redraw", source):
        assert any("--json" in option.opts for option in COMMANDS[name].params), module


def test_the_same_option_has_the_same_names_everywhere():
    names: dict[str, set[frozenset[str]]] = {}
    for command in COMMANDS.values():
        for option in command.params:
            for text in option.opts:
                names.setdefault(text, set()).add(frozenset(option.opts))
    different = {text for text, found in names.items() if len(found) > 1}
    assert different <= {"--model", "--models", "--policy"}  # where a command takes one, or one and several


@pytest.mark.parametrize("width", [60, 80, 200])
def test_tables_fit_and_break_no_word(width, monkeypatch):
    rows = [
        {
            "model": "PBM",
            "policy": "cascade-kl-ucb:feedback=last",
            **{f"column number {i}": f"{10**i:,} to {10**i + 1:,}" for i in range(6)},
            "idea": "shows the items with the highest upper confidence bounds, and learns from clicks",
        }
    ]
    screen = io.StringIO()
    console = Console(file=screen, width=width, force_terminal=True, color_system=None, highlight=False)
    monkeypatch.setattr(terminal, "_console", lambda: console)
    terminal.print_table(rows, keys=2)
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    shown = set(" ".join(lines).split())
    assert {word for row in rows for pair in row.items() for text in pair for word in text.split()} <= shown
    tables = sum("policy" in line for line in lines)
    assert (tables == 1) == (width == 200)


def test_without_colour_nothing_is_bold():
    code = "from rich.console import Console; from clickbandit import terminal;"
    code += "terminal._console = lambda: Console(force_terminal=True, highlight=False);"
    code += "terminal.print_table([{'policy': 'x'}])"
    for no_colour, bold in (("", True), ("1", False)):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={"NO_COLOR": no_colour, "TERM": "xterm"},
        )
        assert ("\x1b[1m" in done.stdout) == bold, done.stderr


def test_results_as_json(run, folder, monkeypatch):
    monkeypatch.setattr(comparison, "write_comparison", lambda where, results: [Path(where, "report.html")])
    code, out, err = run(
        *("compare", "--queries", "queries.json", "--policy", "random,given", "--model", "CM"),
        *("--steps", 100, "--runs", 2, "--positions", 2, "--out", "here", "--json"),
    )
    assert code == 0, err
    data = json.loads(out)
    assert [(row["model"], row["policy"], row["runs"]) for row in data["results"]] == [
        ("CM", "random", 2),
        ("CM", "given", 2),
    ]
    assert all(
        row["regret"]["low"] <= row["regret"]["mean"] <= row["regret"]["high"] for row in data["results"]
    )
    assert {one["policy"] for one in data["overall"]} == {"random", "given"}
    assert data["report"] == "here/report.html"


def test_shells_complete_commands(monkeypatch, capsys):
    for name, value in {
        "_CLICKBANDIT_COMPLETE": "complete_bash",
        "COMP_WORDS": "clickbandit rep",
        "COMP_CWORD": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["clickbandit"])
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().out.split() == ["reproduce", "report"]
