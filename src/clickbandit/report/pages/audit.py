"""An audit of a log's queries, in the terminal and as a page: which are ordered wrongly, and what that costs."""

import math
from pathlib import Path
from typing import Any

from clickbandit.logs.audit import Audit, Finding
from clickbandit.report.charts import GUIDE, Row, Spec, number, rounded
from clickbandit.report.page import Html, element, figure, table, write_page
from clickbandit.style import COLOURS
from clickbandit.terminal import print_table
from clickbandit.wording import counted

_BARS = 40
"""How many queries a chart shows."""
_COLOUR = COLOURS["blue"][0]
_VERDICTS = {"yes": "yes", "maybe": "not shown", "no": "no"}


def sentences(audit: Audit) -> list[str]:
    """What the audit found, and which of its numbers rest on the click model."""
    wrong = [finding for finding in audit.findings if finding.verdict == "yes"]
    more = sum(finding.more for finding in wrong)
    shares = sum(finding.measured * finding.sessions for finding in audit.findings)
    verb = "is" if len(wrong) == 1 else "are"
    told = (
        f"Of {counted(len(audit.findings), 'query', 'queries')} judged, {len(wrong):,} {verb} ordered wrongly"
    )
    gain = f": better lists would earn {more:,.0f} clicks on top of {shares:,.0f}, in as many sessions"
    return [
        f"{told}{gain if wrong else ''}.",
        "Sessions, and clicks on the usual list, are counted in the log. Everything else rests on the click model "
        f"{audit.model}: the better list, its gain with a 95% interval, and so the sessions that a test needs (two "
        "lists, half of the sessions each, 80% power at level 5%) and the clicks that it loses. The last column has "
        "the gain of the same list by other click models: where they disagree, test before you trust it.",
        *(
            [f"{counted(len(audit.refused), 'query has', 'queries have')} too little evidence to be judged."]
            if audit.refused
            else []
        ),
    ]


def print_audit(audit: Audit, top: int) -> None:
    """The queries with the most clicks to gain, and what there is to know about all."""
    print_table([_row(finding) for finding in audit.findings[:top]])
    if len(audit.findings) > top:
        print(f"and {len(audit.findings) - top:,} more: --json and --page have all")
    for sentence in sentences(audit):
        print(sentence)


def _row(finding: Finding) -> dict[str, Any]:
    low, high = min(finding.others.values(), default=0.0), max(finding.others.values(), default=0.0)
    return {
        "query": finding.query,
        "sessions": f"{finding.sessions:,}",
        "wrong": _VERDICTS[finding.verdict],
        "clicks per list": f"{finding.measured:.3f}",
        "gain": f"{finding.gain.mean:+.4f}",
        "95% interval": f"{finding.gain.low:+.4f} to {finding.gain.high:+.4f}",
        "moved": moved(finding),
        "unseen places": finding.new_places,
        "sessions to prove": _many(finding.to_prove),
        "test loses": f"{finding.cost:,.0f}",
        "other models": f"{low:+.4f} to {high:+.4f}" if finding.others else "-",
    }


def _many(sessions: float) -> str:
    return f"{math.ceil(sessions):,}" if math.isfinite(sessions) else "-"


def moved(finding: Finding) -> str:
    """How many items the better list shows elsewhere, and how many are new in it."""
    new = len(set(finding.better).difference(finding.usual))
    other = sum(one != two for one, two in zip(finding.usual, finding.better, strict=True)) - new
    return f"{other} moved, {new} new" if new else f"{other} moved"


def gains_panel(audit: Audit) -> Spec:
    """The gain of the better list of each query with its interval, the most clicks to gain first."""
    values: list[Row] = [
        {
            "query": finding.query,
            "wrong": _VERDICTS[finding.verdict],
            **{name: rounded(value) for name, value in finding.gain._asdict().items()},
        }
        for finding in audit.findings[:_BARS]
        if finding.verdict != "no"
    ]
    y = {"field": "query", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 160}}
    fields = [
        {"field": name, "type": kind, **({"format": "+.4f"} if kind == "quantitative" else {})}
        for name, kind in (
            ("query", "nominal"),
            ("mean", "quantitative"),
            ("low", "quantitative"),
            ("high", "quantitative"),
        )
    ]
    return {
        "title": audit.model,
        "data": {"values": values},
        "encoding": {"y": y, "tooltip": fields},
        "layer": [
            {
                "data": {"values": [{"x": 0}]},
                "mark": GUIDE,
                "encoding": {"x": number("x"), "y": {"value": 0}},
            },
            {
                "mark": {"type": "rule", "color": _COLOUR},
                "encoding": {"x": number("low", "more clicks per list"), "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "color": _COLOUR},
                "encoding": {"x": number("mean")},
            },
        ],
    }


def write_audit(path: Path, audit: Audit) -> None:
    """Write an audit as a page."""
    promising = [finding for finding in audit.findings if finding.verdict != "no"]
    parts: list[object] = [element("p", sentence) for sentence in sentences(audit)]
    if promising:
        caption = (
            "How many more clicks the better list is expected to earn than the usual one, by the click model "
            f"{audit.model}, with 95% intervals from the uncertainty of its fit; queries with the most to gain first."
        )
        height = 30 + 18 * min(len(promising), _BARS)
        parts.append(figure({"gains": gains_panel(audit)}, caption, height=height, across=1))
    parts += [element("h2", "All queries"), table([_row(finding) for finding in audit.findings])]
    if promising:
        parts += [element("h2", "The better lists"), *map(_lists, promising)]
    if audit.refused:
        rows = [{"query": name, "why": why} for name, why in audit.refused.items()]
        parts += [element("h2", "Too little evidence"), table(rows)]
    write_page(path, "clickbandit: an audit of a click log", parts)


def _lists(finding: Finding) -> Html:
    """The usual list next to the better one, and what other models say of it."""
    before = {item: place for place, item in enumerate(finding.usual, start=1)}
    rows = [
        {"position": place, "usual": usual, "better": better, "stood at": before.get(better, "-")}
        for place, (usual, better) in enumerate(zip(finding.usual, finding.better, strict=True), start=1)
    ]
    others = ", ".join(f"{name} {gain:+.4f}" for name, gain in finding.others.items())
    by_others = f" By other click models: {others}." if others else ""
    note = f"Gain {finding.gain.mean:+.4f} clicks per list, better with probability {finding.chance:.3f}.{by_others}"
    return element("details", element("summary", finding.query), element("p", note), table(rows))
