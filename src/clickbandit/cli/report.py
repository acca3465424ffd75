"""The command that draws results again, whatever experiment they are of."""

from pathlib import Path
from typing import Annotated

import typer

from clickbandit.cli._shared import app
from clickbandit.cli.compare import draw_comparison
from clickbandit.cli.reproduce import draw_reproduction
from clickbandit.errors import InputError


@app.command()
def report(
    results: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Results that reproduce or compare left.")
    ],
) -> None:
    """Draw the report of finished results again, without running anything."""
    from clickbandit.experiments import comparison, reproduction
    from clickbandit.experiments.manifest import read_manifest

    draw = {comparison.KIND: draw_comparison, reproduction.KIND: draw_reproduction}
    kind = read_manifest(results)["settings"].get("kind")
    if kind not in draw:
        raise InputError(
            f"{results} must hold the results of 'clickbandit reproduce' or 'clickbandit compare', found others"
        )
    draw[kind](results)
