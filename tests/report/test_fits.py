"""How well click models predict clicks, drawn for print and as a page."""

import re
from pathlib import Path

import pandas
import pytest

from clickbandit.logs import Evaluation, count_log, evaluate, fit
from clickbandit.report.fits import perplexity_panels, save_perplexity
from report.browser import drawn
from report.test_page import self_contained


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    clicks = ["1 0", "1 0", "0 1", "1 1", "0 0"]
    counts = count_log(pandas.DataFrame({"query": ["q"] * 5, "list": ["a b"] * 5, "clicks": clicks}))
    return evaluate([fit(counts, name) for name in ("CM", "PBM", "GCTR")], counts, samples=2)


def test_every_model_has_its_perplexity_at_every_position(evaluation: Evaluation) -> None:
    alone, given = perplexity_panels(evaluation).values()
    scores = evaluation.models
    for panel, attribute in (
        (alone, "perplexity_by_position"),
        (given, "conditional_perplexity_by_position"),
    ):
        for value in panel["data"]["values"]:
            expected = getattr(scores[value["name"]], attribute)[value["position"] - 1]
            assert value["perplexity"] == pytest.approx(expected, rel=1e-3)
        assert len(panel["data"]["values"]) == 3 * 2


def test_it_is_drawn_in_every_format(evaluation: Evaluation, tmp_path: Path) -> None:
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG"), ("html", b"<!doctype html>")):
        save_perplexity(evaluation, tmp_path / f"figure.{kind}", kind)
        assert (tmp_path / f"figure.{kind}").read_bytes().startswith(start)
    svg = (tmp_path / "figure.svg").read_text()
    assert {"CM", "PBM", "GCTR", "position"} <= set(re.findall(r">([^<]+)</text>", svg))
    assert self_contained((tmp_path / "figure.html").read_text())
    page = drawn(tmp_path / "figure.html")
    assert page.count("mark-group role-frame root") == 2
    assert "fits best on 5 sessions" in page
