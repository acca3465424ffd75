"""The report of a reproduction: a page that needs no network, and figures for print, of whatever results there are."""

import json
import re
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import vl_convert as vlc

from clickbandit.report.pages.reproduction import write_reproduction
from clickbandit.report.printing import COLUMN, PAGE
from pages import check
from report.browser import drawn
from report.results import made_up, made_up_discussion, made_up_queries
from report.test_page import self_contained

SETTINGS = {"scale": "quick", "positions": 5, "seed": 7, "input": {"log": ["a.tsv", "b.tsv"]}, "numpy": "2.0"}


def _specs(page: str) -> list[dict[str, Any]]:
    return [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("reproduction") / "new"
    return write_reproduction(folder, made_up(), made_up_queries(), SETTINGS, made_up_discussion())


def test_everything_is_written(written: list[Path]) -> None:
    folder = written[0].parent
    assert sorted(written) == sorted(folder.iterdir())
    assert written[0].name == "report.html"
    names = ("figure-1", "figure-2", "batchrank-versions", "bound", "discussion")
    assert {path.name for path in written[1:]} == {
        f"{name}.{kind}" for name in names for kind in ("svg", "pdf", "png")
    }


def test_figures_have_the_size_of_a_column_or_a_page(written: list[Path]) -> None:
    for path in written[1:]:
        inches = PAGE if path.stem == "figure-1" else COLUMN
        content = path.read_bytes()
        if path.suffix == ".png":
            assert content.startswith(b"\x89PNG")
            width = struct.unpack(">I", content[16:20])[0] / 300
        elif path.suffix == ".pdf":
            assert content.startswith(b"%PDF")
            width = float(re.search(rb"MediaBox \[0 0 ([\d.]+)", content)[1]) / 72  # type: ignore[index]
        else:
            width = float(re.search(r'width="([\d.]+)"', content.decode())[1]) / 96  # type: ignore[index]
        assert inches * 0.85 < width < inches * 1.05, path


def test_figures_show_what_they_should(written: list[Path]) -> None:
    svg = {path.stem: path.read_text() for path in written if path.suffix == ".svg"}
    for name in (
        "BatchRank (printed)",
        "BatchRank (experiment)",
        "CascadeKL-UCB",
        "RankedExp3",
        "(c) PBM, query",
    ):
        assert name in svg["figure-1"]
    for text in ("regret per step, in clicks", "share of runs", "CM", "PBM", "1e-2"):
        assert f">{text}<" in svg["figure-2"]
    assert "bound of Theorem 1" in svg["bound"]
    for text in ("KL", "Hoeffding", "with", "without", "1/4", "12"):
        assert f">{text}<" in svg["discussion"]
    lines = {stem: len(re.findall('aria-roledescription="line mark"', text)) for stem, text in svg.items()}
    assert lines == {"figure-1": 12, "figure-2": 16, "batchrank-versions": 4, "bound": 0, "discussion": 4}
    dashes = re.findall(
        r'aria-roledescription="line mark"[^>]*stroke-dasharray="([\d,]+)"', svg["discussion"]
    )
    assert dashes == ["6,3", "2,2"] * 2  # as printed, and without one of its parts
    for text in svg.values():
        assert "NaN" not in text
        assert "undefined" not in text


def test_the_page_tells_and_needs_no_network(written: list[Path]) -> None:
    page = written[0].read_text()
    assert self_contained(page)
    text = re.sub(r"<[^>]+>", "", page.partition("</style>")[2].partition("<noscript>")[0])
    for sentence in (
        "4 policies in the cascade model (CM) and the position-based model (PBM) of 3 queries",
        "10 items for 5 positions, 3 runs of 20,000 steps each",
        "Runs end after 20,000 steps, the paper&#x27;s after 10,000,000",
        "Each was run 3 times, not 10",
        "There are 3 queries, not 60",
        "it grows as L to the power 2.00",
        "input: loga.tsv, b.tsv",
        "seed7",
    ):
        assert sentence in text, sentence
    order = [
        "What the paper claims",
        "In the cascade model",
        "In the position-based model",
        "Figure 1",
        "Figure 2",
    ]
    places = [page.index(name) for name in (*order, "How it was made")]
    assert places == sorted(places)
    legend = set(re.findall(r'data-name="([^"]+)"', page))
    assert set(re.findall(r"<span>([^<]+)<small><code>", page)) == legend
    links = set(re.findall(r'href="([^"]+)"', page.partition("<noscript>")[0]))
    assert links == {path.name for path in written[1:]}


def test_every_chart_of_the_page_compiles_and_is_drawn(
    written: list[Path], capfd: pytest.CaptureFixture[str]
) -> None:
    specs = _specs(written[0].read_text())
    assert len(specs) == 4 + 3 + 2 + 2 + 2
    capfd.readouterr()
    for spec in specs:
        vlc.vegalite_to_vega({**spec, "width": 300}, show_warnings=True)
        assert capfd.readouterr().err == ""
    page = drawn(written[0])
    assert page.count("mark-group role-frame root") == len(specs)


@pytest.mark.parametrize(
    ("results", "sections", "figures"),
    [
        ({"policies": ["random"], "models": ["PBM"], "queries": ["a"], "runs": 1}, ["All queries"], 1),
        ({"policies": ["batchrank"], "models": ["CM"], "queries": ["a"]}, ["Single queries", "Theorem 1"], 3),
        ({"policies": ["cascade-kl-ucb"], "windows": 5, "runs": 1}, ["Single queries"], 2),
        ({"policies": ["mine.py:A", "mine.py:B"], "models": ["PBM"]}, ["All queries"], 1),
        ({"runs": 1}, ["Three queries", "Two versions", "Theorem 1"], 4),
    ],
)
def test_whatever_was_run_is_shown(
    tmp_path: Path, results: dict[str, Any], sections: list[str], figures: int
) -> None:
    written = write_reproduction(tmp_path, made_up(**results), made_up_queries(), {})
    page = written[0].read_text()
    for section in sections:
        assert f"<h2>{section}" in page
    assert "The discussion, shown" not in page
    assert len(written) == 1 + 3 * figures
    for path in written:
        assert path.stat().st_size > 5_000


def test_names_are_text(tmp_path: Path) -> None:
    nasty = '</script><b>&"'
    results = made_up(policies=["batchrank", nasty], queries=[nasty, "b"])
    written = write_reproduction(tmp_path, results, made_up_queries([nasty, "b"]), {nasty: nasty})
    page = written[0].read_text()
    assert nasty not in page
    assert any(nasty in spec["title"] for spec in _specs(page))
    (figure,) = [path for path in written if path.name == "figure-1.svg"]
    assert "query &lt;/script&gt;&lt;b&gt;&amp;" in figure.read_text()


def test_no_regret_at_all_makes_no_garbage(tmp_path: Path) -> None:
    results = made_up()
    place = results.schema.get_field_index("regret")
    zero = results.set_column(place, "regret", pa.array([0.0] * results.num_rows))
    written = write_reproduction(tmp_path, zero, made_up_queries(), {})
    assert len(written) == 1 + 3 * 4
    for path in written:
        if path.suffix == ".svg":
            assert "NaN" not in path.read_text()


def test_axe_finds_nothing(written: list[Path], chromium: Any, axe: str) -> None:
    with chromium.new_context(viewport={"width": 390, "height": 900}, color_scheme="dark") as context:
        page = context.new_page()
        page.goto(written[0].as_uri())
        page.locator(".chart svg").first.wait_for()
        assert check(page, axe) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
