"""Commands for click logs: fit click models to them, score the models, generate logs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickbandit.cli._experiments import models_option
from clickbandit.cli._logs import MODELS, WRITABLE, LogCommand, LogOptions, Logs
from clickbandit.cli._shared import (
    Force,
    app,
    at_least_1,
    figure_format,
    known_models,
    output,
    whole_number,
    with_options,
    write_parquet,
)
from clickbandit.errors import InputError
from clickbandit.wording import counted

if TYPE_CHECKING:
    from clickbandit.logs import Counts, Doubt, Fit

Models = Annotated[
    str,
    typer.Option(
        "--models",
        "--model",
        help="Comma-separated click models; GCTR, RCTR and DCTR are click rates, as baselines.",
    ),
]
TopQueries = Annotated[
    int | None, typer.Option(help="Keep only the most frequent queries.", show_default="all")
]
Items = Annotated[
    int | None, typer.Option(help="Keep only each query's most attractive items.", show_default="all")
]
MinImpressions = Annotated[
    int, typer.Option(help="With --items: items shown fewer times rank after all others.")
]
Iterations = Annotated[
    int | None,
    typer.Option(help="Run EM for exactly this many iterations.", show_default="until --tolerance"),
]
Tolerance = Annotated[
    float, typer.Option(help="EM stops when it improves the log-likelihood per session by less.")
]
Smoothing = Annotated[str, typer.Option(help="p,q: a parameter is (p + numerator) / (p + q + denominator).")]
Empirical = Annotated[
    bool,
    typer.Option(
        "--empirical", help="Estimate the prior of items from the log (PBM, UBM) instead of --smoothing."
    ),
]
Compat = Annotated[
    str | None, typer.Option(help="pyclick: fit DBN and CCM as PyClick does.", show_default="exact EM")
]
SaveCounts = Annotated[
    Path | None, typer.Option(help="Write the counts here, as Parquet: --format counts reads them.")
]
ItemTable = Annotated[
    Path | None,
    typer.Option(help="Write each item's impressions, parameters and standard errors here, as Parquet."),
]


@app.command(cls=LogCommand)
@with_options
def fit(
    *,
    log: Logs,
    models: Models = MODELS,
    top_queries: TopQueries = None,
    items: Items = None,
    min_impressions: MinImpressions = 10,
    iterations: Iterations = None,
    tolerance: Tolerance = 1e-8,
    smoothing: Smoothing = "1,1",
    empirical: Empirical = False,
    compat: Compat = None,
    reading: LogOptions,
    out: Annotated[Path | None, typer.Option(help="Write the queries and models here, as JSON.")] = None,
    save_counts: SaveCounts = None,
    table: ItemTable = None,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was read and fitted as JSON.")] = False,
) -> None:
    """Fit click models to logs, and write the queries that the simulator reads.

    For example: clickbandit fit log.tsv.gz --models CM,PBM --top-queries 60 --items 10 --out queries.json
    """
    from clickbandit.click_models.fitting import FitOptions
    from clickbandit.logs import choose_queries
    from clickbandit.queries import save_queries
    from clickbandit.report.fits import doubt_text, fit_rows, print_fits

    fitted = known_models([name.strip() for name in models.split(",")])
    for option, number in (("--top-queries", top_queries), ("--items", items)):
        if number is not None:
            at_least_1(option, number)
    options = FitOptions(_smoothing(smoothing), iterations, tolerance, compat, empirical)
    with (
        output(out, force) as queries_file,
        output(save_counts, force) as counts_file,
        output(table, force) as table_file,
    ):
        counts = reading.count(log)
        if counts_file:
            counts.save(counts_file)
        fits, doubted = _fit_all(counts, fitted, options)
        rows = fit_rows(fits, counts)
        if queries_file:
            chosen = choose_queries(
                counts, fits, top_queries=top_queries, items=items, min_impressions=min_impressions
            )
            save_queries(
                queries_file, chosen, f"{', '.join(fitted)} fitted to {counted(counts.n_sessions, 'session')}"
            )
        if table_file:
            _write_tables(fits, table_file)
    if as_json:
        found = counts.reading.as_dict() | {"queries": counts.n_queries, "items": counts.n_pairs}
        for row in rows:
            row["doubts"] = [doubt._asdict() for doubt in doubted[row["model"]]]
        print(json.dumps({"reading": found, "models": rows}, indent=1))
        return
    size = f"{counted(counts.n_queries, 'query', 'queries')}, {counted(counts.n_pairs, 'item')}"
    print(f"{size}; {counts.reading}")
    print_fits(rows)
    for name, where in doubted.items():
        for sentence in doubt_text(name, where):
            typer.echo(f"warning: {sentence} (--empirical estimates it from the log)", err=True)
    for path in filter(None, (out, save_counts, table)):
        print(f"written: {path}")


@app.command(cls=LogCommand)
@with_options
def evaluate(
    *,
    queries: Annotated[Path, typer.Argument(help="File with queries and their click models.")],
    log: Annotated[list[str], typer.Option(help="Click log to score the models on, repeatable.")],
    model: Annotated[list[str] | None, models_option("all")] = None,
    samples: Annotated[int, typer.Option(help="Bootstrap samples for the intervals.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap samples.")] = 0,
    reading: LogOptions,
    figure: Annotated[
        Path | None, typer.Option(help="Write perplexity by position here, as .svg, .png or .html.")
    ] = None,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score click models on held-out sessions, and say which fits best.

    For example: clickbandit evaluate queries.json --log test.tsv.gz --figure perplexity.svg
    """
    from dataclasses import replace

    from clickbandit import logs
    from clickbandit.queries import load_queries
    from clickbandit.report.fits import print_evaluation, save_perplexity

    chosen = load_queries(queries)
    if model:
        chosen = [
            replace(entry, models={name: entry.model(name) for name in known_models(model)})
            for entry in chosen
        ]
    kind = figure_format(figure)
    at_least_1("--samples", samples)
    with output(figure, force) as figure_file:
        counts = reading.count(log)
        evaluation = logs.evaluate(chosen, counts, samples=samples, seed=seed)
        if figure_file:
            save_perplexity(evaluation, figure_file, kind)
    if as_json:
        print(json.dumps(evaluation.as_dict(), indent=1))
        return
    print(counts.reading)
    print_evaluation(evaluation)
    if figure:
        print(f"written: {figure}")


@app.command(cls=LogCommand)
def generate(
    queries: Annotated[Path, typer.Argument(help="File with queries and their click models.")],
    out: Annotated[Path, typer.Option(help="Write the log here, compressed if it ends in .gz or .zst.")],
    model: Annotated[str, typer.Option(help="Click model of the users.")] = "PBM",
    sessions: Annotated[
        str, typer.Option(metavar="N", help="How many lists are shown, such as 1e6.")
    ] = "1e5",
    positions: Annotated[
        int, typer.Option(help="How many items a list shows, if the query has that many.")
    ] = 10,
    lists: Annotated[int, typer.Option(help="Different lists of each query, at most.")] = 40,
    format: Annotated[str, typer.Option(help=f"The log's format: {WRITABLE}.")] = "yandex-relpred",
    seed: Annotated[int, typer.Option(help="The same seed gives the same log.")] = 1,
    force: Force = False,
) -> None:
    """Write a synthetic click log, whose users follow the click models of a queries file.

    For example: clickbandit generate queries.json --model DBN --sessions 1e6 --out log.tsv.gz
    """
    from clickbandit.logs import generate_log
    from clickbandit.progress import progress_bar
    from clickbandit.queries import load_queries

    n = whole_number(sessions)
    chosen = load_queries(queries)
    if out.exists() and not force:
        raise InputError(f"{out} exists: give another path, or --force to overwrite it")
    with progress_bar(n, "generating", "sessions") as advance:
        generate_log(
            chosen,
            out,
            model=model,
            sessions=n,
            positions=positions,
            lists=lists,
            format=format,
            seed=seed,
            progress=advance,
        )
    print(f"written: {out}")


def _fit_all(counts: "Counts", names: list[str], options: Any) -> "tuple[list[Fit], dict[str, list[Doubt]]]":
    """Fit click models, ask by model where they rest on their prior, and show how many are done."""
    from clickbandit.logs import doubts
    from clickbandit.logs.fit import fit_with
    from clickbandit.progress import progress_bar

    fits, doubted = [], {}
    with progress_bar(len(names), "fitting", "models") as advance:
        for name in names:
            fits.append(fit_with(counts, name, options))
            is_final = not (options.compat or options.empirical or options.iterations is not None)
            doubted[name] = doubts(counts, fits[-1]) if is_final else []
            advance(1)
    return fits, doubted


def _write_tables(fits: "list[Fit]", path: Path) -> None:
    """Write the items of all fits as one table."""
    from clickbandit.extras import pa

    tables = [fit.table.append_column("model", pa.array([fit.name] * len(fit.impressions))) for fit in fits]
    write_parquet(pa.concat_tables(tables, promote_options="default"), path)


def _smoothing(text: str) -> tuple[float, float]:
    try:
        p, q = map(float, text.split(","))
        return p, q
    except ValueError:
        raise InputError(f"expected --smoothing as two numbers such as 1,1, found {text!r}") from None
