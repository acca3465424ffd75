"""The figures of the policies' pages: regret so far, as small SVGs that can be read on light and dark pages."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import vl_convert as vlc
from docs.results import Results, rows

from clickbandit.report.charts import log_axis, log_range, log_scale, number
from clickbandit.report.many import totals_panel
from clickbandit.report.page import CONFIG
from clickbandit.report.styles import looks
from clickbandit.style import COLOURS

Spec = dict[str, Any]

REFERENCES = ("random", "ranked-exp3", "batchrank", "cascade-kl-ucb")
"""Policies that every figure has in grey, from the most regret to the least: random lists and the paper's three."""
_GREY = "#B8BDC3"
_DARK = {
    "white": "#16191d",
    "#000": "#e6e8eb",
    "black": "#e6e8eb",
    "#ddd": "#3a414a",
    "#888": "#a2abb5",
    _GREY.lower(): "#5a626b",
}
"""Colours of figures on a dark page."""
_STEPS = {"labelExpr": "datum.value == 0 ? '0' : format(datum.value, '~s')", "grid": False, "tickCount": 4}


def policy_figure(name: str, everyone: Mapping[str, Results]) -> Spec:
    """The regret so far of a policy and its variants. It depends on its own results and on the references' alone."""
    own = everyone[name]["rows"]
    grey = [row for row in rows(everyone) if row["policy"] in REFERENCES and row not in own]
    low, high = log_range((row["curve"][-1] for row in [*own, *grey]), deepest=1e-6)
    look = looks(row["policy"] for row in own)
    y = number("mean", "regret so far", scale=log_scale(low, high), axis=log_axis(low, high))
    panels = []
    for model in dict.fromkeys(row["model"] for row in grey):
        mine = [row["policy"] for row in own if row["model"] == model]
        colour = {"domain": mine, "range": [look[policy].colour for policy in mine]}
        dash = {"domain": mine, "range": [list(look[policy].dash) for policy in mine]}
        panels.append(
            {
                "title": model if mine else f"{model}: not run",
                "width": 260,
                "height": 180,
                "encoding": {"x": number("step", "step", axis=_STEPS), "y": y},
                "layer": [
                    {
                        "data": {"values": _points(everyone, grey, model, low)},
                        "mark": {"type": "line", "strokeWidth": 1, "color": _GREY, "clip": True},
                        "encoding": {"detail": {"field": "name", "type": "nominal"}},
                    },
                    {
                        "data": {"values": _points(everyone, own, model, low)},
                        "mark": {"type": "line", "strokeWidth": 2.5, "clip": True},
                        "encoding": {
                            "color": {"field": "name", "type": "nominal", "scale": colour},
                            "strokeDash": {"field": "name", "type": "nominal", "scale": dash},
                        },
                    },
                ],
            }
        )
    return {"hconcat": panels, "resolve": {"scale": {"color": "independent", "strokeDash": "independent"}}}


def _points(
    everyone: Mapping[str, Results], some: list[Results], model: str, low: float
) -> list[dict[str, Any]]:
    """The curves of these rows on a click model, not lower than the picture shows."""
    return [
        {"name": row["policy"], "step": step, "mean": max(mean, low / 2)}
        for row in some
        if row["model"] == model
        for step, mean in zip(_steps(everyone, row), row["curve"], strict=True)
    ]


def _steps(everyone: Mapping[str, Results], row: Results) -> list[int]:
    """The steps of a row's curve."""
    return list(everyone[row["policy"].partition(":")[0]]["steps"])


def overview_figure(model: str, everyone: Mapping[str, Results]) -> Spec:
    """The regret so far of all policies on a click model."""
    curves = [
        {"policy": row["policy"], "step": step, "mean": mean, "low": mean, "high": mean, "runs": 1}
        for row in rows(everyone)
        if row["model"] == model
        for step, mean in zip(_steps(everyone, row), row["curve"], strict=True)
    ]
    panel = totals_panel(curves, looks(row["policy"] for row in curves), model, height=400, size=11)
    return {**panel, "width": 420, "height": 400}


def mark(spec: Spec) -> str:
    """Says in a figure what it was drawn from, so that one that is out of date is found without drawing it."""
    return f"<desc>{hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]}</desc>"


def draw(spec: Spec) -> str:
    """A chart as SVG."""
    config = {
        **CONFIG,
        **spec.get("config", {}),
        "background": "white",
        "font": "sans-serif",
        "axis": {**CONFIG["axis"], "gridColor": "#ddd"},
    }
    room = {"left": 8, "right": 24, "top": 8, "bottom": 8}  # for fonts that are wider than the one measured
    svg = str(vlc.vegalite_to_svg({"padding": room, **spec, "config": config}))
    svg = re.sub(
        r' (?:aria-[\w-]+|role|class|pointer-events|text-rendering|stroke-miterlimit)="[^"]*"', "", svg
    )
    svg = re.sub(r' (?:opacity="1"|font-weight="normal"|font-family="sans-serif"|font-size="12px")', "", svg)
    svg = re.sub(r"\d+\.\d\d+", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), svg)
    svg = re.sub(r'<path d="[^"]*" display="none"/>|<path d="M0,0h0v0h0Z"/>', "", svg)
    names = {name: f"c{i}" for i, name in enumerate(dict.fromkeys(re.findall(r"clip\d+", svg)))}
    svg = re.sub(
        r"clip\d+", lambda found: names[found[0]], svg
    )  # else it is told apart by what was drawn before
    rules = {**_DARK, **{light.lower(): dark for light, dark in COLOURS.values()}}
    dark = "".join(
        f'[{kind}="{light}" i]{{{kind}:{colour}}}'
        for light, colour in rules.items()
        for kind in ("fill", "stroke")
    )
    style = f"<style>svg{{font:12px sans-serif}}@media (prefers-color-scheme:dark){{{dark}}}</style>"
    return re.sub(r"(<svg[^>]*>)", lambda found: found[1] + mark(spec) + style, svg, count=1) + "\n"
