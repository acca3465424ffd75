"""The command line: every command is a few lines over the library."""

import json
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickbandit.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from clickbandit.logs import Counts
    from clickbandit.queries import Query

app = typer.Typer(
    name="clickbandit",
    help="Learn the best ranked list from clicks, without knowing how users click.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run a command; wrong input ends it with one sentence and exit code 2."""
    try:
        app()
    except InputError as error:
        print(f"clickbandit: {error}", file=sys.stderr)
        sys.exit(2)


def _number(text: str) -> int:
    """A whole number that may be written like 1e6 or 1_000_000."""
    try:
        number = float(text)
        if number == int(number):
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise InputError(f"expected a whole number such as 1000000 or 1e6, found {text!r}")


Positions = Annotated[int, typer.Option(help="How many items a list shows.")]
Steps = Annotated[str, typer.Option(metavar="N", help="Steps of each run, such as 1e6.")]


@app.command()
def simulate(
    queries: Annotated[
        Path, typer.Option(help="File with the queries and their click models.", metavar="FILE")
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(help="Click model, repeatable.", show_default="those of CM and PBM that there are"),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Policy with settings, as name:key=value,key=value, or your own as file.py:Class; repeatable.",
            show_default="batchrank, cascade-kl-ucb, ranked-exp3",
        ),
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option(help="Only this query, repeatable.", show_default="all")
    ] = None,
    positions: Positions = 5,
    steps: Steps = "1e6",
    runs: Annotated[str, typer.Option(metavar="N", help="Runs of each policy on each click model.")] = "10",
    seed: Annotated[int, typer.Option(help="Another seed gives other runs, the same seed the same.")] = 1,
    delay: Annotated[int, typer.Option(help="Steps by which feedback is late.")] = 0,
    horizon: Annotated[
        str | None,
        typer.Option(metavar="N", help="Steps that policies are tuned for.", show_default="--steps"),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="Take steps one by one (step), many at once (leap), or the quicker of both (auto)."
        ),
    ] = "auto",
    threads: Annotated[int | None, typer.Option(help="Threads to run on.", show_default="all cores")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the results here, as Parquet.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report here, as one HTML page.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summaries as JSON.")] = False,
) -> None:
    """Let policies learn from simulated users, and compare their regret.

    For example: clickbandit simulate --queries queries.json --model PBM --policy batchrank
    --policy cascade-kl-ucb:feedback=last --steps 1e6 --runs 10 --out results.parquet
    """
    from clickbandit.policies._base import parse_policy
    from clickbandit.progress import progress_bar
    from clickbandit.queries import load_queries
    from clickbandit.simulation.run import Problem
    from clickbandit.simulation.simulate import Interrupted, Task, simulate_all

    n_steps, n_runs = _number(steps), _number(runs)
    for option, number in (("--steps", n_steps), ("--runs", n_runs), ("--threads", threads)):
        if number is not None and number < 1:
            raise InputError(f"{option} must be at least 1, found {number}")
    policies = {text: parse_policy(text) for text in policy or ["batchrank", "cascade-kl-ucb", "ranked-exp3"]}
    chosen_models = _models(model)
    if out is not None and out == report:
        raise InputError(f"--out and --report must be different files, found {out} twice")
    chosen = _choose(load_queries(queries), query)
    problem: dict[str, Any] = {
        "positions": positions,
        "horizon": _number(horizon) if horizon else n_steps,
        "delay": delay,
        "method": method,
    }
    interrupted = False
    with _output(out, force) as results_file, _output(report, force) as report_file:
        tasks = [
            Task(text, Problem(settings, entry.model(name), query=entry.query, **problem))
            for entry in chosen
            for name in chosen_models or [name for name in ("CM", "PBM") if name in entry.models]
            for text, settings in policies.items()
        ]
        try:
            with progress_bar(len(tasks) * n_runs * n_steps, "simulating") as advance:
                traces = simulate_all(
                    tasks, steps=n_steps, runs=n_runs, seed=seed, threads=threads, progress=advance
                )
        except Interrupted as stopped:
            traces, interrupted = stopped.traces, True
        if traces:
            import pyarrow as pa

            table = pa.concat_tables([trace.to_table() for trace in traces])
            if results_file:
                _write_parquet(table, results_file)
            if report_file:
                from clickbandit.report.page import write_report

                settings = {
                    **problem,
                    "queries": queries.name,
                    "steps": n_steps,
                    "runs": n_runs,
                    "seed": seed,
                }
                write_report(report_file, table, settings)
    if as_json:
        print(json.dumps({"results": [trace.summary().to_dict() for trace in traces]}, indent=1))
    else:
        if not traces:
            print("nothing was finished")
        else:
            from clickbandit.report.tables import print_results

            rates = {(trace.model, trace.policy): trace.summary().steps_per_second for trace in traces}
            print_results(table, {key: 1e9 / rate for key, rate in rates.items()})
            for path in filter(None, (out, report)):
                print(f"written: {path}")
    if interrupted:
        print("clickbandit: interrupted; what is above is what was finished", file=sys.stderr)
        raise typer.Exit(130)


@app.command()
def policies(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the policies, their settings and their papers."""
    from dataclasses import fields

    from clickbandit.policies._base import policy_class, policy_names

    rows = []
    for name in policy_names():
        kind = policy_class(name)
        settings = ", ".join(f"{field.name}={field.default}" for field in fields(kind))
        rows.append({"policy": name, "settings": settings, "idea": _first_line(kind), "paper": kind.paper})
    _print_rows(rows, as_json)


@app.command()
def models(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the click models, their parameters and their papers."""
    from dataclasses import fields

    from clickbandit.clicks._base import model_class, model_names

    rows = []
    for name in model_names():
        kind = model_class(name)
        parameters = ", ".join(field.name for field in fields(kind))
        rows.append(
            {"model": name, "parameters": parameters, "users": _first_line(kind), "paper": kind.paper}
        )
    _print_rows(rows, as_json)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="File with queries and their click models.")],
    model: Annotated[
        list[str] | None, typer.Option(help="Only this click model, repeatable.", show_default="all")
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option(help="Only this query, repeatable.", show_default="all")
    ] = None,
    positions: Positions = 5,
    steps: Annotated[
        str, typer.Option(metavar="N", help="Steps that the bound on the regret is for.")
    ] = "1e6",
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Say which of the paper's assumptions hold for each query and click model, and the bound on the regret.

    BatchRank is guaranteed to learn the best list where all six hold and no two of the best items are equally
    attractive. Where an assumption does not hold, the lists that break it are shown, and there is no bound.
    """
    from clickbandit.clicks._base import RATES
    from clickbandit.queries import load_queries
    from clickbandit.theory import check_assumptions, regret_bound

    horizon = _number(steps)
    chosen_models = _models(model)
    rows = []
    for entry in _choose(load_queries(file), query):
        for name in chosen_models or [name for name in entry.models if name not in RATES]:
            users = entry.model(name)
            findings = check_assumptions(users, positions)
            bound = regret_bound(users, positions, horizon)
            rows.append(
                {
                    "query": entry.query,
                    "model": name,
                    "assumptions": [finding._asdict() for finding in findings],
                    "bound": bound if all(f.holds for f in findings) and math.isfinite(bound) else None,
                }
            )
    if as_json:
        print(json.dumps({"positions": positions, "steps": horizon, "results": rows}, indent=1))
        return
    from clickbandit.report.tables import print_assumptions

    print_assumptions(rows, horizon)


# --- logs ---------------------------------------------------------------------------------------------------

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
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]


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
    from clickbandit.clicks._base import model_class
    from clickbandit.clicks._fitting import Options
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
        _output(out, force) as queries_file,
        _output(save_counts, force) as counts_file,
        _output(table, force) as table_file,
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
            _write_parquet(pa.concat_tables(tables, promote_options="default"), table_file)
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
    from clickbandit.report.fits import perplexity_chart, print_evaluation, save_chart

    chosen = load_queries(queries)
    if model:
        chosen = [replace(entry, models={name: entry.model(name) for name in model}) for entry in chosen]
    kind = figure.suffix[1:] if figure else "svg"
    if kind not in ("svg", "png", "html"):
        raise InputError(f"expected a figure that ends in .svg, .png or .html, found {figure}")
    if samples < 1:
        raise InputError(f"--samples must be at least 1, found {samples}")
    with _output(figure, force) as figure_file:
        counts = _count(
            log, format, memory_limit=memory_limit, strict=strict, query_key=query_key, cluster=cluster
        )
        evaluation = logs.evaluate(chosen, counts, samples=samples, seed=seed)
        if figure_file:
            save_chart(perplexity_chart(evaluation), figure_file, kind)
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

    n = _number(sessions)
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


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _print_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    from clickbandit.report.tables import print_table

    print_table(rows)


def _models(names: list[str] | None) -> list[str]:
    """The click models of these names, each once."""
    from clickbandit.clicks._base import model_class

    chosen = list(dict.fromkeys(name.upper() for name in names or []))
    for name in chosen:
        model_class(name)
    return chosen


def _choose(queries: "list[Query]", names: list[str] | None) -> "list[Query]":
    """The queries of these names, all without names."""
    by_name = {query.query: query for query in queries}
    for name in names or []:
        if name not in by_name:
            from clickbandit.registry import suggestion

            raise InputError(f"there is no query {name!r}: {suggestion(name, by_name)}")
    return [by_name[name] for name in dict.fromkeys(names)] if names else queries


@contextmanager
def _output(path: Path | None, force: bool) -> Iterator[Path | None]:
    """A file beside `path` to write to, which takes its place when all went well; None without a path.

    Fails before any work if the path cannot be written or would overwrite something.
    """
    if path is None:
        yield None
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the path of a file in it")
    if path.exists() and not force:
        raise InputError(f"{path} exists: give another path, or --force to overwrite it")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    os.close(handle)
    os.chmod(name, 0o666 & ~_umask())
    temporary = Path(name)
    try:
        yield temporary
        if temporary.stat().st_size:
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_parquet(table: "pa.Table", path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path)
