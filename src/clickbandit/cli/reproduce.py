"""The command for the paper's experiments."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from clickbandit.cli._experiments import (
    EngineOptions,
    Seed,
    describe_units,
    maybe_counted,
    models_option,
    policies_option,
    stoppable,
)
from clickbandit.cli._logs import LogCommand, TableOptions
from clickbandit.cli._shared import Json, Positions, app, known_models, policy_list, with_options
from clickbandit.cli.simulate import print_data
from clickbandit.errors import InputError

if TYPE_CHECKING:
    from clickbandit.experiments.plan import Plan
    from clickbandit.queries import Query

Steps = Annotated[
    str | None, typer.Option(metavar="N", help="Steps of each run.", show_default="1e6, paper: 1e7")
]
Runs = Annotated[
    str | None, typer.Option(metavar="N", help="Runs on each query and model.", show_default="3, paper: 10")
]
DISCUSSION, GENERATED = "discussion", "log.tsv.gz"


@app.command(cls=LogCommand)
@with_options
def reproduce(
    *,
    context: typer.Context,
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
    reading: TableOptions,
    scale: Annotated[
        str, typer.Option(help="quick: a minute or so. paper: as in the paper, half an hour on two cores.")
    ] = "quick",
    steps: Steps = None,
    runs: Runs = None,
    policy: Annotated[list[str] | None, policies_option("the paper's")] = None,
    model: Annotated[list[str] | None, models_option("CM, PBM")] = None,
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
    engine: EngineOptions,
    as_json: Json = False,
) -> None:
    """Reproduce the paper's experiments: a search log, click models, runs, figures and a report.

    You can stop it at any moment, and the same command resumes. For example:
    clickbandit reproduce --scale paper --queries queries.json --out results
    """
    folder = out or Path(f"reproduction-{scale}")
    with stoppable(engine) as experiments, tempfile.TemporaryDirectory(prefix="clickbandit-") as scratch:
        plans, made_log = _plans(context.params, reading, folder, Path(scratch))
        for path, plan in plans.items():
            experiments.open(path, plan)
        if made_log:
            shutil.move(made_log, folder / GENERATED)
        ran = describe_units(plans[folder])
        if not as_json:
            print(f"{ran}{', and the discussion' if len(plans) > 1 else ''}, in {folder}")
        experiments.run()
        draw_reproduction(folder, as_json)


def _plans(
    given: Mapping[str, Any], reading: TableOptions, folder: Path, scratch: Path
) -> "tuple[dict[Path, Plan], Path | None]":
    """The plan of each folder by the options of the command, and the log that was generated for them, if one was."""
    from clickbandit.experiments.discussion import plan_discussion
    from clickbandit.experiments.paper import MODELS, POLICIES, SCALES, plan_reproduction
    from clickbandit.experiments.plan import Conditions
    from clickbandit.queries import load_queries
    from clickbandit.registry import suggestion

    if given["scale"] not in SCALES:
        raise InputError(f"there is no scale {given['scale']!r}: {suggestion(given['scale'], SCALES)}")
    if given["queries"] and any(given[name] for name in ("log", "format", "items", "top_queries")):
        raise InputError(
            "--log, --format, --items and --top-queries do not go with --queries: give one or the other"
        )
    if reading.is_given and not given["log"]:
        raise InputError("--format, --columns and what goes with them are for a --log: give both or neither")
    size = SCALES[given["scale"]]
    conditions = Conditions(
        steps=maybe_counted("--steps", given["steps"]) or size.steps,
        runs=maybe_counted("--runs", given["runs"]) or size.runs,
        positions=given["positions"],
        seed=given["seed"],
        method=size.method,
    )
    policies, models = policy_list(given["policy"] or POLICIES), known_models(given["model"] or MODELS)
    learned = Learned(
        log=given["log"],
        reading=reading,
        models=models,
        top_queries=maybe_counted("--top-queries", given["top_queries"]) or size.top_queries,
        items=maybe_counted("--items", given["items"]) or 10,
        seed=given["seed"],
    )
    if given["queries"]:
        input, queries, made_log = {"queries": given["queries"].name}, load_queries(given["queries"]), None
    else:
        input, queries, made_log = learned.queries(
            known=None if given["restart"] else folder, scratch=scratch
        )
    plans = {folder: plan_reproduction(queries, given["scale"], policies, models, conditions, input)}
    if plans[folder].settings["discussion"]:
        plans[folder / DISCUSSION] = plan_discussion(size.discussion, seed=given["seed"])
    return plans, made_log


_Queries = tuple[dict[str, Any], "list[Query]", Path | None]
"""Where the queries come from, the queries, and the log that was generated for it, if one was."""


class Learned(NamedTuple):
    """Queries that are learned from a log, which is generated if none is given."""

    log: list[str] | None
    reading: TableOptions
    models: list[str]
    top_queries: int
    items: int
    seed: int

    def queries(self, *, known: Path | None, scratch: Path) -> _Queries:
        """Those that a folder of results was begun with, from the same input, are taken from there."""
        from clickbandit.experiments.manifest import MANIFEST, read_manifest
        from clickbandit.experiments.paper import SESSIONS, learn_queries
        from clickbandit.experiments.results import QUERIES
        from clickbandit.logs import files, write_realistic_log
        from clickbandit.progress import progress_bar
        from clickbandit.queries import load_queries

        log, reading, made = self.log, self.reading, None
        input: dict[str, Any] = {"log": "generated", "seed": self.seed}
        if log:
            sizes = [f"{path.name}, {path.stat().st_size} bytes" for path in files.find(log)]
            input = {"log": sizes, "format": reading.format}
            if replace(reading, format=None).is_given:
                input["columns"] = repr(reading.named)
        input |= {"models": self.models, "top queries": self.top_queries, "items": self.items}
        begun = known is not None and (known / MANIFEST).exists() and (known / QUERIES).exists()
        if known and begun and read_manifest(known)["settings"].get("input") == input:
            return input, load_queries(known / QUERIES), None
        if not log:
            made = scratch / GENERATED
            with progress_bar(SESSIONS, "generating a search log", "sessions") as wrote:
                write_realistic_log(made, seed=self.seed, sessions=SESSIONS, progress=wrote)
            log, reading = [str(made)], TableOptions("yandex-relpred")
        learned = learn_queries(
            reading.count(log), self.models, top_queries=self.top_queries, items=self.items
        )
        return input, learned, made


def draw_reproduction(folder: Path, as_json: bool) -> None:
    """Write the report of finished results, and print what came out."""
    from clickbandit.experiments.results import load_results
    from clickbandit.report.claims import discussion_claims, paper_claims
    from clickbandit.report.pages.reproduction import write_reproduction
    from clickbandit.report.tables import print_claims, print_notes, print_results

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
    if as_json:
        page = next(path for path in written if path.suffix == ".html")
        print_data(results.table, page, claims=[claim._asdict() for claim in claims])
        return
    print_results(results.table)
    print_notes()
    print_claims(claims)
    if settings["scale"] != "paper" and any(claim.holds is None for claim in claims):
        print("What is not shown here needs --scale paper.")
    for path in written:
        if path.suffix == ".html":
            print(f"report: {path}")
