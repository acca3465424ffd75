"""Commands that say what there is, and what the theory says of a queries file."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from clickbandit.cli._experiments import OneQuery, models_option
from clickbandit.cli._shared import Json, Positions, app, known_models, queries_named, whole_number
from clickbandit.terminal import print_table, say


@app.command()
def policies(as_json: Json = False) -> None:
    """List the policies, their settings and their papers."""
    from dataclasses import fields

    from clickbandit.policies.base import policy_class, policy_names

    rows = []
    for name in policy_names():
        kind = policy_class(name)
        settings = ", ".join(f"{field.name}={field.default}" for field in fields(kind))
        rows.append({"policy": name, "settings": settings, "idea": _first_line(kind), "paper": kind.paper})
    _print_rows(rows, as_json)


@app.command()
def models(as_json: Json = False) -> None:
    """List the click models, their parameters and their papers."""
    from dataclasses import fields

    from clickbandit.click_models.base import model_class, model_names

    rows = []
    for name in model_names():
        kind = model_class(name)
        parameters = ", ".join(field.name for field in fields(kind))
        rows.append(
            {"model": name, "parameters": parameters, "users": _first_line(kind), "paper": kind.paper}
        )
    _print_rows(rows, as_json)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="File with queries and their click models.")],
    model: Annotated[list[str] | None, models_option("all")] = None,
    query: OneQuery = None,
    positions: Positions = 5,
    steps: Annotated[
        str, typer.Option(metavar="N", help="Steps that the bound on the regret is for.")
    ] = "1e6",
    as_json: Json = False,
) -> None:
    """Check which of the paper's assumptions hold for each query and click model, and compute the regret bound.

    BatchRank is guaranteed to learn the best list if all six hold and no two of the best items are equally attractive.
    If an assumption does not hold, the lists that break it are shown, and there is no bound.
    """
    from clickbandit.click_models.base import RATES
    from clickbandit.queries import load_queries
    from clickbandit.theory import check_assumptions, regret_bound

    horizon = whole_number(steps)
    chosen_models = known_models(model)
    rows = []
    for entry in queries_named(load_queries(file), query):
        for name in chosen_models or [name for name in entry.models if name not in RATES]:
            users = entry.model(name)
            findings = check_assumptions(users, positions)
            bound = regret_bound(users, positions, horizon)
            rows.append(
                {
                    "query": entry.query,
                    "model": name,
                    "assumptions": [finding._asdict() for finding in findings],
                    "bound": bound if all(f.holds for f in findings) and math.isfinite(bound) else None,
                }
            )
    if as_json:
        print(json.dumps({"positions": positions, "steps": horizon, "results": rows}, indent=1))
        return
    _print_assumptions(rows, horizon)


def _print_assumptions(rows: Sequence[Mapping[str, Any]], horizon: int) -> None:
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
    say(", ".join(f"{number} {name}" for number, name in names.items()))
    if any(not finding["exhaustive"] for row in rows for finding in row["assumptions"]):
        print("* in a sample of all lists")
    for row in rows:
        for finding in row["assumptions"]:
            if not finding["holds"]:
                say(
                    f"{row['query']} {row['model']}, assumption {finding['assumption']}: {finding['explanation']}"
                )


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _print_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    print_table(rows)
