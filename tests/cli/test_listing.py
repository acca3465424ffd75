"""Commands that list and check, `--version` and `--help`."""

import json
import sys

import pytest

import clickbandit


def test_check_says_which_assumptions_hold(run, folder):
    queries = json.loads((folder / "queries.json").read_text())
    queries["queries"][0]["models"]["PBM"]["examination"] = [0.5, 1, 0.3]
    (folder / "queries.json").write_text(json.dumps(queries))
    code, out, _ = run("check", "queries.json", "--positions", 2, "--steps", "1e5")
    assert code == 0
    assert "shoes PBM, assumption 4: position 2 of list" in out
    rows = [line.split() for line in out.splitlines() if line.split()[1:2] in (["CM"], ["PBM"])]
    assert [row[2:8].count("no") for row in rows[:4]] == [0, 1, 0, 0]
    assert [row[8] == "none" for row in rows[:4]] == [False, True, False, False]

    _, out, _ = run("check", "queries.json", "--positions", 2, "--steps", "1e5", "--json")
    results = json.loads(out)["results"]
    assert [row["bound"] is None for row in results] == [False, True, False, False]
    assert results[1]["assumptions"][3]["lists"][0] == [0, 1]
    # 192 K^3 L log T / ((1 - 0.5) * min(0.1, 0.2)) + 4 K L (3 e + K)
    assert results[0]["bound"] == pytest.approx(192 * 8 * 4 * 11.512925 / 0.05 + 32 * 10.154845, rel=1e-6)

    code, _, err = run("check", "queries.json", "--positions", 9)
    assert (code, err.count("\n")) == (2, 1)


def test_policies_and_models_are_listed(run):
    for command, names in (
        ("policies", ["batchrank", "cascade-kl-ucb", "ranked-exp3", "random", "optimal"]),
        ("models", ["CM", "PBM", "DCM", "SDBN", "DBN", "CCM", "UBM"]),
    ):
        code, out, _ = run(command)
        assert code == 0
        assert all(name in out for name in names)
        _, out, _ = run(command, "--json")
        assert all(row["paper"] for row in json.loads(out))


def test_help_does_not_wait_for_numba(folder):
    import subprocess

    code = "import sys, clickbandit.cli; assert 'numba' not in sys.modules and 'numpy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_version(run):
    assert run("--version") == (0, f"clickbandit {clickbandit.__version__}\n", "")
