"""The command that draws results again, whatever experiment they are of."""

from pathlib import Path
from typing import Annotated

import typer

from clickbandit.cli._shared import Json, app
from clickbandit.cli.compare import draw_comparison
from clickbandit.cli.reproduce import draw_reproduction
from clickbandit.cli.simulate import redraw_folder, redraw_table
from clickbandit.errors import InputError


@app.command()
def report(
    results: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="Folder that reproduce, compare or simulate wrote, or a table of simulate."
        ),
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the page next to a table, if there is one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Draw the report of finished results again, without running anything."""
    from clickbandit.experiments import comparison, paper
    from clickbandit.experiments.manifest import read_manifest

    if results.is_file():
        redraw_table(results, force, as_json)
        return
    draw = {
        comparison.KIND: draw_comparison,
        comparison.SIMULATION: redraw_folder,
        paper.KIND: draw_reproduction,
    }
    kind = read_manifest(results)["settings"].get("kind")
    if kind not in draw:
        raise InputError(
            f"{results} must hold the results of 'clickbandit reproduce', 'compare' or 'simulate', found others"
        )
    draw[kind](results, as_json)
