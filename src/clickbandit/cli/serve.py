"""The command that serves a ranker over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from clickbandit.cli._shared import Positions, app, whole_number
from clickbandit.errors import InputError


@app.command()
def serve(
    store: Annotated[
        str,
        typer.Option(
            envvar="CLICKBANDIT_STORE",
            metavar="URL",
            help="Where everything is kept: sqlite:///FILE, or postgresql://... for many workers.",
        ),
    ] = "sqlite:///clickbandit.db",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any.")] = 8000,
    workers: Annotated[int, typer.Option(help="Processes; more than one only with PostgreSQL.")] = 1,
    policy: Annotated[
        str,
        typer.Option(help="Policy with settings, as name:key=value,key=value, or your own as file.py:Class."),
    ] = "batchrank",
    positions: Positions = 5,
    horizon: Annotated[
        str, typer.Option(metavar="N", help="Impressions of a query that set a policy's constants.")
    ] = "1e6",
    window: Annotated[
        str,
        typer.Option(metavar="TIME", help="After how long an impression settles, such as 90s, 30m, 12h, 2d."),
    ] = "30m",
    holdout: Annotated[
        float, typer.Option(help="Share of impressions that are shown in the given order, to compare with.")
    ] = 0.0,
    retention: Annotated[
        str, typer.Option(metavar="TIME", help="How long settled impressions and their events are kept.")
    ] = "7d",
    patience: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="How long a list may wait for the store before the given order is served."
        ),
    ] = "2s",
    seed: Annotated[int, typer.Option(help="Another seed shows other lists.")] = 0,
    max_queries: Annotated[str, typer.Option(metavar="N", help="Queries that there may be.")] = "1e6",
    rate: Annotated[
        float | None,
        typer.Option(
            help="Requests a second that each API key may make, of each worker.", show_default="no limit"
        ),
    ] = None,
    api_keys_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="API keys, one on a line as KEY or NAME:KEY, besides those in the variable CLICKBANDIT_API_KEYS.",
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve other machines without API keys.")
    ] = False,
    log_requests: Annotated[bool, typer.Option(help="Log a line for each request.")] = True,
    log_queries: Annotated[
        bool, typer.Option("--log-queries", help="Log the names in addresses too: queries and impressions.")
    ] = False,
) -> None:
    """Serve a ranker that learns from clicks, over HTTP.

    The settings hold for queries that do not set their own. For example, in one shell and another:

    clickbandit serve --positions 3 --window 30m

    curl http://127.0.0.1:8000/v1/rank --json '{"query": "red shoes", "items": ["A", "B", "C", "D"]}'

    curl http://127.0.0.1:8000/v1/events --json '{"events": [{"id": "THE ANSWER'S ID", "item": "A"}]}'
    """
    try:
        from clickbandit.live import log
        from clickbandit.live.server import Options
        from clickbandit.live.server import serve as run
    except ModuleNotFoundError as error:
        raise InputError(
            f"serving needs {error.name}: install clickbandit with its extra, clickbandit[live]"
        ) from None

    log.set_up()
    run(
        Options(
            store=store,
            host=host,
            port=port,
            workers=workers,
            policy=policy,
            positions=positions,
            horizon=whole_number(horizon),
            window=window,
            holdout=holdout,
            retention=retention,
            patience=patience,
            seed=seed,
            max_queries=whole_number(max_queries),
            rate=rate,
            api_keys_file=str(api_keys_file) if api_keys_file else None,
            insecure=insecure,
            log_requests=log_requests,
            log_queries=log_queries,
        )
    )
