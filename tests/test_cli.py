"""The command line: what it prints and writes, and one clear sentence with exit code 2 for bad input."""

import json
import sys

import pyarrow.parquet as pq
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


SIMULATE = ("simulate", "--queries", "queries.json", "--positions", 2, "--steps", 1000, "--runs", 2)


def test_simulate_writes_the_results(run, folder):
    policies = ("--policy", "batchrank", "--policy", "cascade-kl-ucb:feedback=last")
    code, out, _ = run(*SIMULATE, "--model", "PBM", *policies, "--seed", 1, "--out", "results.parquet")
    assert code == 0
    assert "cascade-kl-ucb:feedback=last" in out
    assert "results.parquet" in out
    table = pq.read_table("results.parquet")
    assert table.column_names == ["policy", "model", "query", "run", "step", "regret", "clicks"]
    assert table.num_rows == 2 * 2 * 2 * 100
    assert set(table["policy"].to_pylist()) == {"batchrank", "cascade-kl-ucb:feedback=last"}
    assert set(table["query"].to_pylist()) == {"shoes", "pasta"}
    assert list(folder.glob(".results*")) == []


def test_simulate_in_a_folder_is_resumed_and_drawn_again(run, folder):
    command = (
        *SIMULATE,
        "--policy",
        "batchrank,random",
        "--models",
        "PBM",
        "--drift",
        500,
        "--flip",
        0.1,
        "--delay",
        3,
    )
    code, out, err = run(*command, "--out", "results")
    assert (code, err) == (0, "")
    assert out.startswith("2 policies on PBM of 2 queries: 8 runs of 1,000 steps, in results\n")
    assert out.endswith("written: results\n")
    table = pq.read_table("results/results.parquet")
    assert table.num_rows == 2 * 2 * 2 * 100
    (folder / "results" / "report.html").unlink()
    code, again, _ = run("report", "results")
    assert (code, again.splitlines()[-1]) == (0, "report: results/report.html")
    assert out.splitlines()[1:-1] == again.splitlines()[:-1]
    assert "BatchRank" in (folder / "results" / "report.html").read_text()
    log = folder / "results" / "runs.log"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:3]))
    code, _, _ = run(*command, "--out", "results")
    assert code == 0
    assert log.read_bytes().splitlines(keepends=True)[:3] == lines[:3]
    assert pq.read_table("results/results.parquet").equals(table)
    code, _, err = run(*command, "--out", "results", "--seed", 2)
    assert code == 2
    assert "results holds the results of another experiment (seed: expected 2, found 1" in err
    code, _, _ = run(*command, "--out", "results", "--seed", 2, "--restart")
    assert code == 0


def test_simulate_has_the_numbers_of_compare(run):
    options = (
        "--policy",
        "random",
        "--policies",
        "batchrank",
        "--drift",
        "300,600",
        "--flip",
        0.2,
        "--delay",
        7,
    )
    assert run(*SIMULATE, *options, "--out", "simulated")[0] == 0
    assert run("compare", *SIMULATE[1:], *options, "--out", "compared")[0] == 0
    ours, theirs = (pq.read_table(f"{name}/results.parquet") for name in ("simulated", "compared"))
    assert ours.equals(theirs)


def test_a_table_is_resumed_and_drawn_again(run, folder, monkeypatch):
    from clickbandit.experiments import run as engine

    command = (*SIMULATE, "--policy", "random", "--threads", 1, "--out", "results.parquet")
    simulate_run, done = engine.simulate_run, []

    def interrupted(*arguments):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(simulate_run(*arguments))
        return done[-1]

    monkeypatch.setattr(engine, "simulate_run", interrupted)
    code, _, err = run(*command)
    assert code == 130
    assert err.endswith("stopped; 3 of 8 runs are done, and the same command resumes from there\n")
    assert not (folder / "results.parquet").exists()
    done.append(None)
    code, _, _ = run(*command)
    assert code == 0
    assert len(done) == 3 + 1 + 5
    assert sorted(path.name for path in folder.iterdir()) == ["queries.json", "results.parquet"]
    code, out, _ = run("report", "results.parquet")
    assert (code, out.splitlines()[-1]) == (0, "report: results.html")
    page = (folder / "results.html").read_text()
    assert "queries.json" in page, "how it was made"
    code, _, err = run("report", "results.parquet")
    assert (code, err) == (
        2,
        "clickbandit: results.html exists: give another path, or --force to overwrite it\n",
    )
    assert run("report", "results.parquet", "--force")[0] == 0


def test_interrupted_without_a_place_it_prints_what_is_finished(run, folder, monkeypatch):
    from clickbandit.experiments import run as engine

    simulate_run, done = engine.simulate_run, []

    def interrupted(*arguments):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(simulate_run(*arguments))
        return done[-1]

    monkeypatch.setattr(engine, "simulate_run", interrupted)
    code, out, err = run(*SIMULATE, "--policy", "random", "--threads", 1, "--json")
    assert (code, len(json.loads(out)["results"])) == (130, 3)
    assert err.endswith("3 of 8 runs are done, and with --out the same command resumes from there\n")
    assert [path.name for path in folder.iterdir()] == ["queries.json"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("queries.json", "queries.json cannot be read as Parquet"),
        (
            "other.parquet",
            "must be a table that 'clickbandit simulate' wrote, with the columns policy, model",
        ),
    ],
)
def test_other_files_are_not_drawn(run, name, sentence):
    import pyarrow as pa

    pq.write_table(pa.table({"a": [1]}), "other.parquet")
    code, _, err = run("report", name)
    assert (code, err.count("\n")) == (2, 1)
    assert sentence in err


def test_simulate_prints_json(run):
    code, out, _ = run(*SIMULATE, "--query", "pasta", "--policy", "optimal", "--json")
    results = json.loads(out)["results"]
    assert code == 0
    assert [(row["query"], row["model"], row["regret"]["mean"]) for row in results] == [
        ("pasta", "CM", 0),
        ("pasta", "PBM", 0),
    ]
    assert results[1]["final_lists"] == [[2, 1], [2, 1]]


def test_the_shell_and_python_give_the_same_numbers(run):
    from clickbandit import BatchRank, load_queries, simulate

    _, out, _ = run(
        *SIMULATE, "--model", "CM", "--query", "shoes", "--policy", "batchrank", "--seed", 3, "--json"
    )
    model = load_queries("queries.json")[0].models["CM"]
    trace = simulate(BatchRank(), model, positions=2, steps=1000, runs=2, seed=3, query="shoes")
    assert json.loads(out)["results"][0]["regret"]["mean"] == trace.summary().regret.mean


def test_an_existing_file_is_kept_without_force(run, folder):
    (folder / "results.parquet").write_text("precious")
    code, _, err = run(*SIMULATE, "--policy", "random", "--out", "results.parquet")
    assert (code, (folder / "results.parquet").read_text()) == (2, "precious")
    assert "--force" in err
    code, _, _ = run(*SIMULATE, "--policy", "random", "--out", "results.parquet", "--force")
    assert code == 0
    assert pq.read_table("results.parquet").num_rows == 2 * 2 * 2 * 100


def test_a_report_is_one_page_without_network(run, folder):
    code, _, _ = run(*SIMULATE, "--policy", "batchrank", "--policy", "random", "--report", "report.html")
    page = (folder / "report.html").read_text()
    assert code == 0
    assert "batchrank" in page
    assert "vegaEmbed" in page
    assert 'src="http' not in page
    assert 'href="http' not in page


def test_a_policy_from_a_file(run, folder):
    from pathlib import Path

    text = (Path(__file__).parents[1] / "examples" / "my_policy.py").read_text()
    (folder / "mine.py").write_text(text)
    code, out, _ = run(*SIMULATE, "--policy", "mine.py:EpsilonGreedy:epsilon=0.5", "--json")
    assert code == 0
    assert json.loads(out)["results"][0]["policy"] == "mine.py:EpsilonGreedy:epsilon=0.5"


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
    "a forgotten setting": ("horizon, epsilon):", "horizon):"),
    "a setting without a default": ("    epsilon: float = 0.1", "    epsilon: float"),
    "no update": ("def update(", "def updat("),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_users_policy_is_one_sentence(run, folder, mistake):
    from pathlib import Path

    text = (Path(__file__).parents[1] / "examples" / "my_policy.py").read_text()
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

    text = (Path(__file__).parents[1] / "examples" / "my_policy.py").read_text()
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
