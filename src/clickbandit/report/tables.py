"""Results as tables in the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from clickbandit.intervals import Interval, mean_interval
from clickbandit.simulation.trace import Summary


def result_rows(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """A row for each model and policy: over its queries if there are several, else over the runs of the one."""
    groups: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        groups.setdefault((summary.model, summary.policy), []).append(summary)
    return [
        {
            "model": model,
            "policy": policy,
            "queries": len(group),
            "runs": sum(summary.runs for summary in group),
            "regret": _over([summary.regret for summary in group]),
            "last regret": _over([summary.last_regret for summary in group]),
            "clicks": _over([summary.clicks for summary in group]),
            "ns a step": 1e9 / float(np.median([summary.steps_per_second for summary in group])),
        }
        for (model, policy), group in groups.items()
    ]


def _over(intervals: Sequence[Interval]) -> Interval:
    return (
        intervals[0]
        if len(intervals) == 1
        else mean_interval([interval.mean for interval in intervals], least=0)
    )


def print_results(summaries: Sequence[Summary]) -> None:
    """The results of a simulation, with 95% intervals."""
    rows = [
        {
            "model": row["model"],
            "policy": row["policy"],
            "regret": f"{row['regret'].mean:,.0f}",
            "95% interval": f"{row['regret'].low:,.0f} to {row['regret'].high:,.0f}",
            "last regret/step": f"{row['last regret'].mean:.2g}",
            "clicks/step": f"{row['clicks'].mean:.4f}",
            "ns/step": f"{row['ns a step']:.0f}",
        }
        for row in result_rows(summaries)
    ]
    print_table(rows)


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
