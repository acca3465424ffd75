"""Results in a few numbers are those of a plain calculation, whatever the order of the rows."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from clickbandit.intervals import mean_of_strata
from clickbandit.report.charts import end_rows, mean_curves
from clickbandit.report.statistics import totals, units, whole_runs
from report.results import made_up


def _shuffled(table: pa.Table) -> pa.Table:
    return table.take(np.random.default_rng(3).permutation(table.num_rows))


def _rows(table: pa.Table, **values: object) -> list[dict[str, object]]:
    return [row for row in table.to_pylist() if all(row[name] == value for name, value in values.items())]


@pytest.mark.parametrize("arrange", [lambda table: table, _shuffled])
def test_totals(arrange) -> None:
    table = made_up(steps=1_000, windows=7)  # windows that are not all of the same size
    found = {(total.model, total.policy): total for total in totals(arrange(table))}
    assert len(found) == 8
    for (model, policy), total in found.items():
        by_query = []
        for query in ("a", "b", "c"):
            values = []
            for run in range(3):
                rows = sorted(
                    _rows(table, model=model, policy=policy, run=run, query=query),
                    key=lambda row: row["step"],
                )
                sizes = np.diff([row["step"] for row in rows], prepend=0)
                regret = np.array([row["regret"] for row in rows])
                values.append([regret @ sizes, regret[-1], 0.5])
            by_query.append(values)
        expected = [mean_of_strata(np.array(by_query)[:, :, i], least=0) for i in range(3)]
        np.testing.assert_allclose([total.regret, total.last_regret, total.clicks], expected)
        assert (total.queries, total.runs) == (3, 3)


def test_totals_and_units_come_in_the_order_of_the_results() -> None:
    table = made_up(policies=["z", "a"], models=["PBM", "CM"], queries=["c", "a"], runs=2)
    assert [(total.model, total.policy) for total in totals(table)] == [
        ("PBM", "z"),
        ("CM", "z"),
        ("PBM", "a"),
        ("CM", "a"),
    ]
    finished = units(table)
    assert finished["query"].to_pylist()[:4] == ["c", "c", "a", "a"]
    assert finished["steps"].unique().to_pylist() == [20_000]


def test_a_run_that_was_stopped_between_queries_does_not_count() -> None:
    table = made_up(runs=3)
    stopped = (pc.field("policy") == "batchrank") & (pc.field("run") == 2) & (pc.field("query") != "a")
    left = table.filter(~stopped)
    kept = whole_runs(left)
    assert (
        kept.num_rows
        == table.filter(~((pc.field("policy") == "batchrank") & (pc.field("run") == 2))).num_rows
    )
    runs = {(total.model, total.policy): (total.queries, total.runs) for total in totals(left)}
    assert runs["CM", "batchrank"] == (3, 2)
    assert runs["CM", "ranked-exp3"] == (3, 3)
    assert {row["runs"] for row in mean_curves(left) if row["policy"] == "batchrank"} == {2}
    assert whole_runs(table) is table


@pytest.mark.parametrize("runs", [1, 3])
def test_curves(runs: int) -> None:
    table = made_up(runs=runs)
    rows = mean_curves(_shuffled(table))
    assert len(rows) == 2 * 4 * 20
    for row in rows[::13]:
        mine = _rows(table, model=row["model"], policy=row["policy"], step=row["step"])
        strata = [[one["regret"] for one in mine if one["query"] == query] for query in ("a", "b", "c")]
        np.testing.assert_allclose([row["mean"], row["low"], row["high"]], mean_of_strata(strata))
        assert row["runs"] == runs
    alone = mean_curves(table, by=("policy", "model", "query"))
    first = next(row for row in alone if (row["policy"], row["query"]) == ("ranked-exp3", "b"))
    mine = _rows(table, model="CM", policy="ranked-exp3", step=first["step"], query="b")
    assert first["mean"] == pytest.approx(np.mean([one["regret"] for one in mine]))


def test_shares_of_runs_at_the_end() -> None:
    table = made_up()
    last = units(table)
    for row in end_rows(table)[::17]:
        mine = [
            one["last_regret"]
            for one in last.to_pylist()
            if (one["policy"], one["model"]) == (row["policy"], row["model"])
        ]
        assert row["share"] == pytest.approx(np.mean(np.array(mine) >= row["regret"]))
        assert row["runs"] == 9
    assert end_rows(table)[0]["share"] == 0  # the first policy has no regret at the end
