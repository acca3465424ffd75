"""Charts of results: regret over time, with the same colours and intervals everywhere."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa

from clickbandit.intervals import mean_interval

PALETTE = ("#D55E00", "#0072B2", "#7A7A7A", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Safe for colour-blind readers (after Okabe and Ito), and in the paper's order: red, blue, gray."""
_LEAST = 1e-9  # a regret below this is rounding
_NOTHING = 1e-15
_ALWAYS = {"batchrank": 0, "cascade-kl-ucb": 1, "ranked-exp3": 2, "batchrank:variant=experiment": 5}


def colours(policies: Sequence[str]) -> dict[str, str]:
    """A colour for each policy: the paper's three always have their own.

    >>> colours(["ranked-exp3", "random"])
    {'ranked-exp3': '#7A7A7A', 'random': '#D55E00'}
    """
    chosen: dict[str, int] = {}
    for policy in policies:
        usual = _ALWAYS.get(policy, _ALWAYS.get(policy.partition(":")[0]))
        free = [i for i in range(len(PALETTE)) if i not in chosen.values()] or list(range(len(PALETTE)))
        chosen[policy] = usual if usual in free else free[0]
    return {policy: PALETTE[i] for policy, i in chosen.items()}


def mean_curves(table: pa.Table) -> list[dict[str, Any]]:
    """For each policy, model and step: the regret a step, averaged over queries, with its interval over runs."""
    by_run = table.group_by(["policy", "model", "step", "run"], use_threads=False).aggregate(
        [("regret", "mean")]
    )
    values: dict[tuple[str, str, int], list[float]] = {}
    for row in by_run.to_pylist():
        values.setdefault((row["policy"], row["model"], row["step"]), []).append(row["regret_mean"])
    return [
        {
            "policy": policy,
            "model": model,
            "step": step,
            **mean_interval(regret)._asdict(),
            "runs": len(regret),
        }
        for (policy, model, step), regret in sorted(values.items())
    ]


def regret_chart(table: pa.Table, *, width: int = 420, height: int = 300) -> alt.TopLevelMixin:
    """The expected regret a step over time, on logarithmic scale, side by side for each click model."""
    rows = mean_curves(table)
    policies = list(dict.fromkeys(table["policy"].to_pylist()))
    models = list(dict.fromkeys(table["model"].to_pylist()))
    for row in rows:  # a logarithmic scale has no place for zero: it is below the picture
        for name in ("mean", "low", "high"):
            row[name] = max(row[name], _NOTHING)
    charts = [
        _curves([row for row in rows if row["model"] == model], policies, model).properties(
            width=width, height=height
        )
        for model in models
    ]
    return charts[0] if len(charts) == 1 else alt.hconcat(*charts)


def _curves(rows: list[dict[str, Any]], policies: list[str], title: str) -> Any:
    colour = colours(policies)
    base = alt.Chart(alt.InlineData(values=rows), title=title).encode(
        x=alt.X("step:Q", title="step", axis=alt.Axis(format="~s", tickCount=5)),
        color=alt.Color(
            "policy:N",
            scale=alt.Scale(domain=policies, range=[colour[policy] for policy in policies]),
            legend=alt.Legend(title=None, orient="bottom", columns=2, labelLimit=300, symbolOpacity=1),
        ),
    )
    scale = alt.Scale(type="log", nice=False, domain=_decades(rows))
    regret = alt.Axis(format="~e", values=_ticks(rows))
    band = base.mark_area(opacity=0.18, clip=True).encode(
        y=alt.Y("low:Q", scale=scale, axis=regret, title="expected regret a step"), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2, clip=True).encode(
        y=alt.Y("mean:Q", scale=scale),
        tooltip=[
            alt.Tooltip("policy:N"),
            alt.Tooltip("step:Q", format=","),
            alt.Tooltip("mean:Q", title="regret a step", format=".3g"),
            alt.Tooltip("low:Q", title="95% from", format=".3g"),
            alt.Tooltip("high:Q", title="to", format=".3g"),
            alt.Tooltip("runs:Q"),
        ],
    )
    return alt.layer(band, line.add_params(alt.selection_interval(bind="scales", name=f"zoom_{title}")))


def _decades(rows: list[dict[str, Any]]) -> list[float]:
    means = [row["mean"] for row in rows if row["mean"] > _LEAST] or [1.0]
    return [float(10 ** np.floor(np.log10(min(means)))), float(10 ** np.ceil(np.log10(max(means) * 1.01)))]


def _ticks(rows: list[dict[str, Any]]) -> list[float]:
    low, high = _decades(rows)
    return [float(10.0**power) for power in range(round(np.log10(low)), round(np.log10(high)) + 1)]
