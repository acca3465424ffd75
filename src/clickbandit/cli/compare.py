"""The command that compares policies."""

from pathlib import Path
from typing import Annotated

import typer

from clickbandit.cli._experiments import Cluster, Restart, Seed, Threads, stoppable
from clickbandit.cli._shared import Positions, Steps, app, known_models, policy_list, whole_number
from clickbandit.errors import InputError


@app.command()
def compare(
    queries: Annotated[
        Path, typer.Option(help="File with the queries and their click models.", metavar="FILE")
    ],
    models: Annotated[
        str | None,
        typer.Option(help="Click models, apart by commas.", show_default="all that every query has"),
    ] = None,
    policies: Annotated[
        str,
        typer.Option(
            help="Policies as in simulate, apart by commas; 'all' are those of the library, as in all,mine.py:Mine."
        ),
    ] = "all",
    steps: Steps = "1e6",
    runs: Annotated[str, typer.Option(metavar="N", help="Runs of each policy on each click model.")] = "5",
    positions: Positions = 5,
    drift: Annotated[
        str | None,
        typer.Option(
            metavar="N,N", help="Steps after which the items are shuffled: users want others from then on."
        ),
    ] = None,
    delay: Annotated[str, typer.Option(metavar="N", help="Steps by which feedback is late.")] = "0",
    flip: Annotated[
        float, typer.Option(help="Share of clicks and of missing clicks that are inverted.")
    ] = 0.0,
    seed: Seed = 1,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Results and report.")] = Path("comparison"),
    restart: Restart = False,
    threads: Threads = None,
    cluster: Cluster = None,
) -> None:
    """Compare policies on simulated users: leaderboards, a heat map, regret curves, and which is best.

    Stopped at any moment, the same command goes on where it was. For example:
    clickbandit compare --queries queries.json --models CM,PBM --policies all --steps 1e6 --runs 5 --out results
    """
    from clickbandit.experiments.comparison import choose, plan_comparison
    from clickbandit.queries import load_queries

    n_steps, n_runs = whole_number(steps), whole_number(runs)
    for option, number in (("--steps", n_steps), ("--runs", n_runs), ("--threads", threads)):
        if number is not None and number < 1:
            raise InputError(f"{option} must be at least 1, found {number}")
    entries = load_queries(queries)
    named = None if models is None else known_models([name.strip() for name in models.split(",")])
    field = choose(entries, policy_list(policies), named)
    plan = plan_comparison(
        entries,
        field,
        steps=n_steps,
        runs=n_runs,
        positions=positions,
        seed=seed,
        drift=[whole_number(step) for step in drift.split(",")] if drift else [],
        delay=whole_number(delay),
        flip=flip,
        input=queries.name,
    )
    with stoppable() as experiments:
        experiments.open(out, plan, restart=restart)
        print(
            f"{len(field.policies)} policies on {', '.join(field.models)} of {len(entries):,} queries: "
            f"{len(plan.units):,} runs of {n_steps:,} steps, in {out}"
        )
        for note in field.notes:
            print(note)
        experiments.run(threads=threads, cluster=cluster)
        draw_comparison(out)


def draw_comparison(folder: Path) -> None:
    """Write the report of finished results, and print who is best."""
    from clickbandit.experiments.folder import load_results
    from clickbandit.report.comparison import print_comparison, write_comparison

    results = load_results(folder)
    print_comparison(results)
    page, *_ = write_comparison(folder, results)
    print(f"report: {page}")
