"""The command that compares policies."""

from pathlib import Path
from typing import Annotated

import typer

from clickbandit.cli import _experiments as options
from clickbandit.cli._experiments import counted, maybe_counted, say_what_is_run, steps_of, stoppable
from clickbandit.cli._shared import (
    Positions,
    Steps,
    app,
    known_models,
    policy_list,
    queries_named,
    whole_number,
)


@app.command()
def compare(
    queries: options.QueriesFile,
    policy: Annotated[
        list[str] | None, typer.Option(*options.POLICY, help=options.POLICY_HELP, show_default="all")
    ] = None,
    model: options.Model = None,
    query: options.OneQuery = None,
    positions: Positions = 5,
    steps: Steps = "1e6",
    runs: options.Runs = "5",
    horizon: options.Horizon = None,
    delay: options.Delay = "0",
    drift: options.Drift = None,
    flip: options.Flip = 0.0,
    method: options.Method = "auto",
    seed: options.Seed = 1,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Results and report.")] = Path("comparison"),
    restart: options.Restart = False,
    threads: options.Threads = None,
    cluster: options.Cluster = None,
) -> None:
    """Compare policies on simulated users: leaderboards, a heat map, regret curves, and which is best.

    Stopped at any moment, the same command resumes where it was. For example:
    clickbandit compare --queries queries.json --model CM,PBM --policy all --steps 1e6 --runs 5 --out results
    """
    with stoppable() as experiments:
        from clickbandit.experiments.comparison import choose, plan_comparison
        from clickbandit.experiments.plan import Conditions
        from clickbandit.queries import load_queries

        conditions = Conditions(
            steps=counted("--steps", steps),
            runs=counted("--runs", runs),
            positions=positions,
            seed=seed,
            horizon=whole_number(horizon) if horizon else None,
            delay=whole_number(delay),
            drift=steps_of(drift),
            flip=flip,
            method=method,  # type: ignore[arg-type]  # checked by the problem
        )
        n_threads = maybe_counted("--threads", threads)
        entries = queries_named(load_queries(queries), query)
        field = choose(entries, policy_list(policy or ["all"]), known_models(model) or None)
        plan = plan_comparison(entries, field, conditions, input=queries.name)
        experiments.open(out, plan, restart=restart)
        say_what_is_run(field, plan, out)
        experiments.run(threads=n_threads, cluster=cluster)
        draw_comparison(out)


def draw_comparison(folder: Path) -> None:
    """Write the report of finished results, and print who is best."""
    from clickbandit.experiments.results import load_results
    from clickbandit.report.comparison import print_comparison, write_comparison

    results = load_results(folder)
    print_comparison(results)
    page, *_ = write_comparison(folder, results)
    print(f"report: {page}")
