"""The command that compares policies."""

import json
from pathlib import Path
from typing import Annotated

import typer

from clickbandit.cli import _experiments as options
from clickbandit.cli._experiments import planned, say_what_is_run, stoppable
from clickbandit.cli._shared import Json, Positions, Steps, app


@app.command()
def compare(
    context: typer.Context,
    queries: options.QueriesFile,
    policy: Annotated[
        list[str] | None, typer.Option(*options.POLICY, help=options.POLICY_HELP, show_default="all")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(*options.MODEL, help=options.MODEL_HELP, show_default="all that every query has"),
    ] = None,
    query: options.OneQuery = None,
    positions: Positions = 5,
    steps: Steps = "1e6",
    runs: options.Runs = "5",
    horizon: options.Horizon = None,
    delay: options.Delay = "0",
    drift: options.Drift = None,
    flip: options.Flip = 0.0,
    method: options.Method = "auto",
    against: options.Against = "clicks",
    until_settled: options.UntilSettled = False,
    prior: options.FromPrior = "none",
    prior_strength: options.PriorStrength = None,
    max_loss: options.MaxLoss = None,
    seed: options.Seed = 1,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Results and report.")] = Path("comparison"),
    restart: options.Restart = False,
    threads: options.Threads = None,
    cluster: options.Cluster = None,
    as_json: Json = False,
) -> None:
    """Compare policies on simulated users: leaderboards, a heat map, regret curves, and which is best.

    You can stop it at any moment, and the same command resumes. For example:
    clickbandit compare --queries queries.json --model CM,PBM --policy all --steps 1e6 --runs 5 --out results
    """
    with stoppable() as experiments:
        from clickbandit.experiments.comparison import KIND

        field, plan = planned(context.params, KIND, ["all"])
        experiments.open(out, plan, restart=restart)
        if not as_json:
            say_what_is_run(field, plan, out)
        experiments.run(threads=threads, cluster=cluster)
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
