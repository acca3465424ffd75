"""Settings: one name for a keyword argument, an option, an environment variable and a key in a file."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clickbandit import InputError
from clickbandit.cli import app, main
from clickbandit.cli import serve as command
from clickbandit.live import AsyncRanker, Ranker
from clickbandit.live.http import server
from clickbandit.live.settings import (
    RankerSettings,
    ServiceSettings,
    options,
    read_settings,
    variable,
)

DOCS = Path(__file__).parents[2] / "docs/live.md"


@pytest.fixture
def served(monkeypatch):
    """What `clickbandit serve` would serve with."""
    found = []
    monkeypatch.setattr(server, "serve", found.append)
    monkeypatch.setattr("clickbandit.live.http.log.set_up", lambda: None)

    def run(*arguments, **environment):
        result = CliRunner().invoke(app, ["serve", *arguments], env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return found.pop()

    return run


def test_every_setting_is_a_keyword_an_option_and_a_variable(served):
    """Of each a value that is not the default, given in every way."""
    other = {
        **{int: "7", float: "0.5", str: "x", bool: "true", "TIME": "3h"},
        **{
            "positions": "7",
            "log_requests": "false",
            "store": "postgresql://x",
            "policy": "random",
            "holdout_by": "user",
            "prior": "scores",
            "rewards": "purchase=2",
        },
    }
    needs = {"max_reward": {"rewards": "x=1"}, "conversion_window": {"rewards": "x=1"}}
    for option in options():
        text = other.get(option.name, other[option.kind])
        beside = {"store": "postgresql://x", **needs.get(option.name, {})}
        variables = {f"CLICKBANDIT_{name.upper()}": value for name, value in beside.items()}
        expected = read_settings({**beside, option.name: text})
        assert getattr(expected, option.name) != option.default, option.name
        flag = f"--{'no-' if text == 'false' else ''}{option.name.replace('_', '-')}"
        given = [flag] if option.kind is bool else [flag, text]
        assert served(*given, **variables) == expected
        assert served(**{**variables, f"CLICKBANDIT_{option.name.upper()}": text}) == expected
    keywords = inspect.signature(Ranker).parameters
    assert keywords == inspect.signature(AsyncRanker).parameters
    assert list(keywords) == ["store", *inspect.signature(RankerSettings).parameters]
    assert {option.name for option in options()} | {"clock"} == set(
        inspect.signature(ServiceSettings).parameters
    )


def test_option_then_environment_then_file_then_default(served, tmp_path):
    file = tmp_path / "shop.toml"
    file.write_text("positions = 2\nhorizon = 1e5\nwindow = 90\nseed = 3\nlog_queries = true\nholdout = 0\n")
    settings = served(
        *("--config", str(file), "--positions", "4"), CLICKBANDIT_POSITIONS="3", CLICKBANDIT_SEED="5"
    )
    assert (settings.positions, settings.seed, settings.horizon) == (4, 5, 100_000)
    assert (settings.window_ms, settings.log_queries, settings.patience) == (90_000, True, "2s")
    assert served(CLICKBANDIT_CONFIG=str(file)).positions == 2
    assert served("--no-log-queries", "--config", str(file)).log_queries is False
    assert served() == ServiceSettings()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("postions = 3", "there is no setting 'postions': did you mean positions?"),
        ("clock = 3", "there is no setting 'clock'"),
        ("[ranker]\npositions = 3", "there is no setting 'ranker'"),
        ("positions = 'three'", "positions must be a whole number such as 1000 or 1e6, found 'three'"),
        ("positions = 2.5", "positions must be a whole number such as 1000 or 1e6, found 2.5"),
        ("positions = true", "positions must be a whole number such as 1000 or 1e6, found True"),
        ("positions = 51", "positions must be a whole number from 1 to 50, found 51"),
        ("horizon = inf", "horizon must be a whole number"),
        ("holdout = 2", "holdout must be a share from 0 to 1, found 2.0"),
        ("rate = [1]", "rate must be a number, found [1]"),
        ("insecure = 1", "insecure must be true or false, found 1"),
        ("host = 1", "host must be text, found 1"),
        ("window = 'soon'", "window must be seconds or text"),
        ("port = 70000", "port must be from 0 to 65535, found 70000"),
        ("positions = ", "must be TOML"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path, text, says):
    file = tmp_path / "shop.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(says)):
        read_settings({}, file)


def test_wrong_settings_end_the_command_with_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("shop.toml").write_text("postions = 3\n")
    for arguments in (["--config", "shop.toml"], ["--config", "none.toml"], ["--grace", "0"]):
        monkeypatch.setattr(sys, "argv", ["clickbandit", "serve", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert (ended.value.code, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith("clickbandit: ")


def test_the_former_name_of_a_keyword_is_taken(folder):
    with pytest.warns(DeprecationWarning, match="most_queries is now called max_queries"):
        ranker = Ranker(f"sqlite:///{folder}/clicks.db", policy="random", most_queries=1)
    with ranker:
        ranker.rank("one", ["A"])
        with pytest.raises(InputError, match="max_queries"):
            ranker.reset("two")
    with pytest.raises(TypeError, match="unexpected keyword argument 'postions'"):
        Ranker(f"sqlite:///{folder}/clicks.db", postions=3)


def test_the_docs_describe_every_setting():
    rows = ["| setting | default | |", "|---|---|---|"]
    for option in options():
        default = "none" if option.default is None else f"`{json.dumps(option.default).strip(chr(34))}`"
        rows.append(f"| `{option.name}` | {default} | {option.text} |")
    assert "\n".join(rows) in DOCS.read_text(encoding="utf-8"), "\n".join(rows)
    assert variable("store") in DOCS.read_text(encoding="utf-8")
    assert command.serve.__doc__ is not None


def test_a_ranker_needs_no_extra(folder):
    """Embedded it works without the packages of the service."""
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['msgspec', 'uvloop', 'httptools', 'prometheus_client', 'psycopg']))\n"
        "from clickbandit.live import Ranker\n"
        f"with Ranker('sqlite:///{folder}/clicks.db', policy='random') as ranker:\n"
        "    ranker.settle(ranker.rank('shoes', ['A', 'B']).id)\n"
        "    print(ranker.stats().settled, ranker.query('shoes').summary.pending)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "1 0\n", done.stderr
