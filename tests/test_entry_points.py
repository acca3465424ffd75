"""Policies that other packages register by entry points are found like our own."""

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from clickbandit import cli, registry
from clickbandit.errors import InputError
from clickbandit.policies.base import parse_policy, policy_names, registered

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if a package with these entry points were installed; its module is an example of ours."""
    found = [
        EntryPoint(name, value, "clickbandit.policies")
        for name, value in (
            ("epsilon-greedy", "my_policy:EpsilonGreedy"),
            ("no-class", "my_policy:rank"),
            ("nowhere", "no_such_package:Policy"),
        )
    ]
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [point for point in found if point.group == group]
    )
    monkeypatch.syspath_prepend(EXAMPLES)
    vars(registered).pop("_entry_points", None)
    yield
    vars(registered).pop("_entry_points", None)
    sys.modules.pop("my_policy", None)


@pytest.mark.usefixtures("installed")
def test_it_is_found_and_spelled_by_its_name() -> None:
    assert "epsilon-greedy" in policy_names()
    policy = parse_policy("epsilon-greedy:epsilon=0.5")
    assert type(policy).__module__ == "my_policy"
    assert str(policy) == "epsilon-greedy:epsilon=0.5"
    assert not policy.built_in


@pytest.mark.usefixtures("installed")
def test_the_command_line_runs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*arguments: Any) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["clickbandit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), "".join(capsys.readouterr())

    queries = ("--queries", EXAMPLES / "queries.json", "--model", "PBM", "--positions", 2)
    code, text = command("simulate", *queries, "--policy", "epsilon-greedy", "--steps", 100, "--runs", 1)
    assert code == 0
    assert "epsilon-greedy" in text
    code, text = command("simulate", *queries, "--policy", "epsilon-gredy", "--steps", 100)
    assert code == 2
    assert "did you mean epsilon-greedy?" in " ".join(text.split())


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no-class", "entry point no-class of clickbandit.policies must name a class derived from Policy"),
        ("nowhere", "entry point nowhere of clickbandit.policies cannot be loaded: No module named"),
    ],
)
def test_what_it_names_must_be_a_policy(name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_policy(name)


def test_without_that_package_there_is_no_such_policy() -> None:
    assert "epsilon-greedy" not in policy_names()
