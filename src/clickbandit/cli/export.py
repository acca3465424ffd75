"""The command that writes what was shown and clicked, with how it was chosen."""

from pathlib import Path
from typing import Annotated

import typer

from clickbandit.cli._shared import Force, app, output
from clickbandit.wording import counted


@app.command()
def export(
    store: Annotated[
        str, typer.Option(metavar="URL", help="The store of a ranker, which may be served meanwhile.")
    ],
    out: Annotated[Path, typer.Option(help="Write the settled impressions here, as Parquet.")],
    since: Annotated[
        Path | None,
        typer.Option(
            help="Only what was settled after this export was written.", show_default="all that is kept"
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Export settled impressions: list, clicks, candidates, policy and propensities.

    For example: clickbandit export --store sqlite:///clicks.db --out monday.parquet, and a day later with
    --out tuesday.parquet --since monday.parquet. Each impression is in exactly one of the two files.
    """
    from clickbandit.live.export import export as write
    from clickbandit.live.export import last_mark
    from clickbandit.live.stores import open_reader

    mark = 0 if since is None else last_mark(since)
    reader = open_reader(store)
    try:
        with output(out, force) as file:
            assert file is not None
            n, _ = write(reader, file, mark)
    finally:
        reader.close()
    print(f"written: {out} ({counted(n, 'impression')})")
