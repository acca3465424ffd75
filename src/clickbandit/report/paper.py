"""The paper's figures and what belongs next to them, as panels by name.

Figure 1 shows three queries, figure 2 averages over all of them and how runs end. Then come the two versions of
BatchRank, the bound of Theorem 1 next to what was measured, and the two experiments of the discussion.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from clickbandit.experiments.discussion import BOUNDS, ELIMINATION, EXAMINATION, ITEMS
from clickbandit.extras import pa, pc
from clickbandit.intervals import mean_interval
from clickbandit.report.charts import (
    GUIDE,
    Row,
    Spec,
    by_model,
    end_panel,
    end_rows,
    log_axis,
    log_range,
    log_scale,
    mean_curves,
    number,
    policy_lines,
    regret_panel,
    rounded,
)
from clickbandit.report.claims import LARGE, PRINTED, regret_by
from clickbandit.report.statistics import Curves, Found, first_of
from clickbandit.report.styles import Look, looks
from clickbandit.style import COLOURS

EXPERIMENT = "batchrank:variant=experiment"
_RED, _GRAY, _BLACK = (COLOURS[name][0] for name in ("vermillion", "gray", "black"))


# --- figure 1: three queries --------------------------------------------------------------------------------

_LEARNED, _END = 0.95, 0.9
LEARNED_FIRST = f"the query of which BatchRank had {_LEARNED:.0%} of its regret behind it soonest"
LEARNED_LAST = f"the one on which its regret per step was {LARGE:g} or more for longest"
LEFT_WRONG = f"the query on which CascadeKL-UCB had the most regret in the last {1 - _END:.0%} of the steps"


class Choice(NamedTuple):
    """A query for the first figure."""

    model: str
    query: str
    rule: str
    """By which it was chosen."""


def choose(found: Found) -> list[Choice]:
    """Two queries in the CM, one that BatchRank learns soon and one that it learns late, and one in the PBM on which
    CascadeKL-UCB stays with a list that is not the best; fewer where there are no such results."""
    chosen = []
    batchrank = first_of(found, "CM", EXPERIMENT, PRINTED)
    if batchrank is not None:
        regret = batchrank.cumulative.mean(axis=1)
        soon = int((regret < _LEARNED * regret[:, -1:]).sum(axis=1).argmin())
        chosen.append(Choice("CM", batchrank.queries[soon], LEARNED_FIRST))
        last = (np.arange(1, len(batchrank.steps) + 1) * (batchrank.regret.mean(axis=1) >= LARGE)).max(axis=1)
        by_time = np.lexsort((regret[:, -1], last)).tolist()  # and if that is the same, by all regret
        by_time.remove(soon)
        if by_time:
            chosen.append(Choice("CM", batchrank.queries[by_time[-1]], LEARNED_LAST))
    cascade = first_of(found, "PBM", "cascade-kl-ucb")
    if cascade is not None:
        end = cascade.regret[:, :, cascade.steps > _END * cascade.steps[-1]].mean(axis=(1, 2))
        chosen.append(Choice("PBM", cascade.queries[int(end.argmax())], LEFT_WRONG))
    return chosen


def three_queries(results: pa.Table, choices: Sequence[Choice], look: Mapping[str, Look]) -> dict[str, Spec]:
    """The regret over time on each chosen query."""
    rows = {
        f"({letter}) {choice.model}, query {choice.query}": mean_curves(
            results.filter((pc.field("model") == choice.model) & (pc.field("query") == choice.query))
        )
        for letter, choice in zip("abc", choices, strict=False)
    }
    return _over_time("query", rows, look)


# --- figure 2: averages and ends ----------------------------------------------------------------------------


def averages(results: pa.Table, look: Mapping[str, Look]) -> dict[str, Spec]:
    """For each model the regret over time, averaged over queries and runs."""
    return _over_time("average", by_model(mean_curves(results)), look)


def ends(results: pa.Table, look: Mapping[str, Look]) -> dict[str, Spec]:
    """For each model how the regret per step in the last window is distributed over queries and runs."""
    return {
        f"end-{model}": end_panel(rows, look, model, at=LARGE)
        for model, rows in by_model(end_rows(results)).items()
    }


def _over_time(name: str, rows: Mapping[str, Sequence[Row]], look: Mapping[str, Look]) -> dict[str, Spec]:
    """A panel for each title, all on the same scale."""
    span = log_range(row["mean"] for mine in rows.values() for row in mine)
    return {
        f"{name}-{i}": regret_panel(mine, look, title, span)
        for i, (title, mine) in enumerate(rows.items(), 1)
    }


# --- the two versions of BatchRank --------------------------------------------------------------------------


def variant_rows(found: Found) -> list[Row]:
    """For each model and query that both versions were run on: the regret of each over all steps."""
    rows = []
    for policy, model in found:
        if policy == EXPERIMENT and (PRINTED, model) in found:
            experiment, printed = _regret(found[EXPERIMENT, model]), _regret(found[PRINTED, model])
            for query in (query for query in experiment if query in printed):
                one, other = experiment[query], printed[query]
                rows.append({"model": model, "query": query, "experiment": one, "printed": other})
    return rows


def _regret(policy: Curves) -> dict[str, float]:
    """For each query the regret over all steps, averaged over runs."""
    return dict(zip(policy.queries, policy.cumulative[:, :, -1].mean(axis=1).tolist(), strict=True))


VARIANT_TOOLTIP = {
    "query": ("query", ""),
    "experiment": ("experiment", ",.0f"),
    "printed": ("printed", ",.0f"),
    "ratio": ("times as much", ".2f"),
}


def variants(rows: Sequence[Row]) -> dict[str, Spec]:
    """For each model a point for each query: the regret of the one version, and that of the other."""
    regret = [row[version] for row in rows for version in ("experiment", "printed")]
    low, high = log_range([min(regret) / 1.2, max(regret) * 1.2], deepest=0)
    scale = log_scale(low, high)
    x = number("experiment", "experiment, in clicks", scale=scale, axis=log_axis(low, high))
    y = number("printed", "as printed, in clicks", scale=scale, axis=log_axis(low, high))
    points = {
        "mark": {"type": "point", "filled": True, "clip": True, "color": _RED},
        "encoding": {"x": x, "y": y},
    }
    return {
        f"variants-{model}": {
            "title": model,
            "data": {
                "values": [
                    {
                        "query": row["query"],
                        "experiment": rounded(row["experiment"]),
                        "printed": rounded(row["printed"]),
                        "ratio": rounded(row["printed"] / row["experiment"]) if row["experiment"] else None,
                    }
                    for row in mine
                ]
            },
            "layer": [_diagonal(low, high, 1, "equal"), _diagonal(low, high, 2, "twice"), points],
        }
        for model, mine in by_model(rows).items()
    }


def _diagonal(low: float, high: float, times: float, text: str) -> Spec:
    """A line on which y is that many times x, and a word next to it."""
    place = {"x": number("x"), "y": number("y")}
    line = [{"x": low, "y": low * times}, {"x": high / times, "y": high}]
    if times > 1:
        share, beside = 0.9, {"align": "right", "dx": -8}
    else:
        share, beside = 0.12, {"align": "left", "dx": 8}
    x = low ** (1 - share) * (high / times) ** share
    return {
        "layer": [
            {"data": {"values": line}, "mark": {**GUIDE, "type": "line"}, "encoding": place},
            {
                "data": {"values": [{"x": x, "y": x * times}]},
                "mark": {"type": "text", "text": text, **beside},
                "encoding": place,
            },
        ]
    }


# --- the bound of Theorem 1 ---------------------------------------------------------------------------------

_SERIES = {
    "bound": ("bound of Theorem 1", _BLACK, "triangle-up"),
    "most": ("all that can be lost", _GRAY, "square"),
    "regret": ("BatchRank (printed)", _RED, "circle"),
}
BOUND_TOOLTIP = {"query": ("query", ""), "name": ("what", ""), "value": ("regret", ",.0f")}


def bounds(rows: Sequence[Row]) -> dict[str, Spec]:
    """For each model and query, by bound from the smallest to the last finite one: what was measured and may be."""
    rows = [row for row in rows if math.isfinite(row["bound"])]
    low, high = log_range((row[key] for row in rows for key in _SERIES), deepest=0)
    names, colours, shapes = (list(column) for column in zip(*_SERIES.values(), strict=True))
    y = number("value", "regret, in clicks", scale=log_scale(low / 2, high * 2), axis=log_axis(low, high))
    points = {
        "mark": {"type": "point", "filled": True, "clip": True, "opacity": 1},
        "encoding": {
            "y": y,
            "color": {"field": "name", "type": "nominal", "scale": {"domain": names, "range": colours}},
            "shape": {"field": "name", "type": "nominal", "scale": {"domain": names, "range": shapes}},
        },
    }
    panels = {}
    for model, mine in by_model(rows).items():
        values = [
            {"rank": rank, "query": row["query"], "name": name, "value": rounded(row[key])}
            for rank, row in enumerate(sorted(mine, key=lambda row: row["bound"]), 1)
            for key, (name, _, _) in _SERIES.items()
        ]
        scale = {"domain": [0, len(mine) + 1], "nice": False}
        axis = {"grid": False, "tickMinStep": 1}
        x = number("rank", "query, by its bound", scale=scale, axis=axis)
        panels[f"bound-{model}"] = {
            "title": model,
            "data": {"values": values},
            "encoding": {"x": x},
            "layer": [points],
        }
    return panels


# --- the discussion -----------------------------------------------------------------------------------------

_DISCUSSED = {
    "bounds": (EXAMINATION, dict(zip(BOUNDS, ("KL", "Hoeffding"), strict=True)), "share who examine", 0),
    "elimination": (ITEMS, dict(zip(ELIMINATION, ("with", "without"), strict=True)), "number of items", -1),
}
"""For each experiment: how its queries are named, its policies, what queries differ in, and at which of them the lines
are labelled."""
_TITLES = {"bounds": "confidence bounds", "elimination": "elimination"}
DISCUSSION_TOOLTIP = {
    "name": ("policy", ""),
    "x": ("at", ".3g"),
    "mean": ("regret", ",.0f"),
    "low": ("95% from", ",.0f"),
    "high": ("to", ",.0f"),
}


def discussed(results: pa.Table) -> dict[str, Spec]:
    """For each experiment of the discussion: the regret over all steps of each policy, with its interval."""
    return {f"discussion-{name}": _discussed(results, name) for name in _DISCUSSED}


def _discussed(results: pa.Table, name: str) -> Spec:
    prefix, labels, what, at = _DISCUSSED[name]
    look = looks(labels)
    rows: list[Row] = []
    for policy in labels:
        for x, runs in regret_by(results, prefix, policy).items():
            interval = {key: rounded(value) for key, value in mean_interval(runs, least=0)._asdict().items()}
            rows.append({"policy": policy, "name": look[policy].name, "x": x, **interval})
    low, high = log_range((row[key] for row in rows for key in ("mean", "high")), deepest=0)
    places = sorted({row["x"] for row in rows})
    x_scale = {"type": "log", "domain": [places[0] / 1.2, places[-1] * 1.2], "nice": False}
    shares = "datum.value < 1 ? '1/' + round(1 / datum.value) : datum.value"
    x_axis = {"values": places, "grid": False, "labelExpr": shares, "tickCount": len(places)}
    lines = policy_lines(
        look, number("mean", "regret, in clicks", scale=log_scale(low, high), axis=log_axis(low, high))
    )
    bars = {"y": number("low"), "y2": {"field": "high"}, "color": lines["encoding"]["color"]}
    low_end, high_end = sorted((row for row in rows if row["x"] == places[at]), key=lambda row: row["mean"])
    side = {"align": "left", "dx": 6} if at == 0 else {"align": "right", "dx": -8}
    words = [
        {
            "data": {"values": [{"x": row["x"], "mean": row["mean"]}]},
            "mark": {"type": "text", "text": labels[row["policy"]], "baseline": baseline, "dy": dy, **side},
            "encoding": {"y": number("mean")},
        }
        for row, baseline, dy in ((low_end, "top", 7), (high_end, "bottom", -3))
    ]
    return {
        "title": _TITLES[name],
        "data": {"values": [{**row, "low": max(row["low"], low / 10)} for row in rows]},
        "encoding": {"x": number("x", what, scale=x_scale, axis=x_axis)},
        "layer": [
            {"mark": {"type": "rule", "clip": True}, "encoding": bars},
            *words,
            {**lines, "mark": {**lines["mark"], "point": True}},
        ],
    }
