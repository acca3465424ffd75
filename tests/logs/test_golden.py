"""The parameters that the real log must give, and PyClick's numbers with `compat`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickbandit.logs import Counts, count_log, evaluate, fit


@pytest.fixture(scope="module")
def golden(shared: Path) -> dict[str, Any]:
    return json.loads((shared / "logs" / "golden-train.json").read_text())


@pytest.fixture(scope="module")
def counts(shared: Path) -> Counts:
    return count_log(shared / "logs" / "wscd-train.tsv.gz", format="yandex-relpred")


def test_everything_is_counted(counts: Counts, golden: dict[str, Any]) -> None:
    found = [counts.n_sessions, counts.n_queries, counts.n_pairs, counts.reading.clicks]
    assert found == [golden[name] for name in ("sessions", "queries", "query_documents", "clicks")]
    assert counts.reading.odd == {"clicks on nothing shown": 417, "repeated clicks": 7201}
    assert counts.impressions[_rows(counts, golden)].tolist() == golden["impressions"]


@pytest.mark.parametrize(
    ("section", "model"),
    [("smoothed", name) for name in ("GCTR", "RCTR", "DCTR", "CM", "DCM", "SDBN", "PBM", "UBM")]
    + [("exact", "DBN"), ("pyclick", "DBN"), ("pyclick", "CCM")],
)
def test_parameters_are_the_golden_ones(
    counts: Counts, golden: dict[str, Any], section: str, model: str
) -> None:
    compat = "pyclick" if section == "pyclick" else None
    found = dict(fit(counts, model, iterations=50, compat=compat).parameters)
    if model == "DCM":
        found["continuation"] = 1 - found.pop("termination")
    values_of = golden[section][model]
    for name, expected in (values_of if isinstance(values_of, dict) else {"rate": values_of}).items():
        values = found[name][_rows(counts, golden)] if len(found[name]) == counts.n_pairs else found[name]
        if model == "UBM" and name == "examination":  # a square whose last column is for no click above
            expected = [row[p] if p < k else row[-1] for k, row in enumerate(expected) for p in range(k + 1)]
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)


def test_exact_dbn_is_more_likely_than_that_of_pyclick(counts: Counts) -> None:
    exact, compat = (fit(counts, "DBN", iterations=50, compat=compat) for compat in (None, "pyclick"))
    scores = [
        evaluate([found], counts, samples=1).models["DBN"].log_likelihood.value for found in (exact, compat)
    ]
    assert scores[0] > scores[1] + 0.01


def _rows(counts: Counts, golden: dict[str, Any]) -> list[int]:
    place = {tuple(pair.values()): i for i, pair in enumerate(counts.pairs.to_pylist())}
    return [place[query, item] for query, item in golden["pairs"]]
