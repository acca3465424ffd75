"""The report of a simulation: what came out, the regret over time, and how it was made."""

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clickbandit.extras import pa
from clickbandit.queries import Against
from clickbandit.report.charts import live_regret
from clickbandit.report.page import Html, element, figure, policy_cell, settings_table, table, write_page
from clickbandit.report.statistics import LEAPT, totals
from clickbandit.report.styles import Look, looks
from clickbandit.report.tables import noted, notes, total_rows


def write_report(path: Path, results: pa.Table, settings: Mapping[str, Any]) -> None:
    """Write the results as a page."""
    look = looks(results["policy"].unique().to_pylist())
    panels = {f"regret-{model}": panel for model, panel in live_regret(results, look).items()}
    made = {name: value for name, value in settings.items() if name != "settled"}  # told below the table
    made |= {"clickbandit": version("clickbandit"), "Python": platform.python_version()}
    write_page(
        path,
        "clickbandit: regret of policies",
        [
            totals_table(results, look, *noted(results, settings)),
            element("h2", "Regret over time"),
            figure(panels, _CAPTION, look=look, switch=True, height=320),
            element("h2", "How it was made"),
            settings_table(made),
        ],
    )


_CAPTION = f"""
Expected regret per step: the reward of the list that it is against less that of the list shown, averaged over the
queries; the bands are 95% intervals over runs. {LEAPT} Drag to move, pinch or scroll with Ctrl to zoom,
double-click to go back; click a policy to hide it."""


def totals_table(
    results: pa.Table,
    look: Mapping[str, Look],
    against: Against = "clicks",
    settled: Sequence[int] = (),
    runs: int = 0,
) -> Html:
    """The totals of each policy on each model, and what must be known to read them."""
    found = totals(results)
    rows = [
        {**row, "policy": policy_cell(total.policy, look), "queries": total.queries, "runs": total.runs}
        for row, total in zip(total_rows(found), found, strict=True)
    ]
    return Html(
        table(rows) + element("p", *(f"{note}. " for note in notes(against, settled, runs)), class_="note")
    )
