"""Fitted and evaluated click models, as tables in the terminal and as a chart."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clickbandit.logs import Counts, Doubt, Evaluation, Fit, evaluate
from clickbandit.logs.counts import ItemCounts
from clickbandit.report.charts import LINES_LEGEND, Row, Spec, live, number, policy_lines, rounded
from clickbandit.report.page import element, figure, write_page
from clickbandit.report.printing import PAGE, printed
from clickbandit.report.styles import DASHES, PALETTE, Look
from clickbandit.terminal import print_table
from clickbandit.wording import counted

_MAX_DRAWN = 2.5  # a coin has 2; what is far above would leave no room for the others in a chart


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


def doubt_text(model: str, found: Sequence[Doubt]) -> list[str]:
    """A sentence for each parameter that rests on its prior, with the numbers where it does so most."""
    sentences = []
    for name in dict.fromkeys(doubt.name for doubt in found):
        mine = [doubt for doubt in found if doubt.name == name]
        worst = max(mine, key=lambda doubt: abs(doubt.value - doubt.other) / doubt.other_error)
        others = f", and {len(mine) - 1} more differ" if len(mine) > 1 else ""
        sentences.append(
            f"{model}: {name} rests on the prior: value {worst.place + 1} is {worst.value:.3f} ± {worst.error:.3f}, "
            f"and {worst.other:.3f} ± {worst.other_error:.3f} with hardly any prior{others}"
        )
    return sentences


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def print_evaluation(evaluation: Evaluation) -> None:
    """How well each model predicts a log, and which does best."""
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
    sentence = f"{evaluation.best} fits best on {counted(evaluation.n_sessions, 'session')}"
    lead = evaluation.lead
    if lead is None:
        return f"{sentence}: it is the only model."
    sure = "clearly" if evaluation.is_clear else "but not clearly"
    return (
        f"{sentence}, {sure}: its log-likelihood is {lead.value:.4f} "
        f"({lead.low:.4f} to {lead.high:.4f}) above that of {evaluation.runner_up}."
    )


def perplexity_panels(evaluation: Evaluation) -> dict[str, Spec]:
    """The perplexity of each model at each position: by itself, and given the clicks above."""
    kinds = {
        "perplexity": "perplexity_by_position",
        "perplexity given the clicks above": "conditional_perplexity_by_position",
    }
    values: dict[str, list[Row]] = {
        kind: [
            {"name": name, "position": k, "perplexity": rounded(value)}
            for name, score in evaluation.models.items()
            for k, value in enumerate(getattr(score, attribute).tolist(), start=1)
        ]
        for kind, attribute in kinds.items()
    }
    top = min(max(row["perplexity"] for rows in values.values() for row in rows), _MAX_DRAWN)
    y = number("perplexity", "perplexity", scale={"domain": [1, top]})
    lines = policy_lines(_looks(evaluation), y)
    x = {
        "field": "position",
        "type": "ordinal",
        "title": "position",
        "axis": {"labelAngle": 0, "grid": False},
    }
    return {
        f"perplexity-{i}": {
            "title": kind,
            "data": {"values": rows},
            "encoding": {"x": x},
            "layer": [{**lines, "mark": {**lines["mark"], "point": True}}],
        }
        for i, (kind, rows) in enumerate(values.items(), start=1)
    }


_TOOLTIP = {"name": ("model", ""), "position": ("position", ",d"), "perplexity": ("perplexity", ".4f")}


def _looks(evaluation: Evaluation) -> dict[str, Look]:
    """A colour for each click model."""
    n = len(PALETTE)
    return {
        name: Look(name, PALETTE[i % n], DASHES[i // n % len(DASHES)])
        for i, name in enumerate(evaluation.models)
    }


def save_perplexity(evaluation: Evaluation, path: Path, kind: str) -> None:
    """Draw the perplexity of each model as svg or png for print, or as a page in html, which needs no network."""
    panels = perplexity_panels(evaluation)
    if kind == "html":
        charts = {name: live(panel, _TOOLTIP) for name, panel in panels.items()}
        caption = "How many ways a user's choice at a position seems to have: 1 is perfect, a coin has 2."
        drawn = figure(charts, caption, look=_looks(evaluation), height=300)
        write_page(
            path, "How well click models predict clicks", [element("p", best_sentence(evaluation)), drawn]
        )
    else:
        figures = printed(list(panels.values()), across=2, inches=PAGE, height=180, legend=LINES_LEGEND)
        path.write_bytes(figures[kind])
