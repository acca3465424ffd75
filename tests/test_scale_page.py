"""docs/scale.md: what follows there follows from what was measured."""

from pathlib import Path

import pytest
from benchmarks.scale import BEGIN, QUERIES, Costs, row

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
COSTS = Costs(count=2e-6, fit=4e-3, kept=2e3, run=0.1, list=4e-4, stored=5e4)


def tables() -> dict[str, list[str]]:
    """The cells of each row of what is generated, by the first."""
    lines = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {name: rest for name, *rest in cells}


def test_work_grows_with_the_queries_and_is_shared_out() -> None:
    found = row(10_000, COSTS)
    assert found["fit: core hours"] == "0.02"  # 10,000 (1,776 * 2 us + 4 ms) = 75.5 s
    assert found["on two cores"] == "37.8 s"
    assert found["compare: core hours"] == "22.22"  # 10,000 * 2 models * 4 policies * 10 runs * 0.1 s
    assert found["on 100 cores "] == "13.3 min"
    assert found["dollars "] == "1.11"
    assert found["live: lists/s at the peak"] == "34.7"  # 3 * 10,000 * 100 lists / 86,400 s
    assert found["cores at the peak"] == "0.01"
    assert found["store GB"] == "0.500"


def test_the_page_is_true_to_its_own_measurements() -> None:
    found = tables()
    names = [
        *(
            "read and count a session",
            "fit CM and PBM to a query of 1,776 sessions",
            "a query's counts on disk",
        ),
        *("a run of a million steps, the paper's policies", "a list live, with its click, in one process"),
        "a query in the store after 100 lists",
    ]
    sizes = {"us": 1e-6, "ms": 1e-3, "kB": 1e3}
    measured = [found[name][0].split() for name in names]
    costs = Costs(*(float(number) * sizes[unit] for number, unit in measured))
    assert found["queries"] == [f"{queries:,}" for queries in QUERIES]
    for n, queries in enumerate(QUERIES):
        expected = row(queries, costs)
        for name in ("compare: core hours", "cores at the peak", "store GB"):
            told, right = (float(text.replace(",", "")) for text in (found[name][n], expected[name]))
            assert told == pytest.approx(right, rel=0.02, abs=0.011)
