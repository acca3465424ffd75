"""Charts of results, as Vega-Lite specifications: regret over time and at the end, with the same looks everywhere.

Each function gives a panel without a legend, to be put on a page or into a figure for print; the last of its layers is
what it is about. On a page it is made `live`. `beside` makes a whole chart of panels, for a notebook.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clickbandit.errors import InputError
from clickbandit.extras import pa, pc, vlc
from clickbandit.intervals import mean_of_strata
from clickbandit.report.statistics import curves, units, whole_runs
from clickbandit.report.styles import Look, looks

Row = dict[str, Any]
Spec = dict[str, Any]
Tooltip = Mapping[str, tuple[str, str]]
"""What a point says: for each field a title and a format."""

_MIN_DRAWN = 1e-4  # of the highest regret: what is below has no place in the picture


# --- regret over time ---------------------------------------------------------------------------------------


def mean_curves(table: pa.Table, by: Sequence[str] = ("policy", "model")) -> list[Row]:
    """For each of these and each step: the regret per step, averaged over queries, with its 95% interval over runs."""
    rows = []
    for (policy, model), mine in sorted(curves(whole_runs(table)).items()):
        names = {"policy": policy, "model": model}
        parts = [(names, mine.regret)]
        if "query" in by:
            parts = [
                ({**names, "query": query}, mine.regret[i : i + 1]) for i, query in enumerate(mine.queries)
            ]
        for name, regret in parts:
            for window, step in enumerate(mine.steps.tolist()):
                interval = mean_of_strata(regret[:, :, window])
                rows.append({**name, "step": step, **interval._asdict(), "runs": regret.shape[1]})
    return rows


def by_model(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by their click models, in the order in which these come."""
    models = dict.fromkeys(row["model"] for row in rows)
    return {model: [row for row in rows if row["model"] == model] for model in models}


def regret_panel(
    rows: Sequence[Row], look: Mapping[str, Look], title: str = "", span: tuple[float, float] | None = None
) -> Spec:
    """The regret per step of each policy over time, on a logarithmic scale that may be that of other panels."""
    low, high = span or log_range(row["mean"] for row in rows)
    below = low / 10  # a logarithmic scale has no place for zero: it is under the picture
    values = [
        {
            "name": look[row["policy"]].name,
            "step": row["step"],
            "runs": row["runs"],
            **{key: rounded(max(row[key], below)) for key in ("mean", "low", "high")},
        }
        for row in rows
    ]
    y = number("mean", "regret per step, in clicks", scale=log_scale(low, high), axis=log_axis(low, high))
    band = {"y": number("low"), "y2": {"field": "high"}, "color": policy_colour(look)}
    return {
        "title": title,
        "data": {"values": values},
        "encoding": {"x": number("step", "step", axis=STEPS_AXIS)},
        "layer": [
            {"mark": {"type": "area", "opacity": min(0.16, 1 / len(look)), "clip": True}, "encoding": band},
            policy_lines(look, y),
        ],
    }


REGRET_TOOLTIP = {
    "name": ("policy", ""),
    "step": ("step", ","),
    "mean": ("regret per step", ".3g"),
    "low": ("95% from", ".3g"),
    "high": ("to", ".3g"),
    "runs": ("runs", ","),
}


def regret_chart(table: pa.Table, *, width: int = 420, height: int = 300) -> "Chart":
    """The expected regret per step over time, on a logarithmic scale, side by side for each click model."""
    look = looks(table["policy"].unique().to_pylist())
    return beside(live_regret(table, look).values(), width=width, height=height)


def live_regret(table: pa.Table, look: Mapping[str, Look]) -> dict[str, Spec]:
    """A live panel of the regret over time for each click model, in the order of the table."""
    rows = by_model(mean_curves(table))
    return {
        model: live(regret_panel(rows[model], look, model), REGRET_TOOLTIP)
        for model in table["model"].unique().to_pylist()
    }


# --- regret at the end --------------------------------------------------------------------------------------


def end_rows(table: pa.Table) -> list[Row]:
    """For each policy and model, and for regrets from small to large: the share of runs that end with at least
    that regret."""
    finished = units(table)
    low, high = log_range(finished["last_regret"].to_numpy())
    grid = np.geomspace(low, high, round(40 * np.log10(high / low)) + 1)
    rows = []
    pairs = zip(finished["model"].to_pylist(), finished["policy"].to_pylist(), strict=True)
    for model, policy in dict.fromkeys(pairs):
        mine = finished.filter((pc.field("model") == model) & (pc.field("policy") == policy))
        last = np.sort(mine["last_regret"].to_numpy())
        share = 1 - np.searchsorted(last, grid * (1 - 1e-9)) / len(last)
        for regret, part in zip(grid.tolist(), share.tolist(), strict=True):
            rows.append(
                {"policy": policy, "model": model, "regret": regret, "share": part, "runs": len(last)}
            )
    return rows


def end_panel(
    rows: Sequence[Row], look: Mapping[str, Look], title: str = "", at: float | None = None
) -> Spec:
    """The share of runs of each policy that end with at least each regret per step; with a line at the regret `at`."""
    values = [
        {
            "name": look[row["policy"]].name,
            "regret": rounded(row["regret"]),
            "share": rounded(row["share"]),
            "runs": row["runs"],
        }
        for row in rows
    ]
    low, high = values[0]["regret"], values[-1]["regret"]
    axis = log_axis(low, high, grid=False)
    share = {"format": "%", "tickCount": 5}
    rule = {"data": {"values": [{"x": at}]}, "mark": GUIDE, "encoding": {"x": number("x")}}
    return {
        "title": title,
        "data": {"values": values},
        "encoding": {
            "x": number("regret", "last regret per step, at least", scale=log_scale(low, high), axis=axis)
        },
        "layer": [
            *([rule] if at is not None and low < at < high else []),
            policy_lines(look, number("share", "share of runs", scale={"domain": [0, 1]}, axis=share)),
        ],
    }


END_TOOLTIP = {
    "name": ("policy", ""),
    "regret": ("regret at least", ".2g"),
    "share": ("share of runs", ".1%"),
    "runs": ("runs", ","),
}


# --- for a notebook -----------------------------------------------------------------------------------------


class Chart:
    """A Vega-Lite chart, `spec`, that shows in a notebook as a picture and saves as SVG, PNG, PDF or HTML; in HTML it
    can be moved, and needs no network."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    def save(self, path: str | Path) -> None:
        """Write the chart, in the format that the file's name ends in."""
        kinds: dict[str, Callable[[Spec], str | bytes]] = {
            ".svg": vlc.vegalite_to_svg,
            ".png": lambda spec: bytes(vlc.vegalite_to_png(spec, scale=2)),
            ".pdf": vlc.vegalite_to_pdf,
            ".html": lambda spec: str(vlc.vegalite_to_html(spec, bundle=True)),
        }
        suffix = Path(path).suffix
        if suffix not in kinds:
            raise InputError(f"expected a chart's name to end in {', '.join(kinds)}, found {str(path)!r}")
        written = kinds[suffix](self.spec)
        Path(path).write_bytes(written if isinstance(written, bytes) else written.encode())

    def _repr_svg_(self) -> str:
        return str(vlc.vegalite_to_svg(self.spec))


def beside(panels: Iterable[Spec], *, width: int = 420, height: int = 300) -> Chart:
    """Panels side by side as a chart, with a legend below."""
    config = {**LIVE, "legend": LINES_LEGEND, "line": {"strokeWidth": 2}, "axisX": {"tickCount": 5}}
    return Chart(
        {"hconcat": [{"width": width, "height": height, **panel} for panel in panels], "config": config}
    )


# --- parts --------------------------------------------------------------------------------------------------

LEGEND = {"title": None, "orient": "bottom", "labelLimit": 300, "symbolOpacity": 1}
"""A legend below a chart, for the chart's `config`."""
LINES_LEGEND = {**LEGEND, "symbolType": "stroke", "symbolSize": 400, "symbolStrokeWidth": 2}
"""The same of lines."""
GUIDE = {"type": "rule", "color": "#8C8C8C", "strokeDash": [2, 2], "clip": True}
"""A line to compare with."""
STEPS_AXIS = {"labelExpr": "datum.value == 0 ? '0' : format(datum.value, '~s')", "grid": False}


LIVE = {"customFormatTypes": True}
"""What live panels need in their `config`: without a format, Vega-Lite finds no texts in the point that is nearest."""
_TEXT = {"type": "nominal", "formatType": "toString", "format": ""}
_QUANTITY = {"type": "quantitative"}


def live(panel: Spec, tooltip: Tooltip) -> Spec:
    """The panel with a point nearest to the pointer that says its numbers, and with a picture that can be moved.

    It is zoomed by pinching, or by the wheel with Ctrl: the wheel alone is for the page.
    """
    name = re.sub(r"\W", "_", panel["title"])  # panels that stand side by side must not share selections
    near, move = f"near_{name}", f"move_{name}"
    main = panel["layer"][-1]
    fields = [
        {"field": field, "title": title, **(_QUANTITY | {"format": form} if form else _TEXT)}
        for field, (title, form) in tooltip.items()
    ]
    zoom = "wheel![event.ctrlKey || event.metaKey]"
    points = {
        "params": [
            {
                "name": near,
                "select": {"type": "point", "nearest": True, "on": "pointermove", "clear": "pointerout"},
            },
            {"name": move, "select": {"type": "interval", "zoom": zoom}, "bind": "scales"},
        ],
        "mark": {"type": "point", "size": 45, "filled": True, "clip": True},
        "encoding": {
            **{channel: value for channel, value in main["encoding"].items() if channel != "strokeDash"},
            "opacity": {"condition": {"param": near, "empty": False, "value": 1}, "value": 0},
            "tooltip": fields,
        },
    }
    return {**panel, "layer": [*panel["layer"], points]}


def log_axis(low: float, high: float, **options: Any) -> Spec:
    """An axis with labels at powers of ten and, where these are few, at two and five times them."""
    powers = np.log10(high / low)
    times = "round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))"
    label = "format(datum.value, datum.value < 1 ? '~e' : '~s')"
    return {
        "tickCount": int(powers) if powers >= 2 else 10,  # no more ticks than powers are the powers alone
        "labelExpr": f"indexof([1, 2, 5], {times}) < 0 ? '' : {label}",
        "gridOpacity": {"condition": {"test": f"{times} == 1", "value": 1}, "value": 0.35},
        **options,
    }


def log_range(values: Iterable[float], deepest: float = _MIN_DRAWN) -> tuple[float, float]:
    """Round numbers between which these values lie, with a power of ten; what is less than `deepest` of the highest is
    left out.

    >>> log_range([0.0, 0.003, 0.19])
    (0.002, 0.2)
    """
    known = np.fromiter(values, float)
    highest = float(known.max(initial=0.0)) or 1.0
    lowest = float(known[known > highest * deepest].min(initial=highest))
    rounds = [float(f"{times}e{power}") for power in range(-30, 30) for times in (1, 2, 5)]
    high = min(number for number in rounds if number >= highest)
    return min(max(number for number in rounds if number <= lowest), high / 10), high


def policy_lines(look: Mapping[str, Look], y: Spec) -> Spec:
    """A line for each policy."""
    dashes = {
        "domain": [one.name for one in look.values()],
        "range": [list(one.dash) for one in look.values()],
    }
    dash = {"field": "name", "type": "nominal", "scale": dashes}
    return {
        "mark": {"type": "line", "clip": True},
        "encoding": {"y": y, "color": policy_colour(look), "strokeDash": dash},
    }


def policy_colour(look: Mapping[str, Look]) -> Spec:
    scale = {"domain": [one.name for one in look.values()], "range": [one.colour for one in look.values()]}
    return {"field": "name", "type": "nominal", "scale": scale}


def number(field: str, title: str | None = None, **options: Any) -> Spec:
    return {"field": field, **_QUANTITY, **({"title": title} if title else {}), **options}


def log_scale(low: float, high: float) -> Spec:
    return {"type": "log", "domain": [low, high], "nice": False}


def rounded(value: float) -> float:
    """Enough digits for a picture, and a smaller page."""
    return float(f"{value:.4g}")
