"""The command that simulates policies on a queries file."""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickbandit.cli._experiments import (
    EngineOptions,
    RunOptions,
    Runs,
    models_option,
    planned,
    policies_option,
    say_what_is_run,
    stoppable,
)
from clickbandit.cli._shared import Force, app, output, with_options, write_parquet
from clickbandit.errors import InputError

if TYPE_CHECKING:
    from clickbandit.experiments.results import Record
    from clickbandit.extras import pa

POLICIES = ("click-ts", "cascade-kl-ucb", "ranked-exp3")
MODELS = ("CM", "PBM")
PAGE = "report.html"
_SETTINGS = b"clickbandit"  # where a Parquet file says how it was made


@dataclass(frozen=True)
class SimulateOptions(RunOptions):
    """As those of a comparison, with other defaults."""

    policy: Annotated[list[str] | None, policies_option(", ".join(POLICIES))] = None
    model: Annotated[list[str] | None, models_option("CM and PBM, where the file has them")] = None
    runs: Runs = "10"


@app.command()
@with_options
def simulate(
    *,
    given: SimulateOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Results: a table if it ends in .parquet, else a folder with a report."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report here, as one HTML page.")] = None,
    force: Force = False,
    engine: EngineOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summaries as JSON.")] = False,
) -> None:
    """Let policies learn from simulated users, and see their regret.

    With --out you can stop it at any moment, and the same command resumes. For example:
    clickbandit simulate --queries queries.json --model PBM --policy batchrank
    --policy cascade-kl-ucb:feedback=last --steps 1e6 --runs 10 --out results.parquet
    """
    with (
        stoppable(engine, resumable=out is not None) as experiments,
        tempfile.TemporaryDirectory(prefix="clickbandit-") as scratch,
    ):
        from clickbandit.experiments.comparison import SIMULATION
        from clickbandit.experiments.results import settled_steps

        if out is not None and out == report:
            raise InputError(f"--out and --report must be different, found {out} twice")
        field, plan = planned(given, SIMULATION, POLICIES, MODELS)
        table = out if out is not None and out.suffix == ".parquet" else None
        place = Path(scratch, "runs") if out is None else out.with_name(f"{out.name}.runs") if table else out
        with output(table, force) as table_file, output(report, force) as report_file:
            folder = experiments.open(place, plan)
            if not as_json:
                say_what_is_run(field, plan, out)
            try:
                experiments.run()
            except KeyboardInterrupt:
                if out is None:  # what is finished would be lost
                    show(folder.records, as_json)
                raise
            results = show(folder.records, as_json)
            pages = [report_file, out / PAGE if out and not table else None]
            made = {**plan.settings, "horizon": plan.units[0].horizon, "method": plan.units[0].method}
            made["settled"] = settled_steps(folder.records)
            _write(results, made, table_file, [page for page in pages if page])
        if table:
            shutil.rmtree(place)
    for path in filter(None, () if as_json else (out, report)):
        print(f"written: {path}")


def _write(results: "pa.Table", made: Mapping[str, Any], table: Path | None, pages: Sequence[Path]) -> None:
    """Write the results as a table and as pages, with how they were made."""
    draw_simulation(results, made, pages)
    if table:
        write_parquet(results.replace_schema_metadata({_SETTINGS: json.dumps(made)}), table)


def show(records: "Sequence[Record]", as_json: bool) -> "pa.Table":
    """Print what came out, as a table or as JSON; all of it by run and window."""
    from clickbandit.experiments.results import ns_a_step, settled_steps, traces_of
    from clickbandit.extras import pa
    from clickbandit.report.tables import print_notes, print_results

    traces = traces_of(records)
    tables = [trace.to_table() for trace in traces]
    if as_json:
        print(json.dumps({"results": [trace.summary().to_dict() for trace in traces]}, indent=1))
    elif traces:
        print_results(pa.concat_tables(tables), ns_a_step(records))
        print_notes(traces[0].against, settled_steps(records), len(records))
    else:
        print("nothing was finished")
    return pa.concat_tables(tables) if tables else None


def draw_simulation(table: "pa.Table", settings: Mapping[str, Any], pages: Sequence[Path]) -> None:
    """Write the report of a simulation."""
    if pages:
        from clickbandit.report.pages.simulation import write_report

        for page in pages:
            write_report(page, table, settings)


def redraw_folder(folder: Path, as_json: bool) -> None:
    """Draw what `simulate` left in a folder again."""
    from clickbandit.experiments.results import load_results
    from clickbandit.report.tables import noted, print_notes, print_results

    results = load_results(folder)
    settings = {**results.manifest["settings"], "settled": results.settled}
    draw_simulation(results.table, settings, [folder / PAGE])
    if as_json:
        print_data(results.table, folder / PAGE)
        return
    print_results(results.table, results.ns_a_step)
    print_notes(*noted(results.table, settings))
    print(f"report: {folder / PAGE}")


def print_data(table: "pa.Table", page: Path, **more: Any) -> None:
    """Results as JSON, by click model and policy, and where their report is."""
    from clickbandit.report.tables import results_as_data

    print(json.dumps({"results": results_as_data(table), **more, "report": str(page)}, indent=1))


def redraw_table(path: Path, force: bool, as_json: bool) -> None:
    """Draw what `simulate` left in a Parquet file again, as a page next to it."""
    from clickbandit.extras import pa, pq
    from clickbandit.report.tables import noted, print_notes, print_results
    from clickbandit.simulation.trace import COLUMNS

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    if not table.schema.equals(pa.schema(COLUMNS.items())):
        raise InputError(
            f"{path} must be a table that 'clickbandit simulate' wrote, with the columns "
            f"{', '.join(COLUMNS)}, found {', '.join(table.column_names)}"
        )
    settings = json.loads((table.schema.metadata or {}).get(_SETTINGS, b"{}"))
    page = path.with_suffix(".html")
    with output(page, force) as page_file:
        assert page_file is not None
        draw_simulation(table, settings, [page_file])
    if as_json:
        print_data(table, page)
        return
    print_results(table)
    print_notes(*noted(table, settings))
    print(f"report: {page}")
