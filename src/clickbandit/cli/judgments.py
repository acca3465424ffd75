"""Commands that give to other tools what clicks say: relevance judgments, and how users look at positions."""

import json
from pathlib import Path
from typing import Annotated

import typer

from clickbandit.cli._logs import LogCommand, LogOptions, Logs
from clickbandit.cli._shared import Force, Json, app, figure_format, known_models, output, with_options
from clickbandit.errors import InputError


@app.command(cls=LogCommand)
@with_options
def judgments(
    *,
    log: Logs,
    out: Annotated[Path, typer.Option(help="Write the judgments here.")],
    kind: Annotated[
        str,
        typer.Option("--as", help="csv (with standard errors), qrels, opensearch, quepid or letor."),
    ] = "csv",
    model: Annotated[
        str | None, typer.Option(help="The click model; by default DBN or PBM, whichever fits better.")
    ] = None,
    grades: Annotated[str, typer.Option(help="The lowest and the highest grade.")] = "0-4",
    min_impressions: Annotated[
        int, typer.Option(help="Leave out items that fewer users looked at, according to the click model.")
    ] = 20,
    reading: LogOptions,
    force: Force = False,
) -> None:
    """Write how relevant each item of each query is, from clicks.

    For example: clickbandit judgments log.tsv.gz --grades 0-4 --as qrels --out judgments.qrels
    """
    from clickbandit.logs.judgments import JUDGES, KINDS, judging_model, write_judgments
    from clickbandit.logs.judgments import judgments as judged

    chosen = known_models([model])[0] if model else None
    if kind not in KINDS:
        raise InputError(f"expected --as to be one of {', '.join(KINDS)}, found {kind!r}")
    low, _, high = grades.partition("-")
    if not (low.isdigit() and high.isdigit()):
        raise InputError(f"expected --grades such as 0-4, found {grades!r}")
    with output(out, force) as file:
        counts = reading.count(log)
        best = judging_model(counts) if chosen is None or chosen in JUDGES else chosen
        name = chosen or best
        found = judged(counts, name, grades=(int(low), int(high)), min_impressions=min_impressions)
        assert file is not None
        write_judgments(found, file, kind)
    print(counts.reading)
    print(
        f"{found.num_rows:,} of {counts.n_pairs:,} items were looked at {min_impressions:,} times and judged by {name}"
    )
    if name != best:
        print(f"{best} fits this log better: judge by it, or items that few users reach may seem best")
    print(f"written: {out}")


@app.command(cls=LogCommand)
@with_options
def bias(
    *,
    log: Logs,
    reading: LogOptions,
    seed: Annotated[int, typer.Option(help="Seed of the draws behind the intervals.")] = 0,
    figure: Annotated[Path | None, typer.Option(help="Draw the curve here, as .svg, .png or .html.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Estimate how much less users look at lower positions.

    For example: clickbandit bias log.tsv.gz --figure bias.svg
    """
    from clickbandit.logs.bias import bias as curve
    from clickbandit.report.bias import print_bias, save_bias

    drawn = figure_format(figure)
    with output(figure, force) as file:
        counts = reading.count(log)
        places = curve(counts, seed)
        if file:
            save_bias(places, file, drawn)
    if as_json:
        print(json.dumps({"positions": [place.as_dict() for place in places]}, indent=1))
        return
    print(counts.reading)
    print_bias(places)
    if figure:
        print(f"written: {figure}")
