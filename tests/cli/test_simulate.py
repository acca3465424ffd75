"""clickbandit simulate: what it prints and writes, resumes and draws again."""

import json

import pyarrow.parquet as pq
import pytest

SIMULATE = ("simulate", "--queries", "queries.json", "--positions", 2, "--steps", 600, "--runs", 2)


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
        300,
        "--flip",
        0.1,
        "--delay",
        3,
    )
    code, out, err = run(*command, "--out", "results")
    assert (code, err) == (0, "")
    assert out.startswith("2 policies on PBM of 2 queries: 8 runs of 600 steps, in results\n")
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
        "200,400",
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
    trace = simulate(BatchRank(), model, positions=2, steps=600, runs=2, seed=3, query="shoes")
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

    text = (Path(__file__).parents[2] / "examples" / "my_policy.py").read_text()
    (folder / "mine.py").write_text(text)
    code, out, _ = run(*SIMULATE, "--policy", "mine.py:EpsilonGreedy:epsilon=0.5", "--json")
    assert code == 0
    assert json.loads(out)["results"][0]["policy"] == "mine.py:EpsilonGreedy:epsilon=0.5"
