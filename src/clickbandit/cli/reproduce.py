"""The command for the paper's experiments."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickbandit.cli._experiments import Cluster, Restart, Seed, Threads, stoppable
from clickbandit.cli._shared import Positions, app, known_models, policy_list, whole_number
from clickbandit.cli.logs import Format, LogCommand
from clickbandit.errors import InputError

if TYPE_CHECKING:
    from clickbandit.queries import Query

DISCUSSION, GENERATED = "discussion", "log.tsv.gz"


@app.command(cls=LogCommand)
def reproduce(
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Queries with their click models.", show_default="learned from --log"
        ),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Click log, repeatable.", show_default="one that is generated"),
    ] = None,
    format: Format = None,
    scale: Annotated[
        str, typer.Option(help="quick: a minute or so. paper: as in the paper, an hour on two cores.")
    ] = "quick",
    steps: Annotated[
        str | None, typer.Option(metavar="N", help="Steps of each run.", show_default="1e6, paper: 1e7")
    ] = None,
    runs: Annotated[
        str | None,
        typer.Option(metavar="N", help="Runs on each query and model.", show_default="3, paper: 10"),
    ] = None,
    policies: Annotated[
        str | None, typer.Option(help="Policies, apart by commas.", show_default="the paper's")
    ] = None,
    models: Annotated[str, typer.Option(help="Click models, apart by commas.")] = "CM,PBM",
    positions: Positions = 5,
    items: Annotated[
        int | None, typer.Option(help="With a log: each query's most attractive items.", show_default="10")
    ] = None,
    top_queries: Annotated[
        int | None,
        typer.Option(help="With a log: the most frequent queries.", show_default="20, paper: 60"),
    ] = None,
    seed: Seed = 1,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Results and report.", show_default="reproduction-SCALE"),
    ] = None,
    restart: Restart = False,
    threads: Threads = None,
    cluster: Cluster = None,
) -> None:
    """Reproduce the paper's experiments: a search log, click models, runs, figures and a report.

    Stopped at any moment, the same command goes on where it was. For example:
    clickbandit reproduce --scale paper --queries queries.json --out results
    """
    from clickbandit.experiments.discussion import plan_discussion
    from clickbandit.experiments.reproduction import POLICIES, SCALES, has_discussion, plan_reproduction
    from clickbandit.registry import suggestion

    if scale not in SCALES:
        raise InputError(f"there is no scale {scale!r}: {suggestion(scale, SCALES)}")
    given = {
        "--steps": steps,
        "--runs": runs,
        "--items": items,
        "--top-queries": top_queries,
        "--threads": threads,
    }
    numbers = {name: None if value is None else whole_number(str(value)) for name, value in given.items()}
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise InputError(f"{name} must be at least 1, found {number}")
    if queries and (log or format or items or top_queries):
        raise InputError(
            "--log, --format, --items and --top-queries do not go with --queries: give one or the other"
        )
    if format and not log:
        raise InputError("--format is that of a --log: give both or neither")
    chosen = policy_list(policies) if policies else list(POLICIES)
    names = known_models([name.strip() for name in models.split(",")])
    folder = out or Path(f"reproduction-{scale}")
    discussed = has_discussion(chosen, names)
    with stoppable() as experiments, tempfile.TemporaryDirectory(prefix="clickbandit-") as scratch:
        input, entries, made_log = _queries(
            queries,
            log,
            format,
            models=names,
            top_queries=top_queries or SCALES[scale].top_queries,
            items=items or 10,
            seed=seed,
            known=None if restart else folder,
            scratch=Path(scratch),
        )
        plan = plan_reproduction(
            entries,
            scale,
            policies=chosen,
            models=names,
            steps=numbers["--steps"],
            runs=numbers["--runs"],
            positions=positions,
            seed=seed,
            input=input,
            discussion=discussed,
        )
        experiments.open(folder, plan, restart=restart)
        if discussed:
            small = plan_discussion(SCALES[scale].discussion, seed=seed)
            experiments.open(folder / DISCUSSION, small, restart=restart)
        if made_log:
            shutil.move(made_log, folder / GENERATED)
        print(
            f"{len(chosen)} policies on {', '.join(names)} of {len(entries):,} queries: {len(plan.units):,} runs of "
            f"{plan.units[0].steps:,} steps{', and the discussion' if discussed else ''}, in {folder}"
        )
        experiments.run(threads=threads, cluster=cluster)
        draw_reproduction(folder)


def _queries(
    queries: Path | None,
    log: list[str] | None,
    format: str | None,
    *,
    models: list[str],
    top_queries: int,
    items: int,
    seed: int,
    known: Path | None,
    scratch: Path,
) -> "tuple[dict[str, Any], list[Query], Path | None]":
    """Where the queries come from, the queries, and the log that was generated for it, if one was.

    Those that a folder of results was begun with, from the same input, are taken from there.
    """
    from clickbandit.experiments.folder import QUERIES
    from clickbandit.experiments.manifest import MANIFEST, read_manifest
    from clickbandit.experiments.reproduction import SESSIONS, learn_queries
    from clickbandit.logs import files, write_realistic_log
    from clickbandit.progress import progress_bar, reading_bar
    from clickbandit.queries import load_queries

    if queries:
        return {"queries": queries.name}, load_queries(queries), None
    input: dict[str, Any] = {"log": "generated", "seed": seed}
    if log:
        sizes = [f"{path.name}, {path.stat().st_size} bytes" for path in files.find(log)]
        input = {"log": sizes, "format": format}
    input |= {"models": models, "top queries": top_queries, "items": items}
    begun = known is not None and (known / MANIFEST).exists() and (known / QUERIES).exists()
    if known and begun and read_manifest(known)["settings"].get("input") == input:
        return input, load_queries(known / QUERIES), None
    made = None
    if not log:
        made = scratch / GENERATED
        with progress_bar(SESSIONS, "generating a search log", "sessions") as wrote:
            write_realistic_log(made, seed=seed, sessions=SESSIONS, progress=wrote)
        log, format = [str(made)], "yandex-relpred"
    with reading_bar(sum(path.stat().st_size for path in files.find(log))) as advance:
        learned = learn_queries(log, format, models, top_queries=top_queries, items=items, progress=advance)
    return input, learned, made


def draw_reproduction(folder: Path) -> None:
    """Write the report of finished results, and print what came out."""
    from clickbandit.experiments.folder import load_results
    from clickbandit.report.claims import discussion_claims, paper_claims
    from clickbandit.report.reproduction import write_reproduction
    from clickbandit.report.tables import print_claims, print_results

    results = load_results(folder)
    settings = results.manifest["settings"]
    discussion = load_results(folder / DISCUSSION) if settings["discussion"] else None
    claims = paper_claims(results.table, results.queries, settings["positions"])
    if discussion:
        claims += discussion_claims(discussion.table)
    ran = results.manifest["units"]
    told = {
        **settings,
        "policies": ran["policy"],
        "models": ran["model"],
        "versions": results.manifest["versions"],
    }
    written = write_reproduction(
        folder, results.table, results.queries, told, discussion=discussion.table if discussion else None
    )
    print_results(results.table)
    print_claims(claims)
    if settings["scale"] != "paper" and any(claim.holds is None for claim in claims):
        print("What is not shown takes --scale paper.")
    for path in written:
        if path.suffix == ".html":
            print(f"report: {path}")
