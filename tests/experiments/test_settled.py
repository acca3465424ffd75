"""Runs that end when their list is settled, and regret against one list or another."""

import json
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from clickbandit import Algorithm, CascadeModel, DynamicBayesianModel, InputError, Policy, simulate
from clickbandit.queries import AGAINST, Query, best_list, reference_list, save_queries
from clickbandit.simulation.run import Problem, Run
from naive.recorded import Recorded

CM = CascadeModel(attraction=[0.5, 0.4, 0.3, 0.2])
DBN = DynamicBayesianModel(attraction=[0.5, 0.4, 0.3], satisfaction=[0.9, 0.0, 0.1], continuation=1.0)
State = namedtuple("State", ["step", "settles"])
CALLS: list[int] = []


def rank(state: Any, rng: Any, ranking: Any, memo: Any) -> None:
    state.step[0] += 1
    CALLS.append(int(state.step[0]))
    ranking[:] = (0, 1)


def best(state: Any, ranking: Any) -> None:
    """Another list each time, until it is settled."""
    ranking[:] = (0, 1) if state.step[0] >= state.settles or state.step[0] // 10 % 2 else (1, 0)


class Wavering(Policy):
    """Shows the first items, and is of two minds which list is best until step 290."""

    algorithm = Algorithm(
        init=lambda n_items, n_positions, *, horizon: State(np.zeros(1, np.int64), 300),
        memo_size=lambda n_items, n_positions: 0,
        rank=rank,
        update=lambda state, ranking, clicks, memo: None,
        best=best,
    )


@pytest.mark.parametrize(("drift", "settled"), [([], 490), ([600], 800), ([(605, CM)], 810), ([801], None)])
def test_a_run_ends_a_fifth_after_its_list_was_settled(drift: list[Any], settled: int | None) -> None:
    """In windows of ten steps, of which those count that lie after the last drift."""
    CALLS.clear()
    options = {"positions": 2, "steps": 1000, "seed": 1, "drift": drift}
    trace = simulate(Wavering(), CM, until_settled=True, **options)
    assert trace.settled == [settled]
    taken = settled or 1000
    assert CALLS[-1] == taken
    whole = simulate(Wavering(), CM, **options)
    assert whole.settled == [None]
    n = taken // 10
    np.testing.assert_array_equal(trace.regret[0, :n], whole.regret[0, :n])
    np.testing.assert_array_equal(trace.clicks[0, :n], whole.clicks[0, :n])
    np.testing.assert_allclose(trace.clicks[0, n:], trace.clicks[0, n - 10 : n].mean())
    np.testing.assert_allclose(trace.regret[0, n:], trace.regret[0, n - 10 : n].mean())
    assert trace.final_lists == whole.final_lists


@pytest.mark.parametrize("policy", ["batchrank", "cts"])
def test_policies_settle_on_what_they_would_have_settled_on(policy: str) -> None:
    options = {"positions": 2, "steps": 100_000, "runs": 3, "seed": 1}
    users: Any = CM if policy == "batchrank" else Recorded(CM)  # the one leaps
    short, whole = (simulate(policy, users, until_settled=end, **options) for end in (True, False))
    assert all(20_000 < step < 100_000 for step in short.settled)
    assert short.final_lists == whole.final_lists
    for i, step in enumerate(short.settled):
        np.testing.assert_array_equal(short.regret[i, : step // 1000], whole.regret[i, : step // 1000])
    summary = short.summary().to_dict()
    assert summary["settled"] == short.settled
    assert summary["losing"] == (short.regret[:, -10:].mean(axis=1) > 0.001).mean()
    assert summary["tail"] == pytest.approx(np.quantile(short.cumulative_regret[:, -1], 0.9))
    json.dumps(summary)


# --- against ------------------------------------------------------------------------------------------------


def test_the_two_lists_that_regret_can_be_against() -> None:
    assert reference_list(DBN, 2, "clicks") == best_list(DBN, 2)
    assert reference_list(DBN, 2, "attraction") == ([0, 1], DBN.reward([0, 1]))
    assert best_list(DBN, 2)[0] != [0, 1]
    assert reference_list(CM, 2, "attraction") == best_list(CM, 2)
    with pytest.raises(InputError, match="against must be clicks or attraction, found 'regret'"):
        Problem("random", CM, positions=2, horizon=100, against="regret")  # type: ignore[arg-type]


@pytest.mark.parametrize("drift", [[], [500], [(300, DBN.with_items([1, 0, 2]))]])
def test_regret_is_against_the_list_that_is_named(drift: list[Any]) -> None:
    options = {"positions": 2, "steps": 1000, "runs": 2, "seed": 1, "drift": drift}
    clicks, attraction = (simulate("random", DBN, against=against, **options) for against in AGAINST)
    less = best_list(DBN, 2)[1] - DBN.reward([0, 1])
    assert less > 0.1
    np.testing.assert_allclose(clicks.regret - attraction.regret, less)
    np.testing.assert_array_equal(clicks.clicks, attraction.clicks)
    for trace, against in ((clicks, "clicks"), (attraction, "attraction")):
        assert trace.against == trace.summary().to_dict()["against"] == against
        assert f"), against {AGAINST[against]}\n" in str(trace)
    assert simulate("optimal", DBN, against="attraction", **{**options, "drift": []}).regret.max() == 0
    run = Run(Problem("random", DBN, positions=2, horizon=1000), seed=1)
    other = Run(Problem("random", DBN, positions=2, horizon=1000, against="attraction"), seed=1)
    with pytest.raises(InputError, match="another run"):
        other.restore(run.snapshot())


# --- on the command line ------------------------------------------------------------------------------------


@pytest.fixture
def queries(tmp_path: Any) -> str:
    path = tmp_path / "queries.json"
    save_queries(path, [Query("q", list("abc"), {"DBN": DBN})])
    return str(path)


def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    from clickbandit import cli

    monkeypatch.setattr("sys.argv", ["clickbandit", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    return str(err if ended.value.code else out)


def test_every_table_and_page_says_what_regret_is_against(
    queries: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    common = ("--queries", queries, "--positions", 2, "--steps", 1000, "--runs", 2, "--models", "DBN")
    common += ("--policies", "optimal,random")
    for name, against in (("simulate", "attraction"), ("compare", "attraction"), ("compare", "clicks")):
        words, where = f"Regret is against {AGAINST[against]}", out / name / against  # type: ignore[index]
        assert words in command(monkeypatch, capsys, name, *common, "--against", against, "--out", where)
        assert words in (where / "report.html").read_text()
    where = out / "compare" / "attraction"
    assert f"Regret is against {AGAINST['attraction']}" in command(monkeypatch, capsys, "report", where)
    told = command(monkeypatch, capsys, "compare", *common, "--against", "clicks", "--out", where)
    assert "against: expected clicks, found attraction" in told
    told = command(monkeypatch, capsys, "compare", *common, "--against", "fame", "--out", out / "new")
    assert told.strip().endswith("against must be clicks or attraction, found 'fame'")


def test_tables_say_how_many_runs_were_settled(
    queries: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("--queries", queries, "--positions", 2, "--steps", 1000, "--runs", 2, "--models", "DBN")
    common += ("--policies", "optimal,random", "--until-settled", "--out", tmp_path / "out")
    sentence = "4 of 4 runs ended early, when their list was settled, after 210 steps in the mean"
    told = command(monkeypatch, capsys, "compare", *common)
    assert sentence in told
    assert sentence in (tmp_path / "out" / "report.html").read_text()
    lines = (tmp_path / "out" / "runs.log").read_text().splitlines()
    assert [json.loads(line[9:])["settled"] for line in lines] == [210] * 4
    common = (*common[:-1], tmp_path / "out.parquet", "--report", tmp_path / "out.html")
    assert sentence in command(monkeypatch, capsys, "simulate", *common)
    assert sentence in (tmp_path / "out.html").read_text()
    assert sentence in command(monkeypatch, capsys, "report", tmp_path / "out.parquet", "--force")
    common = (*common[:-3], tmp_path / "out")
    refused = command(monkeypatch, capsys, "compare", *[word for word in common if word != "--until-settled"])
    assert "until_settled: expected false, found true" in refused
