"""The command that simulates policies on a queries file."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from clickbandit.cli._shared import (
    Force,
    Positions,
    Steps,
    app,
    known_models,
    output,
    queries_named,
    whole_number,
    write_parquet,
)
from clickbandit.errors import InputError


@app.command()
def simulate(
    queries: Annotated[
        Path, typer.Option(help="File with the queries and their click models.", metavar="FILE")
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(help="Click model, repeatable.", show_default="those of CM and PBM that there are"),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Policy with settings, as name:key=value,key=value, or your own as file.py:Class; repeatable.",
            show_default="batchrank, cascade-kl-ucb, ranked-exp3",
        ),
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option(help="Only this query, repeatable.", show_default="all")
    ] = None,
    positions: Positions = 5,
    steps: Steps = "1e6",
    runs: Annotated[str, typer.Option(metavar="N", help="Runs of each policy on each click model.")] = "10",
    seed: Annotated[int, typer.Option(help="Another seed gives other runs, the same seed the same.")] = 1,
    delay: Annotated[int, typer.Option(help="Steps by which feedback is late.")] = 0,
    horizon: Annotated[
        str | None,
        typer.Option(metavar="N", help="Steps that policies are tuned for.", show_default="--steps"),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="Take steps one by one (step), many at once (leap), or the quicker of both (auto)."
        ),
    ] = "auto",
    threads: Annotated[int | None, typer.Option(help="Threads to run on.", show_default="all cores")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the results here, as Parquet.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report here, as one HTML page.")] = None,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summaries as JSON.")] = False,
) -> None:
    """Let policies learn from simulated users, and compare their regret.

    For example: clickbandit simulate --queries queries.json --model PBM --policy batchrank
    --policy cascade-kl-ucb:feedback=last --steps 1e6 --runs 10 --out results.parquet
    """
    from clickbandit.policies.base import parse_policy
    from clickbandit.progress import progress_bar
    from clickbandit.queries import load_queries
    from clickbandit.simulation.run import Problem
    from clickbandit.simulation.simulate import Interrupted, Task, simulate_all

    n_steps, n_runs = whole_number(steps), whole_number(runs)
    for option, number in (("--steps", n_steps), ("--runs", n_runs), ("--threads", threads)):
        if number is not None and number < 1:
            raise InputError(f"{option} must be at least 1, found {number}")
    policies = {text: parse_policy(text) for text in policy or ["batchrank", "cascade-kl-ucb", "ranked-exp3"]}
    chosen_models = known_models(model)
    if out is not None and out == report:
        raise InputError(f"--out and --report must be different files, found {out} twice")
    chosen = queries_named(load_queries(queries), query)
    problem: dict[str, Any] = {
        "positions": positions,
        "horizon": whole_number(horizon) if horizon else n_steps,
        "delay": delay,
        "method": method,
    }
    interrupted = False
    with output(out, force) as results_file, output(report, force) as report_file:
        tasks = [
            Task(text, Problem(settings, entry.model(name), query=entry.query, **problem))
            for entry in chosen
            for name in chosen_models or [name for name in ("CM", "PBM") if name in entry.models]
            for text, settings in policies.items()
        ]
        try:
            with progress_bar(len(tasks) * n_runs * n_steps, "simulating") as advance:
                traces = simulate_all(
                    tasks, steps=n_steps, runs=n_runs, seed=seed, threads=threads, progress=advance
                )
        except Interrupted as stopped:
            traces, interrupted = stopped.traces, True
        if traces:
            import pyarrow as pa

            table = pa.concat_tables([trace.to_table() for trace in traces])
            if results_file:
                write_parquet(table, results_file)
            if report_file:
                from clickbandit.report.simulated import write_report

                settings = {
                    **problem,
                    "queries": queries.name,
                    "steps": n_steps,
                    "runs": n_runs,
                    "seed": seed,
                }
                write_report(report_file, table, settings)
    if as_json:
        print(json.dumps({"results": [trace.summary().to_dict() for trace in traces]}, indent=1))
    else:
        if not traces:
            print("nothing was finished")
        else:
            from clickbandit.report.tables import print_results

            rates = {(trace.model, trace.policy): trace.summary().steps_per_second for trace in traces}
            print_results(table, {key: 1e9 / rate for key, rate in rates.items()})
            for path in filter(None, (out, report)):
                print(f"written: {path}")
    if interrupted:
        print("clickbandit: interrupted; what is above is what was finished", file=sys.stderr)
        raise typer.Exit(130)
