"""The command that says which queries of a click log are ordered wrongly."""

import json
from pathlib import Path
from typing import Annotated

import typer

from clickbandit.cli._logs import MODELS, LogCommand, LogOptions, Logs
from clickbandit.cli._shared import Force, app, at_least_1, known_models, output, with_options


@app.command(cls=LogCommand)
@with_options
def audit(
    *,
    log: Logs,
    model: Annotated[
        str | None,
        typer.Option(
            help="Judge by this click model.",
            show_default="the one of --models that fits held-out sessions best",
        ),
    ] = None,
    models: Annotated[str, typer.Option(help="Comma-separated click models to compare.")] = MODELS,
    min_sessions: Annotated[int, typer.Option(help="Refuse queries with fewer sessions.")] = 200,
    min_clicks: Annotated[
        int, typer.Option(help="Refuse queries with fewer clicks on their usual list.")
    ] = 20,
    min_impressions: Annotated[
        int, typer.Option(help="Never suggest an item that was shown fewer times.")
    ] = 50,
    top: Annotated[int, typer.Option(help="How many queries the table shows.")] = 20,
    reading: LogOptions,
    seed: Annotated[int, typer.Option(help="Seed of the draws behind the intervals.")] = 0,
    page: Annotated[
        Path | None, typer.Option(help="Write all queries here, as a page that needs no network.")
    ] = None,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all queries as JSON.")] = False,
) -> None:
    """Find the queries of a log that are ordered wrongly, and what a better order would earn.

    For example: clickbandit audit log.tsv.gz --page audit.html
    """
    from clickbandit.logs.audit import Evidence
    from clickbandit.logs.audit import audit as audited
    from clickbandit.progress import progress_bar
    from clickbandit.report.pages.audit import print_audit, write_audit

    for option, number in (("--min-sessions", min_sessions), ("--min-clicks", min_clicks), ("--top", top)):
        at_least_1(option, number)
    (one,) = known_models([model]) if model else (None,)
    with output(page, force) as page_file:
        counts = reading.count(log)
        with progress_bar(counts.n_queries, "judging", "queries") as advance:
            found = audited(
                counts,
                model=one,
                models=known_models([models]),
                evidence=Evidence(min_sessions, min_clicks, min_impressions),
                seed=seed,
                progress=advance,
            )
        if page_file:
            write_audit(page_file, found)
    if as_json:
        print(json.dumps({"reading": counts.reading.as_dict(), **found.as_dict()}, indent=1))
        return
    print(counts.reading)
    print_audit(found, top)
    if page:
        print(f"written: {page}")
