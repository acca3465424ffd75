"""The paper's figures show what they say: the queries by their rules, and numbers that are those of the results."""

import numpy as np
import pytest

from clickbandit.queries import best_list
from clickbandit.report import claims, paper
from clickbandit.report.statistics import Curves, curves
from clickbandit.report.styles import looks
from clickbandit.theory import regret_bound
from report.results import made_up, made_up_discussion, made_up_queries

STEPS = np.arange(1, 11) * 100


def _curves(**regret: list[float]) -> Curves:
    """Two runs on each query, whose mean is this regret a step by window."""
    values = np.array(list(regret.values()))
    return Curves(list(regret), STEPS, np.stack([values * 0.9, values * 1.1], axis=1))


BATCHRANK = _curves(
    usual=[0.1, 0.1, 0.01, 0.002, 0, 0, 0, 0, 0, 0],
    soon=[0.2, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    small=[1e-4] * 10,  # never learned, but there is nothing to lose
    late=[0.05, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.002, 0],
    back=[0.1, 0, 0, 0, 0, 0, 0, 0.002, 0, 0],
)
CASCADE = _curves(
    best=[0.9, 0.5, 0.1, 0, 0, 0, 0, 0, 0, 0.001],
    stuck=[0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01],
)


def test_queries_are_chosen_by_rule() -> None:
    found = {
        ("batchrank", "CM"): CASCADE,
        ("batchrank:variant=experiment", "CM"): BATCHRANK,
        ("batchrank:variant=experiment", "PBM"): CASCADE,
        ("cascade-kl-ucb:feedback=last", "CM"): CASCADE,
        ("cascade-kl-ucb:feedback=last", "PBM"): CASCADE,
    }
    chosen = paper.choose(found)
    assert [(choice.model, choice.query) for choice in chosen] == [
        ("CM", "soon"),
        ("CM", "late"),
        ("PBM", "stuck"),
    ]
    assert "95%" in chosen[0].rule
    assert "0.001" in chosen[1].rule
    assert "last 10%" in chosen[2].rule


def test_of_queries_that_are_never_learned_the_one_with_the_most_regret_is_late() -> None:
    never = _curves(much=[0.02] * 10, little=[0.002] * 10, soon=[0.2, *[0.001] * 9])
    assert [choice.query for choice in paper.choose({("batchrank", "CM"): never})] == ["soon", "much"]


def test_fewer_queries_are_chosen_where_there_are_fewer_results() -> None:
    one = _curves(only=[0.1] * 10)
    assert [choice.query for choice in paper.choose({("batchrank:bounds=kl", "CM"): one})] == ["only"]
    assert (
        paper.choose({("random", "CM"): one, ("batchrank", "PBM"): one, ("cascade-kl-ucb", "CM"): one}) == []
    )


def test_three_queries_show_their_own_regret() -> None:
    results = made_up()
    look = looks(results["policy"].unique().to_pylist())
    choices = [paper.Choice("PBM", "b", ""), paper.Choice("CM", "a", "")]
    panels = paper.three_queries(results, choices, look)
    assert [panel["title"] for panel in panels.values()] == ["(a) PBM, query b", "(b) CM, query a"]
    for panel, choice in zip(panels.values(), choices, strict=True):
        point = next(
            value
            for value in panel["data"]["values"]
            if (value["name"], value["step"]) == ("RankedExp3", 20_000)
        )
        rows = [
            row["regret"]
            for row in results.to_pylist()
            if (row["policy"], row["model"], row["query"], row["step"])
            == ("ranked-exp3", choice.model, choice.query, 20_000)
        ]
        assert point["mean"] == pytest.approx(np.mean(rows), rel=1e-3)
    domains = {tuple(panel["layer"][-1]["encoding"]["y"]["scale"]["domain"]) for panel in panels.values()}
    assert len(domains) == 1


def test_versions_of_batchrank_side_by_side() -> None:
    results = made_up()
    rows = paper.variant_rows(curves(results))
    assert [(row["model"], row["query"]) for row in rows] == [
        (model, query) for model in ("CM", "PBM") for query in "abc"
    ]
    for row, policy in ((rows[4], "experiment"), (rows[4], "printed")):
        name = "batchrank" if policy == "printed" else "batchrank:variant=experiment"
        mine = [
            one["regret"] * 1000
            for one in results.to_pylist()
            if (one["policy"], one["model"], one["query"]) == (name, "PBM", "b")
        ]
        assert row[policy] == pytest.approx(sum(mine) / 3)
    values = paper.variants(rows)["variants-PBM"]["data"]["values"]
    assert values[1]["ratio"] == pytest.approx(rows[4]["printed"] / rows[4]["experiment"], rel=1e-3)
    assert paper.variant_rows(curves(made_up(policies=["batchrank", "random"]))) == []


def test_the_bound_beside_the_regret() -> None:
    queries = made_up_queries()
    found = curves(made_up())
    rows = [one._asdict() for one in claims.bounds(found, queries, 5)]
    assert len(rows) == 6
    users = queries[1].model("PBM")
    row = rows[4]
    assert (row["model"], row["query"]) == ("PBM", "b")
    assert row["bound"] == regret_bound(users, 5, 20_000)
    assert row["most"] == pytest.approx(20_000 * best_list(users, 5)[1])
    assert row["regret"] == pytest.approx(found["batchrank", "PBM"].cumulative[1, :, -1].mean())
    panel = paper.bounds([*rows, {**row, "bound": np.inf}])["bound-PBM"]
    bounds = [value["value"] for value in panel["data"]["values"] if value["name"] == "bound of Theorem 1"]
    assert len(bounds) == 3
    assert bounds == sorted(bounds)


def test_the_discussion_has_a_line_for_each_policy() -> None:
    panels = paper.discussed(made_up_discussion())
    values = panels["discussion-bounds"]["data"]["values"]
    hoeffding = {value["x"]: value["mean"] for value in values if "Hoeffding" in value["name"]}
    assert hoeffding == pytest.approx({1: 100, 0.25: 400, 0.0625: 1600})
    assert all(value["low"] < value["mean"] < value["high"] for value in values)
    values = panels["discussion-elimination"]["data"]["values"]
    assert [value["mean"] for value in values if "no elimination" in value["name"]] == pytest.approx(
        [900, 3600, 14400]
    )
