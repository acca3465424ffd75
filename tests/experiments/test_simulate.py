"""Many runs on threads: traces, tables, summaries, and Ctrl-C."""

import math
import os
import signal
import threading
import time

import numpy as np
import pytest

from clickbandit import BatchRank, CascadeModel, InputError, PositionBasedModel, Query, simulate
from clickbandit.experiments import simulate as module
from clickbandit.simulation import outcome
from clickbandit.simulation.run import Problem, Run

CM = CascadeModel(attraction=[0.5, 0.4, 0.3, 0.2])


def test_the_trace_as_a_table():
    trace = simulate(BatchRank(), CM, positions=2, steps=1000, runs=3, seed=1, query="shoes")
    table = trace.to_table()
    assert table.column_names == ["policy", "model", "query", "run", "step", "regret", "clicks"]
    assert table.num_rows == 3 * 100
    first = table.slice(100, 1).to_pylist()[0]
    assert (first["policy"], first["model"], first["query"], first["run"], first["step"]) == (
        "batchrank",
        "CM",
        "shoes",
        1,
        10,
    )
    assert first["regret"] == trace.regret[1, 0]
    assert first["clicks"] == trace.clicks[1, 0]


def test_the_summary():
    trace = simulate(BatchRank(), CM, positions=2, steps=1050, runs=4, seed=1)
    summary = trace.summary()
    totals = (trace.regret * trace.window_sizes).sum(axis=1)
    assert summary.regret.mean == pytest.approx(totals.mean())
    half = 3.182446 * totals.std(ddof=1) / 2  # Student's 97.5% quantile for three degrees of freedom
    assert summary.regret.high == pytest.approx(totals.mean() + half, rel=1e-6)
    assert summary.clicks.mean == pytest.approx((trace.clicks @ trace.window_sizes).mean() / 1050)
    assert len(summary.final_lists) == 4
    assert summary.steps_per_second > 0
    text = str(summary)
    assert "4 runs of 1,050 steps" in text
    assert "batchrank on CM" in text
    assert summary.to_dict()["regret"]["mean"] == summary.regret.mean


def test_the_trace_fits_a_screen():
    trace = simulate(BatchRank, CM, positions=2, steps=1000, runs=12, seed=1, query="shoes")
    regret = trace.summary().regret.mean
    assert repr(trace) == f"<Trace of batchrank on CM of shoes: 12 runs of 1,000 steps, regret {regret:,.1f}>"
    one = simulate(BatchRank, CM, positions=2, steps=1000, runs=1, seed=1)
    assert ": 1 run of 1,000 steps" in repr(one)
    assert ": 1 run of 1,000 steps" in str(one)
    assert str(one).endswith("in 1 of 1 run")


def test_a_single_run_has_no_interval():
    one, two = (
        str(simulate("random", CM, positions=2, steps=1000, runs=runs, seed=1)).splitlines()
        for runs in (1, 2)
    )
    assert [line for line in one if " to " in line] == []
    assert len([line for line in two if " to " in line]) == 3


def test_what_may_be_given_as_a_policy_and_as_users():
    size = {"positions": 2, "seed": 1}
    query = Query("shoes", list("abcd"), {"CM": CM})
    expected = simulate(BatchRank(), CM, steps=1000, runs=2, horizon=5000, delay=3, query="shoes", **size)
    traces = simulate(
        [BatchRank, "batchrank", BatchRank()], query, steps=1e3, runs=2.0, horizon=5e3, delay=3.0, **size
    )
    assert [trace.policy for trace in traces] == ["batchrank"] * 3
    for trace in traces:
        assert trace.query == "shoes"
        np.testing.assert_array_equal(trace.regret, expected.regret)
    problem = Problem(BatchRank, query, positions=2, horizon=1e3, delay=0.0)
    assert (problem.policy, problem.model, problem.query) == (BatchRank(), CM, "shoes")
    assert type(problem.horizon) is type(problem.delay) is int


BOTH = Query("shoes", list("abcd"), {"CM": CM, "PBM": PositionBasedModel([0.1, 0.2, 0.3, 0.4], [1, 0.5])})


@pytest.mark.parametrize(
    ("policy", "model", "changes", "sentence"),
    [
        (
            "random",
            BOTH,
            {},
            r"query shoes must have one click model to be simulated, found CM, PBM: give one",
        ),
        (
            "random",
            {"CM": CM},
            {},
            r"expected a click model such as PositionBasedModel\(\.\.\.\).*, found dict",
        ),
        (7, CM, {}, r"expected one policy such as BatchRank\(\) or 'batchrank', found 7"),
        (CM, CM, {}, r"expected one policy"),
        ("random", CM, {"steps": 10.5}, r"steps must be a whole number such as 10 or 1e6, found 10\.5"),
        ("random", CM, {"positions": 1.5}, r"positions must be a whole number such as 10 or 1e6, found 1\.5"),
        ("random", CM, {"seed": None}, r"seed must be a whole number such as 10 or 1e6, found None"),
        ("random", CM, {"steps": "1e6"}, r"steps must be a whole number"),
        ("random", CM, {"runs": math.inf}, r"runs must be a whole number"),
        ("random", CM, {"delay": None}, r"delay must be a whole number"),
        ("random", CM, {"horizon": 1e3 + 0.1}, r"horizon must be a whole number"),
    ],
)
def test_anything_else_gets_one_sentence(policy, model, changes, sentence):
    with pytest.raises(InputError, match=sentence):
        simulate(policy, model, **{"positions": 2, "steps": 1000, **changes})
    if not changes:
        with pytest.raises(InputError, match=sentence):
            Problem(policy, model, positions=2, horizon=1000)


def test_threads_do_not_change_the_numbers():
    one = simulate(BatchRank(), CM, positions=2, steps=2000, runs=6, seed=5, threads=1)
    many = simulate(BatchRank(), CM, positions=2, steps=2000, runs=6, seed=5, threads=4)
    np.testing.assert_array_equal(one.regret, many.regret)
    np.testing.assert_array_equal(one.clicks, many.clicks)


@pytest.mark.parametrize(
    ("options", "on_this_thread"),
    [
        ({}, True),
        ({"until_settled": True}, True),
        ({"runs": 2}, False),
        ({"steps": 10_000_001}, False),
        ({"method": "leap"}, False),  # which may take a second each
        ({"method": "step", "steps": 1000}, False),
        ({"model": CascadeModel([0.5] * 13)}, False),  # whose leaps may all be single steps
    ],
)
def test_only_what_is_soon_over_is_run_on_the_thread_that_ctrl_c_stops(options, on_this_thread):
    model, steps, runs = options.get("model", CM), options.get("steps", 1_000_000), options.get("runs", 1)
    method, until_settled = options.get("method", "auto"), options.get("until_settled", False)
    problem = Problem("batchrank", model, positions=2, horizon=steps, method=method)
    Run(problem).advance(0)  # what compiles is on another thread, too
    task = module.Task("batchrank", problem, until_settled)
    seen, thread = set(), threading.get_ident
    module.simulate_all([task], steps=steps, runs=runs, progress=lambda _: seen.add(thread()))
    assert (thread() in seen) == on_this_thread


def test_a_run_on_this_thread_has_the_same_numbers():
    alone = simulate("batchrank", CM, positions=2, steps=1_000_000, seed=5)
    first = simulate("batchrank", CM, positions=2, steps=1_000_000, seed=5, runs=2)
    np.testing.assert_array_equal(alone.regret, first.regret[:1])
    np.testing.assert_array_equal(alone.clicks, first.clicks[:1])
    assert alone.final_lists == first.final_lists[:1]


def test_ctrl_c_leaves_the_finished_runs(monkeypatch):
    monkeypatch.setattr(outcome, "_COMPILED_CHUNK", 10)
    tasks = [
        module.Task("batchrank", Problem(BatchRank(), CM, positions=2, horizon=1000, query=q)) for q in "ab"
    ]
    done = 0

    def progress(steps):
        nonlocal done
        done += steps
        if done == 3 * 1000 + 10:  # in the fourth run
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # test runners may ignore it
    try:
        with pytest.raises(module.Interrupted) as stopped:
            module.simulate_all(tasks, steps=1000, runs=2, seed=1, threads=1, progress=progress)
    finally:
        signal.signal(signal.SIGINT, before)
    a, b = stopped.value.traces
    assert (a.query, len(a.runs), b.query, len(b.runs)) == ("a", 2, "b", 1)
    whole = module.simulate_all(tasks, steps=1000, runs=2, seed=1, threads=1)
    np.testing.assert_array_equal(b.regret, whole[1].regret[:1])


def test_an_error_in_a_policy_is_not_swallowed():
    def progress(steps):
        raise RuntimeError("broken")

    task = module.Task("batchrank", Problem(BatchRank(), CM, positions=2, horizon=1000))
    with pytest.raises(RuntimeError, match="broken"):
        module.simulate_all([task], steps=1000, runs=2, seed=1, progress=progress)


@pytest.mark.parametrize("method", ["step", "leap"])
@pytest.mark.parametrize("steps", [150, 1000, 20_300])
def test_what_is_done_in_one_call_does_not_change_the_numbers(monkeypatch, method, steps):
    """All windows at once, one by one, or each in pieces."""

    def trace(chunk, soon):
        monkeypatch.setattr(outcome, "_COMPILED_CHUNK", chunk)
        monkeypatch.setattr(outcome, "_QUICK_CALL", soon)
        return simulate(BatchRank(), CM, positions=2, steps=steps, runs=2, seed=5, method=method)

    usual = trace(1 << 16, math.inf)
    assert usual.clicks[0] @ usual.window_sizes > 0
    for other in (trace(1 << 16, 0.0), trace(7, math.inf)):
        np.testing.assert_allclose(other.regret, usual.regret, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(other.clicks, usual.clicks)
        assert other.final_lists == usual.final_lists
