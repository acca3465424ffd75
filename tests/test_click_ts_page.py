"""docs/click-ts.md is made from what was measured, and measuring goes on where it was stopped."""

import json
from pathlib import Path

import pytest
from benchmarks import click_ts
from docs.figures import mark

from clickbandit import CascadeModel

STALE = "run: python -m benchmarks.click_ts --draw"
PART = click_ts.Part("Two items", lambda: [("CM", "one", CascadeModel([0.9, 0.1]), 1)], ["random"], 100, 3)


def test_the_page_is_up_to_date() -> None:
    results = json.loads(click_ts.RESULTS.read_text())
    text = click_ts.PAGE.read_text()
    assert click_ts.page(text, results) == text, STALE
    assert mark(click_ts.figure(results)) in click_ts.FIGURE.read_text(), STALE


def test_measuring_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click_ts, "RUNS", tmp_path)
    click_ts.measure("two", PART, threads=1)
    file = tmp_path / "two.jsonl"
    first, second, third = file.read_text().splitlines()
    file.write_text(f"{first}\n{third}\n{second[:30]}")
    click_ts.measure("two", PART, threads=1)
    assert sorted(run["run"] for run in click_ts.kept(file)) == [0, 1, 2]
    (row,) = click_ts.gather("two", PART)["rows"]
    assert row[:2] == ["CM", "random"]
    assert [run for _, run, _, _ in row[2]] == [0, 1, 2]
    again = [json.loads(line) for line in (first, second, third)]
    assert {run["run"]: run["regret"] for run in again} == {run: regret for _, run, regret, _ in row[2]}


def test_a_row_of_a_table() -> None:
    """Mean over queries, the 90th percentile and the share of losing runs over all runs."""
    runs = [["one", 0, 10, 2e-3], ["one", 1, 20, 0], ["two", 0, 30, 0], ["two", 1, 40, 0]]
    worse = [[query, run, regret + 100, last] for query, run, regret, last in runs]
    found = {"steps": 100, "against": "clicks", "rows": [["CM", "cts", worse], ["CM", "click-ts", runs]]}
    *_, better, other = click_ts.table(found).splitlines()
    assert better.startswith("| CM | `click-ts` | 25 | ")
    assert better.endswith(" | - | 37 | 1 of 4 | 5.0e-04 |")
    assert "| `cts` | 125 |" in other
    assert "| 100 to 100 |" in other
