"""The command that serves a ranker over HTTP. Its options are the settings of `clickbandit.live.settings`."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from clickbandit.cli._shared import app
from clickbandit.live.settings import options, read_settings, variable


def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar=variable("config"),
            show_envvar=False,
            help="Settings in TOML, such as window = '2h'; options and environment variables come before them.",
        ),
    ] = None,
    **given: Any,
) -> None:
    """Serve a ranker that learns from clicks, over HTTP.

    Every option is also an environment variable (--max-queries is CLICKBANDIT_MAX_QUERIES) and a key in the file of
    --config (max_queries). The settings hold for queries that do not set their own. For example, in one shell and
    another:

    clickbandit serve --positions 3 --window 30m

    curl http://127.0.0.1:8000/v1/rank --json '{"query": "red shoes", "items": ["A", "B", "C", "D"]}'

    curl http://127.0.0.1:8000/v1/events --json '{"events": [{"id": "THE ANSWER'S ID", "item": "A"}]}'
    """
    from clickbandit.live.http import log
    from clickbandit.live.http.server import serve as run

    settings = read_settings(given, config)
    log.set_up()
    run(settings)


def _parameters() -> list[inspect.Parameter]:
    """The parameters of `serve`; unset options are None because the config file may set them."""
    found = [inspect.signature(serve).parameters["config"]]
    for name, default, text, kind, metavar in options():
        option = typer.Option(
            envvar=variable(name),
            show_envvar=False,
            metavar=metavar or None,
            help=text,
            show_default=False if default is None else str(default).lower(),
        )
        annotation: Any = Annotated[bool | None, option] if kind is bool else Annotated[str | None, option]
        found.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        )
    return found


serve.__signature__ = inspect.Signature(_parameters())  # type: ignore[attr-defined]
app.command()(serve)
