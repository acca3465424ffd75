"""Commands for click logs: fit click models to them, score the models, generate logs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickbandit.cli._shared import Force, app, output, whole_number, write_parquet
from clickbandit.errors import InputError

if TYPE_CHECKING:
    from clickbandit.logs import Counts

Format = Annotated[
    str | None,
    typer.Option(
        help="yandex-relpred, yandex-personalized, csv, parquet or counts.", show_default="what it looks like"
    ),
]
QueryKey = Annotated[
    str, typer.Option(help="query, or query+region to tell the regions of yandex-relpred apart.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first malformed line.")]
MemoryLimit = Annotated[str, typer.Option(help="What counting may take; the rest goes to disk.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Count files on the Dask scheduler at this address, such as tcp://host:8786.",
        show_default="this machine",
    ),
]


@app.command()
def fit(
    log: Annotated[list[str], typer.Argument(help="Click logs: files, or patterns such as 'logs/*.gz'.")],
    format: Format = None,
    models: Annotated[
        str, typer.Option(help="Click models, apart by commas; as baselines also GCTR, RCTR, DCTR.")
    ] = "CM,PBM,DCM,SDBN,DBN,CCM,UBM",
    top_queries: Annotated[
        int | None, typer.Option(help="Keep the most frequent queries.", show_default="all")
    ] = None,
    items: Annotated[
        int | None, typer.Option(help="Keep each query's most attractive items.", show_default="all")
    ] = None,
    min_impressions: Annotated[
        int, typer.Option(help="With --items: items shown less often come after all others.")
    ] = 10,
    iterations: Annotated[
        int | None, typer.Option(help="Iterations of EM, exactly.", show_default="until --tolerance")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="EM stops when a session's log-likelihood improves by less.")
    ] = 1e-8,
    smoothing: Annotated[
        str, typer.Option(help="p,q: a parameter is (p + numerator) / (p + q + denominator).")
    ] = "1,1",
    compat: Annotated[
        str | None, typer.Option(help="pyclick: its DBN and CCM.", show_default="exact EM")
    ] = None,
    query_key: QueryKey = "query",
    strict: Strict = False,
    memory_limit: MemoryLimit = "2GiB",
    cluster: Cluster = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the queries and their models here, as JSON.")
    ] = None,
    save_counts: Annotated[
        Path | None, typer.Option(help="Write the counts here, as Parquet: --format counts reads them.")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="Write each item's impressions, parameters and standard errors here, as Parquet."),
    ] = None,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was read and fitted as JSON.")] = False,
) -> None:
    """Fit click models to logs, and write the queries that the simulator reads.

    For example: clickbandit fit log.tsv.gz --models CM,PBM --top-queries 60 --items 10 --out queries.json
    """
    from dataclasses import asdict

    from clickbandit import logs
    from clickbandit.click_models.base import model_class
    from clickbandit.click_models.fitting import Options
    from clickbandit.progress import progress_bar
    from clickbandit.queries import save_queries
    from clickbandit.report.fits import fit_rows, print_fits

    names = list(dict.fromkeys(name.strip().upper() for name in models.split(",")))
    for name in names:
        model_class(name)
    for option, number in (("--top-queries", top_queries), ("--items", items)):
        if number is not None and number < 1:
            raise InputError(f"{option} must be at least 1, found {number}")
    options = asdict(Options(_smoothing(smoothing), iterations, tolerance, compat))
    with (
        output(out, force) as queries_file,
        output(save_counts, force) as counts_file,
        output(table, force) as table_file,
    ):
        counts = _count(
            log, format, memory_limit=memory_limit, strict=strict, query_key=query_key, cluster=cluster
        )
        if counts_file:
            counts.save(counts_file)
        fits = []
        with progress_bar(len(names), "fitting", "models") as advance:
            for name in names:
                fits.append(logs.fit(counts, name, **options))
                advance(1)
        rows = fit_rows(fits, counts)
        if queries_file:
            chosen = logs.choose_queries(
                counts, fits, top_queries=top_queries, items=items, min_impressions=min_impressions
            )
            description = f"{', '.join(names)} fitted to {counts.n_sessions:,} sessions"
            save_queries(queries_file, chosen, description)
        if table_file:
            import pyarrow as pa

            tables = [
                one.table.append_column("model", pa.array([one.name] * len(one.impressions))) for one in fits
            ]
            write_parquet(pa.concat_tables(tables, promote_options="default"), table_file)
    if as_json:
        reading = counts.reading.as_dict() | {"queries": counts.n_queries, "items": counts.n_pairs}
        print(json.dumps({"reading": reading, "models": rows}, indent=1))
        return
    print(f"{counts.n_queries:,} queries, {counts.n_pairs:,} items; {counts.reading}")
    print_fits(rows)
    for path in filter(None, (out, save_counts, table)):
        print(f"written: {path}")


@app.command()
def evaluate(
    queries: Annotated[Path, typer.Argument(help="File with queries and their click models.")],
    log: Annotated[list[str], typer.Option(help="Click log to score the models on, repeatable.")],
    format: Format = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Only this click model, repeatable.", show_default="all")
    ] = None,
    samples: Annotated[int, typer.Option(help="Bootstrap samples for the intervals.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap samples.")] = 0,
    query_key: QueryKey = "query",
    strict: Strict = False,
    memory_limit: MemoryLimit = "2GiB",
    cluster: Cluster = None,
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
        chosen = [replace(entry, models={name: entry.model(name) for name in model}) for entry in chosen]
    kind = figure.suffix[1:] if figure else "svg"
    if kind not in ("svg", "png", "html"):
        raise InputError(f"expected a figure that ends in .svg, .png or .html, found {figure}")
    if samples < 1:
        raise InputError(f"--samples must be at least 1, found {samples}")
    with output(figure, force) as figure_file:
        counts = _count(
            log, format, memory_limit=memory_limit, strict=strict, query_key=query_key, cluster=cluster
        )
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


@app.command()
def generate(
    queries: Annotated[Path, typer.Argument(help="File with queries and their click models.")],
    out: Annotated[Path, typer.Option(help="Write the log here; .gz and .zst are packed.")],
    model: Annotated[str, typer.Option(help="Click model of the users.")] = "PBM",
    sessions: Annotated[
        str, typer.Option(metavar="N", help="How many lists are shown, such as 1e6.")
    ] = "1e5",
    positions: Annotated[int, typer.Option(help="How many items a list shows, if there are as many.")] = 10,
    lists: Annotated[int, typer.Option(help="Different lists of each query, at most.")] = 40,
    format: Annotated[str, typer.Option(help="yandex-relpred or csv.")] = "yandex-relpred",
    seed: Annotated[int, typer.Option(help="Another seed gives another log, the same seed the same.")] = 1,
    force: Force = False,
) -> None:
    """Write a synthetic click log of users who click by the models of a queries file.

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


def _count(log: list[str], format: str | None, **options: Any) -> "Counts":
    """Count a log, and show how far it is read."""
    from clickbandit.logs import count_log, files
    from clickbandit.progress import reading_bar

    with reading_bar(sum(path.stat().st_size for path in files.find(log))) as advance:
        return count_log(log, format, progress=advance, **options)


def _smoothing(text: str) -> tuple[float, float]:
    try:
        p, q = map(float, text.split(","))
        return p, q
    except ValueError:
        raise InputError(f"expected --smoothing as two numbers such as 1,1, found {text!r}") from None
