"""Results as tables in the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table

from clickbandit.intervals import Interval
from clickbandit.report.claims import Claim
from clickbandit.report.statistics import totals


def print_results(table: pa.Table, ns_a_step: Mapping[tuple[str, str], float] | None = None) -> None:
    """The results of a simulation: means over queries, with 95% intervals over runs, and what a step took."""
    print_table(
        [
            {
                "model": total.model,
                "policy": total.policy,
                "regret": f"{total.regret.mean:,.0f}",
                "95% interval": span(total.regret) if total.runs > 1 else "-",
                "last regret/step": f"{total.last_regret.mean:.2g}",
                "clicks/step": f"{total.clicks.mean:.4f}",
            }
            | ({"ns/step": f"{ns_a_step[total.model, total.policy]:,.1f}"} if ns_a_step else {})
            for total in totals(table)
        ]
    )


def print_claims(claims: Sequence[Claim]) -> None:
    """What the paper claims, what was measured, and whether the claim holds."""
    print_table(
        [
            {
                "the paper says": claim.text,
                "measured here": claim.measured or "-",
                "holds": {True: "yes", False: f"no: {claim.why}", None: f"not shown: {claim.why}"}[
                    claim.holds
                ],
            }
            for claim in claims
        ]
    )


def span(interval: Interval) -> str:
    """An interval of large numbers.

    >>> span(Interval(1500.0, 1000.4, 1999.6))
    '1,000 to 2,000'
    """
    return f"{interval.low:,.0f} to {interval.high:,.0f}"


def print_assumptions(rows: Sequence[Mapping[str, Any]], horizon: int) -> None:
    """Which assumptions hold for each query and model, the bound on the regret, and why the others do not."""
    print_table(
        [
            {
                "query": row["query"],
                "model": row["model"],
                **{
                    str(finding["assumption"]): ("yes" if finding["holds"] else "no")
                    + ("" if finding["exhaustive"] else "*")
                    for finding in row["assumptions"]
                },
                f"bound at {horizon:,} steps": "none" if row["bound"] is None else f"{row['bound']:,.0f}",
            }
            for row in rows
        ]
    )
    names = {finding["assumption"]: finding["name"] for row in rows for finding in row["assumptions"]}
    print(", ".join(f"{number} {name}" for number, name in names.items()))
    if any(not finding["exhaustive"] for row in rows for finding in row["assumptions"]):
        print("* in a sample of all lists")
    for row in rows:
        for finding in row["assumptions"]:
            if not finding["holds"]:
                print(
                    f"{row['query']} {row['model']}, assumption {finding['assumption']}: {finding['explanation']}"
                )


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows with the same keys, as a table."""
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, value in rows[0].items():
        numeric = str(value)[:1].isdigit()
        table.add_column(name, justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console = Console()
    if not console.is_terminal:  # a file or a pipe has room
        console.width = max(console.width, 160)
    console.print(table)
