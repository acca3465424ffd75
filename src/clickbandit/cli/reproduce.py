"""The command for the paper's experiments."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from clickbandit import __version__
from clickbandit.cli._experiments import (
    EngineOptions,
    Experiments,
    Seed,
    describe_units,
    maybe_counted,
    models_option,
    policies_option,
    stoppable,
)
from clickbandit.cli._logs import LogCommand, TableOptions, warn
from clickbandit.cli._shared import Json, Positions, app, known_models, policy_list, with_options
from clickbandit.cli.simulate import print_data
from clickbandit.errors import InputError

if TYPE_CHECKING:
    from clickbandit.experiments.plan import Plan
    from clickbandit.experiments.preparing import Prepared
    from clickbandit.logs import Counts
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
        str,
        typer.Option(
            help="quick: a minute or so. paper: as in the paper, ten to twenty minutes on two cores."
        ),
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
    with stoppable(engine) as experiments:
        plans, learned = _plans(context.params, reading, folder, experiments)
        for path, plan in plans.items():
            experiments.open(path, plan)
        if learned:
            learned.finish(folder)
        ran = describe_units(plans[folder])
        if not as_json:
            print(f"{ran}{', and the discussion' if len(plans) > 1 else ''}, in {folder}")
        experiments.run()
        draw_reproduction(folder, as_json)


def _plans(
    given: Mapping[str, Any], reading: TableOptions, folder: Path, experiments: Experiments
) -> "tuple[dict[Path, Plan], Learned | None]":
    """The plan of each folder by the options of the command, and how its queries were learned, if they were."""
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
    learned = None
    if given["queries"]:
        input, queries = {"queries": given["queries"].name}, load_queries(given["queries"])
    else:
        learned = Learned(
            log=given["log"],
            reading=reading,
            models=models,
            top_queries=maybe_counted("--top-queries", given["top_queries"]) or size.top_queries,
            items=maybe_counted("--items", given["items"]) or 10,
            seed=given["seed"],
        )
        input, queries = learned.input, learned.queries(folder, experiments)
    plans = {folder: plan_reproduction(queries, given["scale"], policies, models, conditions, input)}
    if plans[folder].settings["discussion"]:
        plans[folder / DISCUSSION] = plan_discussion(size.discussion, seed=given["seed"])
    return plans, learned


class Learned(NamedTuple):
    """Queries that are learned from a log, which is generated if none is given."""

    log: list[str] | None
    reading: TableOptions
    models: list[str]
    top_queries: int
    items: int
    seed: int

    @property
    def input(self) -> dict[str, Any]:
        """What the manifest says of where the queries come from."""
        from clickbandit.logs import files

        came: dict[str, Any] = {"log": "generated", "seed": self.seed}
        if self.log:
            sizes = [f"{path.name}, {path.stat().st_size} bytes" for path in files.find(self.log)]
            came = {"log": sizes, "format": self.reading.format}
            if replace(self.reading, format=None).is_given:
                came["columns"] = repr(self.reading.named)
        return came | {"models": self.models, "top queries": self.top_queries, "items": self.items}

    def queries(self, folder: Path, experiments: Experiments) -> "list[Query]":
        """Those that a folder of results was begun with are taken from there, and so is what is prepared in it."""
        from clickbandit.experiments.paper import learn_queries
        from clickbandit.experiments.preparing import Prepared, queries_begun_with

        known = None if experiments.restart else queries_begun_with(folder, self.input)
        if known is not None:
            return known
        with Prepared.open(folder, restart=experiments.restart) as prepared:
            counts = self._counts(prepared, experiments)
            return learn_queries(counts, self.models, top_queries=self.top_queries, items=self.items)

    def finish(self, folder: Path) -> None:
        """Leave what was prepared behind, but for the log that was generated: the folder has its queries now."""
        from clickbandit.experiments.preparing import Prepared

        prepared = Prepared(folder)
        prepared.keep(self._generated(prepared), GENERATED)
        prepared.discard()

    def _counts(self, prepared: "Prepared", experiments: Experiments) -> "Counts":
        from clickbandit.experiments.folder import write_whole
        from clickbandit.logs import Counts, files

        again = "starts again" if experiments.restart else "resumes from there"
        log, reading = self.log, self.reading
        if not log:
            made = self._generated(prepared)
            if not made.exists():
                self._generate(made)
            experiments.before = f"the log is generated, but not counted yet, and the same command {again}"
            log, reading = [str(made)], TableOptions("yandex-relpred")
        else:
            experiments.before = (
                "the log was not read to its end, and the same command reads it from its start"
            )
        found = [(str(path.resolve()), path.stat()) for path in files.find(log)]
        made_from = [(path, stat.st_size, stat.st_mtime_ns) for path, stat in found]
        place = prepared.path("counts.parquet", [__version__, made_from, reading.format, repr(reading.named)])
        counted = f"the log is counted, but nothing was run yet, and the same command {again}"
        if place.exists():
            experiments.before = counted
            counts = Counts.load(place)
            warn(counts.reading)
        else:
            counts = reading.count(log)
            write_whole(place, counts.save)
            experiments.before = counted
        return counts

    def _generated(self, prepared: "Prepared") -> Path:
        from clickbandit.experiments.paper import SESSIONS

        return prepared.path(GENERATED, [__version__, self.seed, SESSIONS])

    def _generate(self, path: Path) -> None:
        from clickbandit.experiments.folder import write_whole
        from clickbandit.experiments.paper import SESSIONS
        from clickbandit.logs import write_realistic_log
        from clickbandit.progress import progress_bar

        with progress_bar(SESSIONS, "generating a search log", "sessions") as wrote:
            write_whole(
                path,
                lambda file: write_realistic_log(file, seed=self.seed, sessions=SESSIONS, progress=wrote),
            )


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
