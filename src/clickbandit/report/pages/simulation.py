"""The report of a simulation: what came out, the regret over time, and how it was made."""

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clickbandit.extras import pa
from clickbandit.queries import Against
from clickbandit.report.charts import REGRET_TOOLTIP, live, mean_curves, regret_panel
from clickbandit.report.page import Html, element, figure, policy_cell, settings_table, table, write_page
from clickbandit.report.statistics import LEAPT, a_step, beyond_the_least, totals
from clickbandit.report.styles import Look, looks
from clickbandit.report.tables import MORE, TAIL_NAME, difference_text, noted, notes, span


def write_report(path: Path, results: pa.Table, settings: Mapping[str, Any]) -> None:
    """Write the results as a page."""
    look = looks(results["policy"].unique().to_pylist())
    rows = mean_curves(results)
    panels = {
        f"regret-{model}": live(panel, REGRET_TOOLTIP)
        for model in results["model"].unique().to_pylist()
        for panel in [regret_panel([row for row in rows if row["model"] == model], look, model)]
    }
    made = {
        name: value for name, value in settings.items() if name != "settled"
    }  # it is told below the table
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
    more = beyond_the_least(found)
    rows = table(
        [
            {
                "model": total.model,
                "policy": policy_cell(total.policy, look),
                "regret": f"{total.regret.mean:,.0f}",
                "95% interval": span(total.regret) if total.runs > 1 else "-",
                MORE: difference_text(more[total.model, total.policy]),
                TAIL_NAME: f"{total.tail:,.0f}",
                "losing": f"{total.losing / len(total.regrets):.0%}",
                "regret per step at the end": a_step(total.last_regret.mean),
                "clicks per step": f"{total.clicks.mean:.4f}",
                "queries": total.queries,
                "runs": total.runs,
            }
            for total in found
        ]
    )
    return Html(rows + element("p", *(f"{note}. " for note in notes(against, settled, runs)), class_="note"))
