"""Charts of many policies: each line says its name at its end, and the one that is pointed at stands out.

With two dozen policies a legend is no help. So labels stand next to the lines' ends, moved apart where these are too
near each other, with a thin line from each end to its label.
"""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from clickbandit.extras import pa
from clickbandit.intervals import mean_of_strata
from clickbandit.report.charts import (
    STEPS_AXIS,
    Row,
    Spec,
    log_axis,
    log_range,
    log_scale,
    number,
    policy_colour,
    policy_lines,
    rounded,
)
from clickbandit.report.standings import Standing
from clickbandit.report.statistics import curves
from clickbandit.report.styles import Look

_LETTER = 6.3  # how wide one of a label is, in pixels
_BETWEEN_LABELS = 14
CHOSEN = "chosen"
"""Which policy's key is pointed at, if any."""


# --- regret over time ---------------------------------------------------------------------------------------


def total_curves(table: pa.Table, points: int = 50) -> list[Row]:
    """For each policy and model, at that many of the steps: the regret so far, averaged over queries, with its 95%
    interval over runs."""
    rows = []
    for (policy, model), mine in curves(table).items():
        cumulative = mine.cumulative
        windows = len(mine.steps)
        some = np.unique(np.linspace(0, windows - 1, min(windows, points)).round().astype(int))
        for window in some:
            interval = mean_of_strata(cumulative[:, :, window])
            names = {"policy": policy, "model": model, "step": int(mine.steps[window])}
            rows.append({**names, "runs": cumulative.shape[1], **interval._asdict()})
    return rows


def totals_panel(
    rows: Sequence[Row], look: Mapping[str, Look], title: str, *, height: int, size: float = 12
) -> Spec:
    """The regret of all steps so far of each policy, on a logarithmic scale, with labels at the right."""
    ends = {row["policy"]: row["mean"] for row in rows}  # the last of each
    # how lines begin may be below the picture, but not the last three quarters of what the best policy loses
    low, high = log_range([*ends.values(), *(end / 4 for end in ends.values())], deepest=1e-6)
    label = dict(
        zip(ends, _apart(list(ends.values()), low, high, _BETWEEN_LABELS * size / 12 / height), strict=True)
    )
    end = max(row["step"] for row in rows)
    values = [
        {
            "name": look[row["policy"]].name,
            "step": row["step"],
            "runs": row["runs"],
            **{key: rounded(max(row[key], low / 10)) for key in ("mean", "low", "high")},
            **({"label": rounded(label[row["policy"]])} if row["step"] == end else {}),
        }
        for row in rows
    ]
    y = number("mean", "regret so far, in clicks", scale=log_scale(low, high), axis=log_axis(low, high))
    labelled = [{"filter": "isValid(datum.label)"}]
    leader = {"y": number("mean"), "y2": {"field": "label"}, "x2": {"field": "step"}}
    return {
        "title": title,
        "data": {"values": values},
        "encoding": {
            "x": number("step", "step", scale={"domain": [0, end], "nice": False}, axis=_FEWER_STEPS)
        },
        "layer": [
            policy_lines(look, y),
            {
                "transform": labelled,
                "mark": {"type": "rule", "strokeWidth": 0.7, "x2Offset": size},
                "encoding": {**leader, "color": policy_colour(look)},
            },
            {
                "transform": labelled,
                "mark": {"type": "text", "align": "left", "dx": size + 2, "fontSize": size},
                "encoding": {"y": number("label"), "text": {"field": "name"}},
            },
        ],
    }


def live_totals(panel: Spec) -> Spec:
    """The panel with a line that stands out when it, or its key on the page, is pointed at, and says its numbers."""
    near = "near_" + re.sub(r"\W", "_", panel["title"])
    lines = panel["layer"][0]["encoding"]
    seen = {"and": [{"param": near}, f"{CHOSEN} === '' || {CHOSEN} === datum.name"]}
    opacity = {"condition": {"test": seen, "value": 1}, "value": 0.12}
    moving = {
        "type": "point",
        "fields": ["name"],
        "nearest": True,
        "on": "pointermove",
        "clear": "pointerout",
    }
    points = {
        "params": [{"name": near, "select": moving}],
        "mark": {"type": "point", "size": 30, "filled": True, "clip": True},
        "encoding": {
            "y": lines["y"],
            "color": lines["color"],
            "opacity": {"condition": {"param": near, "empty": False, "value": 1}, "value": 0},
            "tooltip": [
                {"field": field, "title": title, "format": form} for field, (title, form) in _TOOLTIP.items()
            ],
        },
    }
    dimming = [{**layer, "encoding": {**layer["encoding"], "opacity": opacity}} for layer in panel["layer"]]
    return {**panel, "params": [{"name": CHOSEN, "value": ""}], "layer": [*dimming, points]}


_TOOLTIP = {
    "name": ("policy", ""),
    "step": ("step", ","),
    "mean": ("regret so far", ",.4r"),
    "low": ("95% from", ",.4r"),
    "high": ("to", ",.4r"),
    "runs": ("runs", ","),
}
_FEWER_STEPS = {**STEPS_AXIS, "tickCount": 4}


def label_width(look: Mapping[str, Look], size: float = 12) -> int:
    """What labels take to the right of a panel, in pixels."""
    return round(size + 6 + _LETTER * size / 12 * max(len(one.name) for one in look.values()))


def _apart(values: Sequence[float], low: float, high: float, gap: float) -> list[float]:
    """Values moved on a logarithmic scale so that no two are nearer than a share of it, as little as will do.

    >>> [round(value, 2) for value in _apart([10, 10, 100], 1, 100, 0.1)]
    [12.59, 7.94, 100.0]
    """
    scale = math.log(high / low)
    wanted = np.clip(np.log(np.maximum(values, low) / low) / scale, 0, 1)
    order = np.argsort(-wanted, kind="stable")  # from above
    # labels that touch move as one block, to where on average its labels want to be
    blocks: list[tuple[float, list[int]]] = []  # where its first label stands, and its labels
    for i in order.tolist():
        first, block = float(wanted[i]), [i]
        while blocks and blocks[-1][0] - gap * len(blocks[-1][1]) < first:
            block = blocks.pop()[1] + block
            first = float(np.mean([wanted[j] + gap * n for n, j in enumerate(block)]))
            first = min(max(first, gap * (len(block) - 1)), 1.0)
        blocks.append((first, block))
    moved = np.zeros(len(values))
    for first, block in blocks:
        for n, i in enumerate(block):
            moved[i] = first - gap * n
    return [float(low * math.exp(place * scale)) for place in moved]


# --- the heat map -------------------------------------------------------------------------------------------

MAX_TIMES = 100
"""From this many times the least regret on, all are alike."""


def heat(times: float) -> float:
    """How bad that many times the least regret is, from 0 to 1.

    >>> heat(1.0), heat(10.0), heat(1e6)
    (0.0, 0.5, 1.0)
    """
    return min(max(math.log(times) / math.log(MAX_TIMES), 0.0), 1.0) if times > 0 else 0.0


def times_text(times: float) -> str:
    """A multiple, in two or three digits.

    >>> [times_text(times) for times in (1.0, 2.345, 23.45, 1234.5)]
    ['1.0', '2.3', '23', '1,234']
    """
    if math.isnan(times):
        return "-"
    return f"{times:.1f}" if times < 9.95 else f"{times:,.0f}"


def heat_panel(found: Sequence[Standing], look: Mapping[str, Look]) -> Spec:
    """Policies by click models: how many times the least regret, as colours and numbers."""
    models = list(dict.fromkeys(model for standing in found for model in standing.times))
    columns = [*models, *(["overall", "worst case"] if len(models) > 1 else [])]
    values = []
    for standing in found:
        numbers = {**standing.times}
        if len(standing.times) == len(models) > 1:
            numbers |= {"overall": standing.mean, "worst case": standing.worst}
        for column, times in numbers.items():
            values.append(
                {
                    "name": look[standing.policy].name,
                    "column": column,
                    "heat": rounded(heat(times)),
                    "text": times_text(times),
                }
            )
    names = [look[standing.policy].name for standing in found]
    axis = {"title": None, "domain": False, "ticks": False}
    return {
        "title": "",
        "data": {"values": values},
        "encoding": {
            "x": {
                "field": "column",
                "type": "nominal",
                "sort": columns,
                "axis": {**axis, "orient": "top", "labelAngle": 0},
            },
            "y": {"field": "name", "type": "nominal", "sort": names, "axis": {**axis, "labelLimit": 300}},
        },
        "layer": [
            {
                "mark": {"type": "rect", "stroke": "white"},
                "encoding": {
                    "y": {"field": "name", "type": "nominal", "sort": names},
                    "color": number(
                        "heat",
                        scale={"domain": [0, 1], "range": ["#F3F5F7", "#E8873F"], "interpolate": "rgb"},
                    ),
                },
            },
            {"mark": "text", "encoding": {"text": {"field": "text"}, "color": {"value": "black"}}},
        ],
    }
