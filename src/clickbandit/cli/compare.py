"""The command that compares policies."""

import json
from pathlib import Path
from typing import Annotated

import typer

from clickbandit.cli._experiments import EngineOptions, RunOptions, planned, say_what_is_run, stoppable
from clickbandit.cli._shared import Json, app, with_options


@app.command()
@with_options
def compare(
    *,
    given: RunOptions,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Results and report.")] = Path("comparison"),
    engine: EngineOptions,
    as_json: Json = False,
) -> None:
    """Compare policies on simulated users: leaderboards, a heat map, regret curves, and which is best.

    You can stop it at any moment, and the same command resumes. For example:
    clickbandit compare --queries queries.json --model CM,PBM --policy all --steps 1e6 --runs 5 --out results
    """
    with stoppable(engine) as experiments:
        from clickbandit.experiments.comparison import KIND

        field, plan = planned(given, KIND, ["all"])
        experiments.open(out, plan)
        if not as_json:
            say_what_is_run(field, plan, out)
        experiments.run()
        draw_comparison(out, as_json)


def draw_comparison(folder: Path, as_json: bool) -> None:
    """Write the report of finished results, and print who is best."""
    from clickbandit.experiments.results import load_results
    from clickbandit.report.pages.comparison import comparison_as_data, print_comparison, write_comparison

    results = load_results(folder)
    page, *_ = write_comparison(folder, results)
    if as_json:
        print(json.dumps({**comparison_as_data(results), "report": str(page)}, indent=1))
        return
    print_comparison(results)
    print(f"report: {page}")
