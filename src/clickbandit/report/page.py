"""A report as one HTML page that needs no network: what came out, the charts, the settings."""

import html
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import altair as alt
import pyarrow as pa
import vl_convert as vlc

from clickbandit.report.charts import colours, regret_chart
from clickbandit.report.tables import span
from clickbandit.report.totals import totals

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #888; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); }
td { font-variant-numeric: tabular-nums; } th { text-align: left; } td.number, th.number { text-align: right; }
.swatch { display: inline-block; width: .8em; height: .8em; margin-right: .5em; border-radius: 2px; }
.chart { overflow-x: auto; background: #fff; border-radius: 6px; padding: .5rem; } .note { color: var(--soft); }
"""


def write_report(path: Path, table: pa.Table, settings: Mapping[str, Any]) -> None:
    """Write the results as a page: the table, the regret over time, and how it was made."""
    charts = {"regret": regret_chart(table)}
    path.write_text(_page("clickbandit: regret of policies", table, charts, settings), encoding="utf-8")


def _page(
    title: str, table: pa.Table, charts: Mapping[str, alt.TopLevelMixin], settings: Mapping[str, Any]
) -> str:
    specs = ",\n".join(f'"{name}": {_safe(chart.to_json(indent=None))}' for name, chart in charts.items())
    made = {**settings, "clickbandit": version("clickbandit"), "Python": platform.python_version()}
    bundle = vlc.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>
<h1>{html.escape(title)}</h1>
{_summary(table)}
<h2>Regret over time</h2>
<p class="note">Expected regret a step: the reward of the best list less that of the list shown, averaged over the
queries; the bands are 95% intervals over runs. Where steps were leapt over, it is the mean over the orders in which
items were shuffled, without the noise of the orders that happened. Drag to move, scroll to zoom, double-click to go
back.</p>
<div class="chart" id="regret"></div>
<h2>How it was made</h2>
{_html_table([{"setting": name, "value": value} for name, value in made.items()])}
<script>{bundle}</script>
<script>const charts = {{{specs}}};
const options = {{actions: {{source: false, compiled: false, editor: false}}}};
for (const [name, spec] of Object.entries(charts)) vegaEmbed("#" + name, spec, options);
</script></body></html>
"""


def _safe(text: str) -> str:
    """JSON that cannot end the script element that it stands in."""
    return text.replace("</", "<\\/")


def _summary(table: pa.Table) -> str:
    """The totals of each policy on each model."""
    colour = colours(list(dict.fromkeys(table["policy"].to_pylist())))
    return _html_table(
        [
            {
                "model": total.model,
                "policy": _Html(
                    f'<span class="swatch" style="background:{colour[total.policy]}"></span>{html.escape(total.policy)}'
                ),
                "regret": f"{total.regret.mean:,.0f}",
                "95% interval": span(total.regret) if total.runs > 1 else "-",
                "regret a step at last": f"{total.last_regret.mean:.2g}",
                "clicks a step": f"{total.clicks.mean:.4f}",
                "queries": total.queries,
                "runs": total.runs,
            }
            for total in totals(table)
        ]
    )


class _Html(str):
    """Text that is HTML already."""


def _html_table(rows: Sequence[Mapping[str, Any]]) -> str:
    def cell(value: Any) -> str:
        number = isinstance(value, (int, float)) or (isinstance(value, str) and value[:1].isdigit())
        text = (
            value
            if isinstance(value, _Html)
            else html.escape(f"{value:,}" if isinstance(value, int) else str(value))
        )
        return f'<td class="number">{text}</td>' if number else f"<td>{text}</td>"

    head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "".join("<tr>" + "".join(cell(value) for value in row.values()) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
