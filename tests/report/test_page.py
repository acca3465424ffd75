"""Pages need no network, show what they are given as text, and their charts are drawn and react."""

import re
from pathlib import Path

import pytest

from clickbandit.report.page import Html, element, escaped, table
from clickbandit.report.pages.simulation import write_report
from clickbandit.report.styles import looks
from report.browser import drawn
from report.results import PAPER, made_up


def self_contained(page: str) -> bool:
    """Whether a page names nothing that a browser would fetch."""
    without_scripts = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    fetched = r"""<(?:link|img|iframe|object|embed|source)\b|\bsrc\s*=|url\(|@import|href\s*=\s*["']?(?:https?:)?//"""
    return not re.search(fetched, without_scripts) and not re.search(r"<script[^>]*\bsrc", page)


@pytest.mark.parametrize(
    "text",
    ['<img src="x">', "<script src='a.js'></script>", "<p style='background: url(a)'>", '<a href="//x">'],
)
def test_a_page_that_fetches_is_found(text: str) -> None:
    assert not self_contained(f"<p>{text}</p>")


def test_a_report_needs_no_network(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", made_up(), {"seed": 1})
    assert self_contained((tmp_path / "report.html").read_text())


def test_text_is_escaped() -> None:
    assert escaped("<&>") == "&lt;&amp;&gt;"
    assert escaped(Html("<b>")) == "<b>"
    assert element("a", "x < y", title='"', aria_label="z") == '<a title="&quot;" aria-label="z">x &lt; y</a>'


def test_tables() -> None:
    made = table([{"<n>": 1234, "text": "<i>", "share": "5%"}, {"<n>": 7, "text": "2 of 3", "share": "-"}])
    assert '<th class="number">&lt;n&gt;</th>' in made
    assert '<td class="number">1,234</td>' in made
    assert "<td>&lt;i&gt;</td>" in made
    assert '<td class="number">-</td>' in made


def test_names_cannot_break_a_page(tmp_path: Path) -> None:
    nasty = "</script><script>document.title = 'broken'</script><!--"
    path = tmp_path / "report.html"
    write_report(path, made_up(policies=[nasty, "random"], models=["PBM"]), {nasty: nasty})
    assert nasty not in path.read_text()
    page = drawn(path)
    assert "<title>clickbandit: regret of policies</title>" in page
    assert page.count("role-axis-title") == 2


def test_charts_are_drawn_and_react(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, made_up(), {})

    def labels(page: str) -> list[list[str]]:
        groups = re.findall(r'role-axis-label".*?</g>', page, flags=re.S)
        return [re.findall(r">([^<]+)</text>", group) for group in groups]

    def lines(page: str) -> int:
        marks = re.findall(r'class="mark-line role-mark[^"]*"[^>]*>(.*?)</g>', page, flags=re.S)
        return sum(mark.count("<path") for mark in marks)

    page = drawn(path)
    assert page.count('class="chart"') == 2
    assert lines(page) == 2 * 4
    assert labels(page)[1] == labels(page)[3] == ["1e-2", "1e-1"]
    over = "const svg = document.querySelector('.chart svg.marks'), box = svg.getBoundingClientRect();"
    over += "const at = {clientX: box.x + 200, clientY: box.y + 150, bubbles: true, view: window};"
    over += "const mark = document.elementFromPoint(at.clientX, at.clientY);"
    over += (
        "for (const kind of ['pointerover', 'pointermove']) mark.dispatchEvent(new PointerEvent(kind, at));"
    )
    page = drawn(path, f"setTimeout(() => {{ {over} }}, 3000)")
    told = re.findall(r"<td[^>]*>([^<]*)</td>", page.partition('id="vg-tooltip-element"')[2])
    tooltip = dict(zip(told[::2], told[1::2], strict=True))
    assert list(tooltip) == ["policy", "step", "regret per step", "95% from", "to", "runs"]
    assert tooltip["policy"] in {one.name for one in looks(PAPER).values()}
    assert float(tooltip["95% from"]) < float(tooltip["regret per step"]) < float(tooltip["to"])
    assert tooltip["runs"] == "3"
    page = drawn(path, "document.querySelector('button.scale').click()")
    assert labels(page)[1][0] == "0"
    assert "logarithmic scale" in page
    page = drawn(path, "document.querySelectorAll('button.key')[1].click()")
    assert lines(page) == 2 * 3
    assert 'aria-pressed="false"' in page
