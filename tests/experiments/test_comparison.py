"""Comparisons: who meets whom, and the command `compare` from its options to its report, stopped or not."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clickbandit import CascadeModel, InputError, PositionBasedModel, Query, cli, simulate
from clickbandit.click_models.base import ClickModel
from clickbandit.experiments.comparison import all_policies, choose, plan_comparison
from clickbandit.experiments.folder import Folder
from clickbandit.experiments.plan import Conditions, Plan, grid
from clickbandit.policies.base import policy_names

Run = Callable[..., tuple[int, str, str]]
ATTRACTION = [0.5, 0.4, 0.2, 0.1]
CM, PBM = CascadeModel(ATTRACTION), PositionBasedModel(ATTRACTION[::-1], [1, 0.5])
MODELS: dict[str, ClickModel] = {"CM": CM, "PBM": PBM}
QUERIES = [Query(name, list("abcd"), MODELS) for name in ("shoes", "pasta")]
PBM_POLICIES = {"pbm-pie", "pbm-ts", "pbm-ucb"}


# --- who meets whom -----------------------------------------------------------------------------------------


def test_all_are_all_that_learn_and_random_lists() -> None:
    assert set(all_policies()) == {*policy_names(), "batchrank:variant=experiment"} - {"optimal", "given"}
    field = choose(QUERIES, ["all"], None)
    assert field.policies == all_policies()
    assert field.models == ["CM", "PBM"]


def test_who_must_be_told_what_a_model_does_not_have_is_left_out_there() -> None:
    field = choose(QUERIES, ["all"], None)
    assert field.skipped == {(policy, "CM") for policy in PBM_POLICIES}
    assert field.notes == [
        "no query has the click models CCM, DBN, DCM, SDBN, UBM",
        "pbm-pie, pbm-ts, pbm-ucb must be told how often users examine each position, which CM cannot say: "
        "left out there",
    ]
    plan = plan_comparison(QUERIES, field, Conditions(1000, 2, 2, 1), input="x")
    met = {(unit.policy, unit.model) for unit in plan.units}
    assert met == {(policy, model) for policy in all_policies() for model in ("CM", "PBM")} - field.skipped
    assert len(plan.units) == len(met) * 2 * len(QUERIES)
    assert set(plan.settings["told more"]) == {*PBM_POLICIES, "cascade-lin-ts", "cascade-lin-ucb"}


def test_who_is_named_is_not_left_out_but_refused() -> None:
    field = choose(QUERIES, ["all", "pbm-ucb"], ["CM"])
    assert field.policies.count("pbm-ucb") == 1
    with pytest.raises(
        InputError, match=r"pbm-ucb must be told the users' examination, which CM does not have"
    ):
        plan_comparison(QUERIES, field, Conditions(1000, 1, 2, 1), input="x")


def test_all_and_one_more() -> None:
    field = choose(QUERIES, ["optimal", "all", "batchrank:bounds=hoeffding"], ["PBM"])
    assert field.policies == ["optimal", *all_policies(), "batchrank:bounds=hoeffding"]
    assert (field.skipped, field.notes) == (set(), [])


def test_models_that_only_some_queries_have() -> None:
    queries = [*QUERIES, Query("tea", list("abcd"), {"PBM": PBM})]
    field = choose(queries, ["random"], None)
    assert field.models == ["PBM"]
    assert field.notes[1] == "not every query has the click models CM (2 of 3)"
    with pytest.raises(
        InputError, match=r"a click model that every query has: .* CM \(1 of 2\), PBM \(1 of 2\)"
    ):
        choose([Query("a", list("abcd"), {"CM": CM}), queries[2]], ["random"], None)


def test_which_policies_leap_is_known(tmp_path: Path) -> None:
    def leaping(**users: object) -> list[str]:
        field = choose(QUERIES, ["batchrank", "random"], ["CM"])
        conditions = Conditions(200_000, 1, 2, 1, **users)  # type: ignore[arg-type]
        return list(plan_comparison(QUERIES, field, conditions, input="x").settings["leaping"])

    assert leaping() == ["batchrank"]
    assert leaping(drift=[1000]) == ["batchrank"]
    assert leaping(delay=1) == []
    assert leaping(flip=0.1) == []


# --- the command --------------------------------------------------------------------------------------------

CHEAP = ("compare", "--queries", "queries.json", "--positions", 2, "--policies", "ranked-exp3,random")
TINY = (*CHEAP, "--steps", 500, "--runs", 2, "--out", "out")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    models = {"CM": {"attraction": CM.attraction}, "PBM": vars(PBM)}
    queries = [{"query": query.query, "items": query.items, "models": models} for query in QUERIES]
    data = {"format": "clickbandit/queries", "version": 1, "queries": queries}
    (tmp_path / "queries.json").write_text(json.dumps(data))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command; its exit code, and what it printed on both channels."""

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["clickbandit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (int(ended.value.code or 0), *capsys.readouterr())

    return command


def without_times(out: str) -> list[str]:
    """What was printed, but for the last column of leaderboards."""
    return [
        line.rsplit(maxsplit=1)[0] if "%" in line and " to " in line else line for line in out.splitlines()
    ]


def test_a_comparison_and_its_report_again(run: Run, folder: Path) -> None:
    code, out, err = run(*TINY)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "2 policies on CM, PBM of 2 queries: 16 runs of 500 steps, in out"
    assert lines[1] == "no query has the click models CCM, DBN, DCM, SDBN, UBM"
    assert "Best overall: ranked-exp3, with 1.00 times the least regret" in out
    assert lines[-1] == "report: out/report.html"
    results = Path("out/results.parquet").read_bytes()
    assert pq.read_table("out/results.parquet").num_rows == 16 * 100
    Path("out/report.html").unlink()
    code, again, err = run("report", "out")  # the times are those that were measured
    assert (code, err) == (0, "")
    assert again.splitlines() == lines[2:]
    assert Path("out/report.html").exists()
    code, again, _ = run(*TINY)
    assert (code, again) == (0, out)
    assert Path("out/results.parquet").read_bytes() == results


def test_times_are_no_part_of_the_results(run: Run) -> None:
    run(*TINY)
    code, _, _ = run(*TINY[:-1], "again")
    assert code == 0
    one, other = (Path(name, "results.parquet").read_bytes() for name in ("out", "again"))
    assert one == other
    one, other = (Path(name, "runs.log").read_bytes() for name in ("out", "again"))
    assert b'"seconds"' in one
    assert one != other


def test_killed_in_the_middle_the_same_command_goes_on(run: Run, folder: Path) -> None:
    users = ("--drift", "1e5", "--flip", 0.1, "--delay", 3)
    options = ("--models", "PBM", "--steps", "3e5", "--runs", 6, *users)
    code, printed, _ = run(*CHEAP, *options, "--out", "whole")
    assert code == 0
    command = [sys.executable, "-m", "clickbandit", *map(str, (*CHEAP, *options, "--out", "killed"))]
    process = subprocess.Popen(command)
    log = folder / "killed" / "runs.log"
    while process.poll() is None and (not log.exists() or log.read_bytes().count(b"\n") < 4):
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it must be killed before it ends"
    code, _, err = run("report", "killed")
    assert code == 2
    assert "of 24 runs are missing: resume it with the command that began it" in err
    code, out, _ = run(*CHEAP, *options, "--out", "killed")
    assert code == 0
    assert without_times(out.replace("killed", "whole")) == without_times(printed)
    whole, killed = (Path(name, "results.parquet").read_bytes() for name in ("whole", "killed"))
    assert whole == killed


@pytest.mark.parametrize(
    ("option", "told", "users"),
    [
        (("--drift", "200,3e2"), "drift: expected 200 | 300, found none", {"drift": [200, 300]}),
        (("--delay", "10"), "delay: expected 10, found 0", {"delay": 10}),
        (("--flip", "0.25"), "flip: expected 0.25, found 0.0", {"flip": 0.25}),
    ],
)
def test_other_users(run: Run, option: Sequence[str], told: str, users: dict[str, Any]) -> None:
    """They are another experiment, with the numbers of simulating them."""
    run(*TINY)
    code, _, err = run(*TINY, *option)
    assert code == 2
    assert f"out holds the results of another experiment ({told}" in err
    before = pq.read_table("out/results.parquet")
    code, _, _ = run(*TINY, *option, "--restart")
    assert code == 0
    after = pq.read_table("out/results.parquet")
    assert not after.equals(before)
    size: dict[str, int] = {"positions": 2, "steps": 500, "runs": 2, "seed": 1}
    alone = [
        simulate(policy, model, query=query.query, **size, **users).to_table()
        for model in (CM, PBM)
        for query in QUERIES
        for policy in ("ranked-exp3", "random")
    ]
    assert after.equals(pa.concat_tables(alone).combine_chunks())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--models", "CM,UBM"], "query shoes has no model UBM: it has CM, PBM"),
        (["--models", "PMB"], "there is no click model 'PMB': did you mean PBM?"),
        (["--policies", "pbm-ts"], "pbm-ts must be told the users' examination, which CM does not have"),
        (["--policies", "al"], "there is no policy 'al'"),
        (["--steps", "3"], "at least 5 steps are needed"),
        (["--runs", "0"], "--runs must be at least 1, found 0"),
        (["--threads", "0"], "--threads must be at least 1, found 0"),
        (["--drift", "500"], "drift after step 500 leaves nothing to see within 500 steps"),
        (["--drift", "soon"], "expected a whole number such as 1000000 or 1e6, found 'soon'"),
        (["--delay", "-1"], "delay must be a number of steps, 0 or more, found -1"),
        (["--flip", "2"], "flip must be the share of clicks to invert, from 0 to 1, found 2"),
        (["--positions", "5"], "5 positions need as many items"),
        (["--queries", "nowhere.json"], "nowhere.json cannot be read"),
        (["--out", "."], "neither empty nor a folder of results"),
        (["--cluster", "nonsense://x"], "no Dask scheduler answers at nonsense://x"),
    ],
)
def test_bad_input_is_one_sentence(run: Run, arguments: list[str], sentence: str) -> None:
    code, _, err = run(*TINY, *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("clickbandit: ")
    assert sentence in err
    assert not Path("out/runs.log").exists() or not Path("out/runs.log").read_bytes()


def test_results_of_no_command_are_not_drawn(run: Run, folder: Path) -> None:
    with Folder.open("other", Plan(QUERIES, grid(["random"], QUERIES, ["CM"], Conditions(5, 1, 1, 1)))):
        pass
    code, _, err = run("report", "other")
    assert code == 2
    assert "other must hold the results of 'clickbandit reproduce', 'compare' or 'simulate'" in err
