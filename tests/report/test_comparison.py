"""The report of a comparison: few policies and many, all of them readable, and what is pointed at stands out."""

import json
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickbandit.experiments.comparison import all_policies
from clickbandit.experiments.results import Results
from clickbandit.report.pages.comparison import print_comparison, write_comparison
from clickbandit.report.printing import PAGE
from report.browser import drawn
from report.results import made_up, made_up_queries
from report.test_page import self_contained

MODELS = ("CM", "PBM")
HEIGHT = 440


def compared(policies: Sequence[str], models: Sequence[str] = MODELS, **settings: object) -> Results:
    manifest = {
        "settings": {
            "kind": "comparison",
            "queries": "queries.json",
            "steps": 20_000,
            "runs": 3,
            "positions": 5,
            "seed": 1,
            "drift": [],
            "delay": 0,
            "flip": 0.0,
            "left out": ["no query has the click models UBM"],
            "told more": ["pbm-pie"],
            "leaping": ["batchrank"],
            **settings,
        },
        "versions": {"numpy": "2.0"},
    }
    ns = {(model, policy): 100.0 for model in models for policy in policies}
    return Results(made_up(policies, models), made_up_queries(), manifest, ns)


FOUR_POLICIES = ("batchrank", "pbm-pie", "toprank", "random")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_comparison(tmp_path_factory.mktemp("comparison"), compared(all_policies()))[0]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_comparison(tmp_path_factory.mktemp("comparison"), compared(FOUR_POLICIES))[0]


def specs(page: str) -> list[dict[str, Any]]:
    return [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page)]


def test_the_page_needs_no_network(many: Path) -> None:
    assert self_contained(many.read_text())


def test_the_page_says_what_was_found(few: Path) -> None:
    page = few.read_text()
    text = re.sub(r"<[^>]*>", "", page)
    assert (
        "4 policies on 2 click models (CM, PBM) of 3 queries: 10 items for 5 positions, 3 runs of 20,000 steps."
        in text
    )
    assert "Best overall: BatchRank, with 1.00 times the least regret" in text
    assert "Best in the worst case: BatchRank" in text
    assert "Left out: no query has the click models UBM." in text
    assert page.count("<code>pbm-pie</code></small></span></span>†") == 2
    assert page.count(">100*<") == 2
    assert "Feedback is" not in text


def test_the_page_says_what_users_are_like(tmp_path: Path) -> None:
    results = compared(FOUR_POLICIES, drift=[5000, 9000], delay=30, flip=0.05)
    page = write_comparison(tmp_path, results)[0].read_text()
    assert "taste changes after step 5,000, 9,000." in page
    assert "Feedback is 30 steps late." in page
    assert "5.00% is inverted" in page


def test_figures_for_print(many: Path) -> None:
    for name in ("regret", "heat-map"):
        svg = many.with_name(f"{name}.svg").read_text()
        assert svg.count(">CTS<") == (2 if name == "regret" else 1)
        width = struct.unpack(">I", many.with_name(f"{name}.png").read_bytes()[16:20])[0] / 300
        assert PAGE * 0.8 < width < PAGE * 1.2
        assert many.with_name(f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert ">worst case<" in svg


def test_every_line_has_a_label_and_no_two_overlap(many: Path) -> None:
    charts = specs(many.read_text())
    assert [chart["title"] for chart in charts] == list(MODELS)
    for chart in charts:
        low, high = chart["layer"][0]["encoding"]["y"]["scale"]["domain"]
        label = {row["name"]: row["label"] for row in chart["data"]["values"] if "label" in row}
        end = {row["name"]: row["mean"] for row in chart["data"]["values"] if "label" in row}
        assert len(label) == len(all_policies())
        places = HEIGHT * np.log(np.sort(list(label.values())) / low) / np.log(high / low)
        assert np.diff(places).min() > 13.5
        assert places.min() > -1
        assert places.max() < HEIGHT + 1
        assert sorted(label, key=lambda name: label[name]) == sorted(end, key=lambda name: end[name])


def test_the_line_whose_key_is_pointed_at_stands_out(few: Path) -> None:
    def faint(page: str) -> int:
        return len(re.findall(r'<path[^>]*stroke-width="2"[^>]*opacity="0\.12"', page))

    def lines(page: str) -> int:
        return len(re.findall(r'<path[^>]*stroke-width="2"[^>]*stroke-dasharray', page))

    point = "document.querySelector('button.key').dispatchEvent(new Event('pointer%s'))"
    pointed = drawn(few, f"setTimeout(() => {point % 'enter'}, 2000)")
    assert faint(pointed) == (len(FOUR_POLICIES) - 1) * len(MODELS)
    left = drawn(few, f"setTimeout(() => {{ {point % 'enter'}; {point % 'leave'} }}, 2000)")
    assert faint(left) == 0
    assert lines(left) >= len(FOUR_POLICIES) * len(MODELS)


def test_the_terminal_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison(compared(FOUR_POLICIES))
    out = capsys.readouterr().out
    rows = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()]
    boards = [row for row in rows if len(row) == 10 and row[0] in ("1", "2", "3", "-")]
    assert [row[1] for row in boards] == ["batchrank", "pbm-pie†", "toprank", "random"] * 2
    assert [row[0] for row in boards] == ["1", "2", "3", "-"] * 2
    assert {row[9] for row in boards} == {"100*", "100"}
    assert boards[0][4] == "-"
    assert "Regret is against the list with the most expected clicks" in out
    assert out.splitlines()[-2:] == [
        "Best overall: batchrank, with 1.00 times the least regret on a model, in the geometric mean over 2 models",
        "Best in the worst case: batchrank, with at most 1.00 times the least regret, in CM",
    ]


def test_a_single_model_has_nothing_to_sum_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = compared(FOUR_POLICIES, ("CM",))
    print_comparison(results)
    out = capsys.readouterr().out
    assert "Over all click models" not in out
    assert out.splitlines()[-1] == "The least regret: batchrank"
    assert "worst case" not in write_comparison(tmp_path, results)[0].read_text().partition("<script")[0]
