"""Commands run in a folder with a file of queries."""

import json
import sys

import pytest

from clickbandit import cli

QUERIES = {
    "format": "clickbandit/queries",
    "version": 1,
    "queries": [
        {
            "query": name,
            "items": ["a", "b", "c", "d"],
            "models": {
                "CM": {"attraction": [0.5, 0.4, 0.2, 0.1]},
                "PBM": {"attraction": [0.2, 0.4, 0.6, 0.1], "examination": [1, 0.5, 0.3]},
            },
        }
        for name in ("shoes", "pasta")
    ],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "queries.json").write_text(json.dumps(QUERIES))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Runs a command; its exit code, and what it printed on both channels."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["clickbandit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (ended.value.code or 0, *capsys.readouterr())

    return command
