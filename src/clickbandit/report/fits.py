"""Fitted and evaluated click models, as tables in the terminal and as a chart."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt

from clickbandit.logs import Counts, Evaluation, Fit, evaluate
from clickbandit.logs.item_counts import ItemCounts
from clickbandit.report.looks import PALETTE
from clickbandit.report.tables import print_table

_WORST = 2.5  # a coin has 2; what is far above would leave no room for the others in a chart


def fit_rows(fits: Sequence[Fit], counts: Counts) -> list[dict[str, Any]]:
    """For each fit: how well it describes the log it was fitted to, its size and what it took."""
    whole = not isinstance(counts, ItemCounts)  # counts by item do not say what was clicked together
    scores = evaluate(fits, counts, samples=0).models if whole else {}
    return [
        {
            "model": fit.name,
            "log_likelihood": scores[fit.name].log_likelihood.value if whole else None,
            "perplexity": scores[fit.name].perplexity.value if whole else None,
            "parameters": sum(len(values) for values in fit.parameters.values()),
            "iterations": fit.iterations,
            "seconds": fit.seconds,
        }
        for fit in fits
    ]


def print_fits(rows: Sequence[dict[str, Any]]) -> None:
    """What was fitted."""
    print_table(
        [
            {
                "model": row["model"],
                "log-likelihood": _number(row["log_likelihood"]),
                "perplexity": _number(row["perplexity"]),
                "parameters": f"{row['parameters']:,}",
                "iterations": row["iterations"],
                "seconds": f"{row['seconds']:.2f}",
            }
            for row in rows
        ]
    )


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def print_evaluation(evaluation: Evaluation) -> None:
    """How well each model foretells a log, and which does best."""
    print_table(
        [
            {"model": name}
            | {
                title: f"{interval.value:.4f} ({interval.low:.4f} to {interval.high:.4f})"
                for title, interval in (
                    ("log-likelihood", score.log_likelihood),
                    ("perplexity", score.perplexity),
                    ("conditional perplexity", score.conditional_perplexity),
                )
            }
            for name, score in evaluation.models.items()
        ]
    )
    print(best_sentence(evaluation))


def best_sentence(evaluation: Evaluation) -> str:
    """Which model fits best, and whether that is sure."""
    sentence = f"{evaluation.best} fits best on {evaluation.n_sessions:,} sessions"
    lead = evaluation.lead
    if lead is None:
        return f"{sentence}: it is the only model."
    sure = "clearly" if evaluation.is_clear else "but not clearly"
    return (
        f"{sentence}, {sure}: its log-likelihood is {lead.value:.4f} "
        f"({lead.low:.4f} to {lead.high:.4f}) above that of {evaluation.runner_up}."
    )


def perplexity_chart(evaluation: Evaluation) -> Any:
    """The perplexity of each model at each position: by itself, and given the clicks above."""
    kinds = {
        "perplexity": "perplexity_by_position",
        "given the clicks above": "conditional_perplexity_by_position",
    }
    models = list(evaluation.models)
    rows: list[dict[str, Any]] = [
        {"model": name, "kind": kind, "position": k, "perplexity": float(value)}
        for name, score in evaluation.models.items()
        for kind, attribute in kinds.items()
        for k, value in enumerate(getattr(score, attribute), start=1)
    ]
    colour = alt.Scale(domain=models, range=[PALETTE[i % len(PALETTE)] for i in range(len(models))])
    top = min(max(row["perplexity"] for row in rows), _WORST)
    chart = alt.Chart(alt.InlineData(values=rows)).mark_line(point=True, strokeWidth=2, clip=True)
    encoded = chart.encode(
        x=alt.X("position:O", title="position", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("perplexity:Q", title="perplexity", scale=alt.Scale(domain=[1, top])),
        color=alt.Color("model:N", scale=colour, legend=alt.Legend(title=None, orient="bottom")),
        tooltip=["model:N", "kind:N", "position:O", alt.Tooltip("perplexity:Q", format=".4f")],
    )
    return encoded.properties(width=380, height=300).facet(
        column=alt.Column("kind:N", title=None, sort=list(kinds), header=alt.Header(labelFontSize=13))
    )


def save_chart(chart: Any, path: Path, kind: str) -> None:
    """Write a chart as svg, png or html, which needs no network."""
    chart.save(str(path), format=kind, inline=kind == "html")
