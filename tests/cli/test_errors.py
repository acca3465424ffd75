"""Bad input of commands: one clear sentence with exit code 2, and nothing is lost."""

import json

import pytest

from clickbandit import cli

SIMULATE = ("simulate", "--queries", "queries.json", "--positions", 2, "--steps", 1000, "--runs", 2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--policy", "batchrang"], "there is no policy 'batchrang': did you mean batchrank?"),
        (["--policy", "batchrank:varient=x"], "there is no setting 'varient': did you mean variant?"),
        (["--policy", "batchrank:variant=x"], "variant must be printed or experiment, not 'x'"),
        (["--policy", "batchrank:eliminate=maybe"], "eliminate must be true or false, not 'maybe'"),
        (["--policy", "batchrank:eliminate"], "expected key=value"),
        (["--policy", "random:x=1"], "there is no setting 'x': it has none"),
        (["--policy", "none.py:Policy"], "none.py does not exist"),
        (["--policy", "broken.py:Policy"], "broken.py cannot be imported"),
        (["--policy", "empty.py:Policy"], "empty.py has no class Policy"),
        (["--positions", "5"], "5 positions need as many items"),
        (["--positions", "4", "--model", "PBM"], "4 positions need as many values by position"),
        (["--positions", "0"], "positions must be at least 1"),
        (["--steps", "4"], "at least 5 steps are needed, found 4"),
        (["--steps", "many"], "expected a whole number such as 1000000 or 1e6, found 'many'"),
        (["--steps", "1.5"], "expected a whole number"),
        (["--steps", "0"], "must be at least 1"),
        (["--steps", "-5"], "must be at least 1"),
        (["--runs", "0"], "must be at least 1"),
        (["--delay", "-1"], "delay must be"),
        (["--method", "jump"], "method must be auto, step or leap, found 'jump'"),
        (["--policy", "random", "--method", "leap"], "random cannot leap: use method step"),
        (["--threads", "0"], "threads must be at least 1"),
        (["--query", "shoe"], "there is no query 'shoe': did you mean shoes?"),
        (["--model", "DBN"], "query shoes has no model DBN: it has CM, PBM"),
        (["--model", "PMB"], "there is no click model 'PMB': did you mean PBM?"),
        (["--model", "dbn"], "query shoes has no model DBN: it has CM, PBM"),
        (["--policy", "mine.py"], "say which class of the file, as mine.py:MyPolicy"),
        (["--policy", "empty.py:Polisy"], "has no class Polisy"),
        (["--out", "x", "--report", "x"], "must be different, found x twice"),
        (["--steps", "1e30"], "at most 1,000,000,000,000,000"),
        (["--steps", "3", "--horizon", "10"], "at least 5 steps are needed"),
        (["--horizon", "0"], "at least 5 steps are needed, found 0"),
        (["--delay", "100000000000"], "leaves no feedback within 1,000 steps"),
        (["--queries", "nowhere.json"], "nowhere.json cannot be read"),
        (["--queries", "broken.py"], "broken.py is not JSON"),
        (["--out", "nowhere/results.parquet"], "nowhere/results.parquet cannot be written"),
        (["--out", "."], "is neither empty nor a folder of results"),
        (["--out", "folder.parquet", "--force"], "folder.parquet is a folder"),
        (["--report", "queries.json"], "queries.json exists"),
    ],
)
def test_bad_input_is_one_sentence(run, folder, arguments, sentence):
    (folder / "broken.py").write_text("1 / 0")
    (folder / "empty.py").write_text("")
    (folder / "folder.parquet").mkdir()
    before = sorted(folder.iterdir())
    code, out, err = run(*SIMULATE, *arguments)
    assert code == 2
    assert sentence in err
    assert err.startswith("clickbandit: ")
    assert err.count("\n") == 1
    assert out == ""
    assert sorted(path for path in folder.iterdir() if path.name != "__pycache__") == before


MISTAKES = {
    "an array made in a kernel": (
        "    explore = rng.random()",
        "    extra = np.zeros(3)\n    explore = extra[0] + rng.random()",
    ),
    "a list as state": ("return State(", "return list("),
    "an unknown field": ("len(state.items) - k", "len(state.itms) - k"),
    "an item twice": ("        ranking[k] = state.items[k]", "        ranking[k] = 3"),
    "an item that is not there": ("        ranking[k] = state.items[k]", "        ranking[k] = 100000 + k"),
    "a forgotten setting": ("horizon: int, epsilon: float)", "horizon: int)"),
    "a setting without a default": ("    epsilon: float = 0.1", "    epsilon: float"),
    "no update": ("def update(", "def updat("),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_users_policy_is_one_sentence(run, folder, mistake):
    from pathlib import Path

    text = (Path(__file__).parents[2] / "examples" / "my_policy.py").read_text()
    right, wrong = MISTAKES[mistake]
    assert right in text
    (folder / "my-policy.2.py").write_text(text.replace(right, wrong))
    code, _, err = run(*SIMULATE, "--policy", "my-policy.2.py:EpsilonGreedy")
    assert code == 2, err
    assert err.startswith("clickbandit: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_files_of_the_same_name_are_different_policies(run, folder):
    from pathlib import Path

    text = (Path(__file__).parents[2] / "examples" / "my_policy.py").read_text()
    for name, direction in (("a", ">"), ("b", "<")):
        (folder / name).mkdir()
        changed = text.replace("state.clicks[state.items[i]] >", f"state.clicks[state.items[i]] {direction}")
        (folder / name / "p.py").write_text(changed)
    policies = ("--policy", "a/p.py:EpsilonGreedy", "--policy", "b/p.py:EpsilonGreedy")
    _, out, _ = run(*SIMULATE, "--model", "CM", "--query", "shoes", *policies, "--json")
    good, bad = (row["regret"]["mean"] for row in json.loads(out)["results"])
    assert good < bad / 2


def test_what_is_named_twice_is_run_once(run):
    twice = ("--model", "PBM", "--model", "pbm", "--query", "pasta", "--query", "pasta")
    _, out, _ = run(*SIMULATE, *twice, "--policy", "random", "--policy", "random", "--json")
    assert len(json.loads(out)["results"]) == 1


def test_the_terminal_and_the_page_show_the_same_interval(run, folder):
    code, out, _ = run(*SIMULATE, "--policy", "random", "--model", "PBM", "--report", "report.html")
    assert code == 0
    row = next(line.split() for line in out.splitlines() if line.split()[:1] == ["PBM"])
    assert " ".join(row[3:6]) in (folder / "report.html").read_text()


def test_a_path_in_a_folder_that_may_not_be_written(run, folder, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cli._shared.tempfile, "mkstemp", refuse)
    code, _, err = run(*SIMULATE, "--out", "results.parquet")
    assert (code, err) == (2, "clickbandit: results.parquet cannot be written: Permission denied\n")
