"""Priors: what is refused and how, the numbers of a run, curves that are estimated, and what policies make of them."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickbandit import (
    CascadeModel,
    InputError,
    PositionBasedModel,
    Prior,
    Query,
    UserBrowsingModel,
    cli,
    load_queries,
    save_queries,
    simulate,
)
from clickbandit.compiling.kernel import interpreted
from clickbandit.experiments.priors import read_source
from clickbandit.policies.base import parse_policy, policy_names
from clickbandit.policies.unirank import count_win
from clickbandit.priors import Lesson, calibrate, estimate_curve, shared_examination
from clickbandit.simulation.run import Problem, Run

USERS = PositionBasedModel(attraction=[0.1, 0.5, 0.3, 0.05], examination=[1, 0.5])
PRIMED = [name for name in policy_names() if parse_policy(name).algorithm.prime is not None]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Prior([], []), "must have an attraction for each item, found none"),
        (lambda: Prior([0.5, 1.5], [1, 1]), r"attraction must be numbers from 0 to 1, found \[0.5, 1.5\]"),
        (lambda: Prior([0.5, float("nan")], [1, 1]), "attraction must be numbers from 0 to 1"),
        (lambda: Prior([0.5, "high"], [1, 1]), "attraction must be numbers from 0 to 1"),  # type: ignore[list-item]
        (lambda: Prior([0.5, 0.2], [1]), "a strength for each of its 2 items, found 1"),
        (lambda: Prior([0.5, 0.2], [1, 0]), "must be above 0, found 0"),
        (lambda: Prior([0.5, 0.2], [1, float("inf")]), "strength must be finite numbers"),
        (lambda: Prior([0.5, 0.2], [1, 1], [0, 0]), r"each item from 0 to 1 once, found \[0, 0\]"),
        (lambda: Prior([0.5, 0.2], [1, 1], [0, 1], [[1], [0.5]], [[1], [1]]), "of k numbers, found rows of"),
        (lambda: Prior.from_order([0, 2]), r"each item from 0 to 1 once, found \[0, 2\]"),
        (lambda: Prior.from_order([0.5, 1]), r"each item from 0 to 1 once, found \[0.5, 1\]"),  # type: ignore[list-item]
        (lambda: Prior.from_order([0, 1], strength=[1, 2, 3]), "strength for each of its 2 items, found 3"),
        (lambda: Prior.from_order([0, 1], attraction=[]), "a value for its first place, found none"),
        (lambda: Prior.from_scores([1, float("nan")]), r"scores must be finite numbers, found \[1, nan\]"),
        (lambda: Prior.from_scores(["1", 2]), r"scores must be finite numbers, found \['1', 2\]"),  # type: ignore[list-item]
        (lambda: Prior.from_order(5), "a list of the numbers of items, found 5"),  # type: ignore[arg-type]
        (lambda: Prior.from_order([]), r"a list of the numbers of items, found \[\]"),
        (lambda: Prior.from_scores([True, 2]), r"scores must be finite numbers, found \[True, 2\]"),
        (lambda: Prior.from_model("pbm"), "a click model with attractions, found 'pbm'"),  # type: ignore[arg-type]
        (lambda: Prior.from_scores([1, 2], calibration=[]), "at least one pair"),
        (
            lambda: Prior.from_scores([1], calibration=[(float("nan"), 0.5)]),
            "calibration must be finite numbers",
        ),
        (lambda: Prior.from_scores([1], calibration=[(1,)]), "score and attraction, and only pairs"),  # type: ignore[list-item]
        (lambda: Prior.from_model(USERS, errors=[0.1, 0.1, 0.1, -1]), "errors must be finite numbers from 0"),
        (
            lambda: simulate("cts", USERS, positions=2, steps=10, prior=[0, 1, 2, 3]),  # type: ignore[arg-type]
            r"a Prior, such as Prior.from_order\(order\), found list",
        ),
        (lambda: Prior.from_model(USERS, errors=[0.1]), "errors for each of its 4 items, found 1"),
        (
            lambda: simulate("batchrank", USERS, positions=2, steps=10, prior=Prior.from_order([0, 1, 2, 3])),
            "batchrank cannot start from a prior: leave the prior out, or take a policy that can, such as click-ts",
        ),
        (
            lambda: simulate("cts", USERS, positions=2, steps=10, prior=Prior.from_order([0, 1])),
            "the prior must be of 4 items, as many as there are, found 2",
        ),
        (lambda: read_source("mine.json", None, []), "there is no file 'mine.json'"),
        (lambda: read_source("none", 3, []), "needs a prior"),
        (lambda: read_source("given-order", -3, []), "above 0, found -3"),
    ],
)
def test_what_is_no_prior_is_refused_in_a_sentence(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_from_a_model_with_its_errors_and_examination() -> None:
    prior = Prior.from_model(USERS, errors=[0.1, 0.05, 0.1, 1])
    assert np.allclose(prior.strength, [8, 99, 20, 0.1])
    assert prior.order == (1, 2, 0, 3)
    assert prior.examination == ((1.0,), (0.5, 0.5))
    ubm = UserBrowsingModel(attraction=[0.5, 0.1], examination=[[0.5], [0.2, 0.4]])
    assert Prior.from_model(ubm).examination == ((1.0,), (0.4, 0.8))
    assert Prior.from_model(CascadeModel(attraction=[0.5, 0.1])).examination == ()


@pytest.mark.parametrize("policy", PRIMED)
def test_a_sure_prior_is_shown_first_in_the_numbers_of_the_query(policy: str) -> None:
    """Whatever numbers a run gives the items; and the next steps are those of plain code."""
    prior = Prior.from_order([2, 0, 1, 3], attraction=[0.8, 0.4, 0.2, 0.05], strength=1000)
    problem = Problem(policy, USERS, positions=2, horizon=1000, prior=prior)
    for number in range(4):
        run = Run(problem, seed=1, run=number)
        run.loop = problem.make_loop(compiled=False)
        assert run.best() == [2, 0]
        run.advance(5)
        snapshot = run.snapshot()
        expected = run.advance(5)
        again = Run(problem, seed=1, run=number)
        again.loop = run.loop
        assert again.restore(snapshot).advance(5) == expected
        with pytest.raises(InputError, match="another run"):
            Run(Problem(policy, USERS, positions=2, horizon=1000), seed=1, run=number).restore(snapshot)


def test_unirank_keeps_to_the_order_until_an_item_behind_has_won_as_often() -> None:
    state = parse_policy("unirank").start(4, 2, horizon=100, prior=Prior.from_order([2, 0, 1, 3]))
    assert state.items[:2].tolist() == [2, 0]
    for wins, leading in ((1, (0, 0)), (2, (1, 0))):
        interpreted(count_win)(state, 0, 2)
        assert state.wins[0, 2] == wins
        assert (state.leads[0, 2], state.leads[2, 0]) == leading
        assert state.led.tolist() == state.leads.sum(axis=0).tolist()


def test_the_curve_falls_and_counts_each_query_once() -> None:
    """One query that was shown a hundred times as often does not decide for all."""
    curve = estimate_curve([[3000, 10], [10, 20], [10, 15]], [[10_000, 100], [100, 100], [100, 100]])
    assert curve is not None
    assert 0.15 < curve.mean[0] < 0.19
    assert curve.mean[0] >= curve.mean[1]
    assert all(low <= mean <= high for mean, low, high in zip(*curve, strict=True))
    rising = estimate_curve([[10, 30, 5]] * 3, [[100, 100, 100]] * 3)
    assert rising is not None
    assert np.allclose(rising.mean, [0.2, 0.2, 0.05])
    assert estimate_curve([[0, 0]], [[0, 0]]) is None
    unseen = estimate_curve([[5, 0, 3]], [[50, 0, 50]])
    assert unseen is not None
    assert len(unseen.mean) == 1


def test_the_curve_s_interval_holds() -> None:
    """Of many estimates from 20 queries about 95% have the true mean, where it falls clearly."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(300):
        truth = np.stack([rng.beta(4, 6, 20), rng.beta(1, 9, 20)], axis=1)
        shown = rng.integers(20, 400, (20, 2))
        curve = estimate_curve(rng.binomial(shown, truth), shown)
        assert curve is not None
        held += curve.low[0] <= 0.4 <= curve.high[0]
    assert held / 300 > 0.92


def test_examination_of_many_queries_is_weighed_by_what_each_tells() -> None:
    sure = Lesson([], [], [[0.0], [-1.0, -2.0]], [[np.inf], [100.0, 0.0]])
    unsure = Lesson([], [], [[0.0], [0.0, -3.0]], [[np.inf], [1.0, 4.0]])
    rows, errors = shared_examination([sure, unsure, Lesson([1.0], [2.0])])
    assert rows[1] == [round(float(np.exp(-100 / 101)), 3), round(float(np.exp(-3)), 3)]
    assert errors[1] == [round(101**-0.5, 3), 0.5]
    assert shared_examination([]) == ([], [])
    assert calibrate([]) == []


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The order of the file, the scores in it, or another file; policies that cannot are run without and named."""
    monkeypatch.chdir(tmp_path)
    attractions = [[0.4, 0.3, 0.2], [0.5, 0.3, 0.1], [0.3, 0.4, 0.05]]
    queries = [
        Query(f"q{i}", ["A", "B", "C"], {"CM": CascadeModel(attraction=one)}, scores=[3.0, 2.0, 1.0])
        for i, one in enumerate(attractions)
    ]
    save_queries("queries.json", queries)
    assert [list(query.scores) for query in load_queries("queries.json")] == [[3.0, 2.0, 1.0]] * 3

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["clickbandit", "simulate", "--queries", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(str(ended.value.code or 0)), *capsys.readouterr()

    usual = ("--positions", 2, "--steps", 100, "--runs", 2, "--json")
    lost = {}
    for prior in ("none", "given-order", "scores", "queries.json"):
        code, out, err = run("queries.json", "--policies", "given,cts", *usual, "--prior", prior)
        assert code == 0, err
        lost[prior] = {row["policy"]: row["regret"]["mean"] for row in json.loads(out)["results"]}
    assert lost["none"]["given"] == lost["given-order"]["given"]
    assert len({lost[prior]["cts"] for prior in lost}) >= 3
    code, out, err = run("queries.json", "--policies", "toprank", *usual[:-1], "--prior", "given-order")
    assert "toprank cannot start from a prior: run without one" in out
    code, _, err = run("queries.json", "--policies", "cts", *usual, "--prior", "order")
    assert (code, err.count("\n")) == (2, 1)


def test_curves_come_from_the_other_queries_alone() -> None:
    queries = [
        Query(str(i), ["A", "B"], {"CM": CascadeModel(attraction=[a, 0.1])})
        for i, a in enumerate([0.2, 0.4, 0.6])
    ]
    source = read_source("given-order", 20, queries)
    assert source is not None
    assert np.allclose(source.prior(queries[0], "CM").attraction, [0.5, 0.1])
    assert str(source) == "given-order, strength 20"
