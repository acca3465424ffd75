"""docs/click-ts.md is made from what was measured, and measuring goes on where it was stopped."""

import json
from pathlib import Path

import pytest
from benchmarks import click_ts, click_ts_page
from docs.figures import mark

from clickbandit import CascadeModel

STALE = "run: python -m benchmarks.click_ts --draw"
PART = click_ts.Part(
    "Two items", lambda: iter([("CM", "one", CascadeModel([0.9, 0.1]), 1)]), ["random"], 100, 3
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click_ts, "RUNS", tmp_path)


def test_the_page_is_up_to_date() -> None:
    results = json.loads(click_ts_page.DATA.read_text())
    text = click_ts_page.PAGE.read_text()
    assert click_ts_page.page(text, results) == text, STALE
    assert mark(click_ts_page.figure(results)) in click_ts_page.FIGURE.read_text(), STALE


def test_measuring_goes_on_where_it_was_stopped() -> None:
    click_ts.measure("two", PART, PART.policies, threads=1)
    first, second, third = (line for line in PART.file.read_text().splitlines() if line)
    PART.file.write_text(f"{first}\n{third}\n{second[:30]}")
    assert click_ts.gather(PART)["rows"][0][2]["one"] == [
        [json.loads(first)["regret"], json.loads(first)["last"]]
    ]
    click_ts.measure("two", PART, PART.policies, threads=1)
    assert sorted(run["run"] for run in click_ts.kept(PART.file)) == [0, 1, 2]
    ((model, policy, queries, curve),) = click_ts.gather(PART._replace(growth=True))["rows"]
    runs = [json.loads(line) for line in (first, second, third)]
    assert (model, policy) == ("CM", "random")
    assert queries == {"one": [[run["regret"], run["last"]] for run in runs]}
    assert len(curve) == len(click_ts_page.CURVE)
    assert curve[-1] == pytest.approx(sum(run["regret"] for run in runs) / 3, abs=0.06)


def test_policies_without_hope_are_run_no_further() -> None:
    """After twenty runs, and not before: over five times the least on the same users."""

    def runs(policy: str, regret: float, n: int) -> list[click_ts.Run]:
        return [{"policy": policy, "model": "CM", "steps": 100, "regret": regret}] * n

    part = PART._replace(policies=["cts", "grab", "random", "unirank"])
    found = [
        *runs("cts", 2.0, 20),
        *runs("grab", 11.0, 20),
        *runs("random", 11.0, 19),
        *runs("unirank", 9.0, 20),
    ]
    assert click_ts.hopeless(found, part) == {("CM", "grab")}


ROW = {"one": [[10, 2e-3], [20, 0]], "two": [[30, 0], [40, 0]]}
WORSE = {query: [[2 * regret + 100, last] for regret, last in runs] for query, runs in ROW.items()}
FOUND = {
    "title": "",
    "steps": 100,
    "against": "clicks",
    "rows": [["CM", "cts", WORSE, []], ["CM", "click-ts", ROW, []]],
}


def test_a_row_of_a_table() -> None:
    """Mean over queries, the 90th percentile and the number of losing runs over all runs."""
    *_, better, other = click_ts_page.table(FOUND).splitlines()
    assert better.startswith("| CM | `click-ts` | 4 | 25 | ")
    assert better.endswith(" | - | 37 | 1 | 5.0e-04 |")
    assert "| `cts` | 4 | 150 |" in other


def test_a_ratio_of_regrets() -> None:
    """25 / 150, with the error of 10, 20, 30, 40 less a sixth of 120, 140, 160, 180: -10, -10/3, 10/3, 10."""
    rows = click_ts_page.rows_of(FOUND)["CM"]
    ratio = click_ts_page.ratio(rows["click-ts"], rows["cts"])
    assert ratio.mean == pytest.approx(1 / 6)
    error = (2 * (20 / 3) ** 2 / 2 / 2) ** 0.5 / 2  # each query has two runs that differ by 20 / 3
    assert ratio.high - ratio.mean == pytest.approx(
        4.303 * error / 150, rel=1e-3
    )  # Student's, two degrees of freedom


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.1, 0.9, "yes"), (0.5, 1.3, "in the mean"), (0.9, 1.3, "not in the mean"), (1.1, 1.3, "no")],
)
def test_whether_it_was_reached(low: float, high: float, said: str) -> None:
    found = click_ts_page.Interval((low + high) / 2, low, high)
    assert click_ts_page.reached(found, 1.0) == said
