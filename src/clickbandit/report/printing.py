"""Figures for papers: panels put together at the size of a column or of a page, as SVG, PDF and PNG."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clickbandit.extras import vlc
from clickbandit.report.charts import Spec

COLUMN, PAGE = 3.25, 6.75
"""How wide a column and a page of two columns are, in inches."""
_DOTS, _POINTS, _RESOLUTION = 96, 72, 300  # of an inch: in SVG, in PDF and in PNG
_AXIS_WIDTH, _PANEL_GAP = 36, 12  # what an axis with its labels takes, and what is left between panels
_TITLE = 14  # what the title of the first y axis takes
_NARROW = 150  # a panel of less than this has room for few labels
_CONFIG: dict[str, Any] = {
    "background": "white",
    "font": "Helvetica, Arial, Liberation Sans, sans-serif",
    "view": {"stroke": None},
    "title": {"anchor": "start", "frame": "group", "fontSize": 9.5, "fontWeight": 600, "offset": 5},
    "axis": {
        "labelFontSize": 9,
        "titleFontSize": 9.5,
        "titleFontWeight": "normal",
        "titlePadding": 4,
        "tickSize": 3,
        "gridColor": "#DDDDDD",
        "gridWidth": 0.6,
    },
    "line": {"strokeWidth": 1.4},
    "point": {"size": 14},
    "text": {"fontSize": 9},
}


def save_figure(path: Path, panels: Sequence[Spec], **layout: Any) -> list[Path]:
    """Write a figure in each format, under this path with the format's ending."""
    files = {path.with_suffix(f".{kind}"): content for kind, content in printed(panels, **layout).items()}
    for file, content in files.items():
        file.write_bytes(content)
    return list(files)


def printed(
    panels: Sequence[Spec],
    *,
    across: int,
    inches: float,
    height: int = 110,
    labels: int = 0,
    legend: Mapping[str, Any] | None = None,
) -> dict[str, bytes]:
    """Panels, that many side by side, as one figure in each format: svg, pdf and png.

    To the right of each panel that many pixels are left for labels.
    """
    width = int((inches * _DOTS - _TITLE - _PANEL_GAP * (across - 1)) / across - _AXIS_WIDTH - labels)
    spec = {
        "concat": [_sized(panel, width, height, first=i % across == 0) for i, panel in enumerate(panels)],
        "columns": across,
        **({} if legend else {"resolve": {"scale": {"color": "independent", "strokeDash": "independent"}}}),
        "spacing": _PANEL_GAP,
        "padding": 2,
        "config": {
            **_CONFIG,
            "axisX": {"tickCount": 2 if width < _NARROW else 5},
            "legend": {"labelFontSize": 9.5, "offset": 8, **(legend or {"disable": True})},
        },
    }
    svg = vlc.vegalite_to_svg(spec)
    small = _resized(svg, _POINTS / _DOTS)
    return {
        "svg": svg.encode(),
        "pdf": vlc.svg_to_pdf(small),
        "png": vlc.svg_to_png(small, ppi=_RESOLUTION),
    }


def _sized(panel: Spec, width: int, height: int, *, first: bool) -> Spec:
    """The panel at its size; only the first of a row says what its y axis shows."""
    *others, main = panel["layer"]
    if not first:
        main = {**main, "encoding": {**main["encoding"], "y": {**main["encoding"]["y"], "title": None}}}
    return {**panel, "width": width, "height": height, "layer": [*others, main]}


def _resized(svg: str, times: float) -> str:
    """The picture with other measures: what reads it takes a pixel for a point."""
    size = r'width="([\d.]+)" height="([\d.]+)"'
    return re.sub(
        size,
        lambda found: f'width="{float(found[1]) * times}" height="{float(found[2]) * times}"',
        svg,
        count=1,
    )
