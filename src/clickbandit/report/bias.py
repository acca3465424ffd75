"""The examination curve of a log, as a table and as a figure."""

from collections.abc import Sequence
from pathlib import Path

from clickbandit.logs.bias import PositionBias
from clickbandit.report.charts import Row, Spec, live, number, rounded
from clickbandit.report.page import figure, write_page
from clickbandit.report.printing import COLUMN, printed
from clickbandit.report.styles import PALETTE
from clickbandit.terminal import print_table

NOTE = (
    "Click rates are counted. Examination rests on the position-based model and is relative to the first position: the "
    "share of those who look there that look here; with 95% intervals."
)
_TOOLTIP = {
    "position": ("position", ",d"),
    "mean": ("examination", ".3f"),
    "low": ("95% from", ".3f"),
    "high": ("to", ".3f"),
}


def print_bias(places: Sequence[PositionBias]) -> None:
    """The curve in the terminal."""
    print_table(
        [
            {
                "position": place.position,
                "impressions": f"{place.impressions:,}",
                "click rate": f"{place.rate:.4f}",
                "examination": f"{place.examination.mean:.3f}",
                "95% interval": f"{place.examination.low:.3f} to {place.examination.high:.3f}",
            }
            for place in places
        ]
    )
    print(NOTE)


def bias_panel(places: Sequence[PositionBias]) -> Spec:
    """Examination by position with its band."""
    values: list[Row] = [
        {
            "position": place.position,
            **{name: rounded(value) for name, value in place.examination._asdict().items()},
        }
        for place in places
    ]
    top = max([1.0, *(row["high"] for row in values)])
    y = number("mean", "examination", scale={"domain": [0, top]})
    colour = {"value": PALETTE[0]}
    return {
        "title": "",
        "data": {"values": values},
        "encoding": {"x": number("position", "position", axis={"tickMinStep": 1, "grid": False})},
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.16},
                "encoding": {"y": number("low"), "y2": {"field": "high"}, "color": colour},
            },
            {"mark": {"type": "line", "point": True}, "encoding": {"y": y, "color": colour}},
        ],
    }


def save_bias(places: Sequence[PositionBias], path: Path, kind: str) -> None:
    """Draw the curve as svg or png for print, or as a page in html, which needs no network."""
    panel = bias_panel(places)
    if kind == "html":
        write_page(
            path,
            "How users look at lists",
            [figure({"bias": live(panel, _TOOLTIP)}, NOTE, height=320, across=1)],
        )
    else:
        path.write_bytes(printed([panel], across=1, inches=COLUMN, height=180)[kind])
