"""Results that are finished: what the log of a folder holds, as a table and as traces."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clickbandit.errors import InputError
from clickbandit.experiments.log import read_log
from clickbandit.experiments.manifest import MANIFEST, misfits, read_manifest, some
from clickbandit.experiments.plan import digest_of, digest_of_queries
from clickbandit.extras import pa
from clickbandit.queries import Query, load_queries
from clickbandit.simulation.outcome import window_ends
from clickbandit.simulation.trace import COLUMNS, Trace
from clickbandit.wording import some_are

QUERIES, LOG = "queries.json", "runs.log"
WHAT_TO_DO = "give another folder, or start over with --restart, which discards them"
Record = dict[str, Any]
"""A line of the log: `unit`, what was run; `regret` and `clicks`, a step, by window; `final_list`, what the policy
would show if it stopped exploring; `settled`, the last step of a run that ended early because its list was settled
(these two not in older logs); `seconds`, the time on a core, which is no result and in no table of them."""


class Results(NamedTuple):
    """All that a finished folder holds."""

    table: pa.Table
    """Columns policy, model, query, run, step, regret, clicks: a row for each run and window."""
    queries: list[Query]
    manifest: dict[str, Any]
    ns_a_step: dict[tuple[str, str], float]
    """For each model and policy, how many nanoseconds on a core a step took where it was run: others each time."""
    settled: Sequence[int] = ()
    """The last steps of the runs that ended early because their list was settled."""


def load_results(path: str | Path) -> Results:
    """The results of a finished experiment, checked against its manifest; nothing is run and nothing written."""
    folder = Path(path)
    manifest = read_manifest(folder)
    queries = load_queries(folder / QUERIES)
    found = digest_of_queries(queries)
    if found != manifest["queries"]:
        raise InputError(
            f"{folder / QUERIES} is not what was run on: the manifest expects {manifest['queries'][:16]}, found "
            f"{found[:16]}: restore the file, or start over with --restart"
        )
    records, damaged = read_log(folder / LOG)
    by_name = {name_of(record): record for record in records}
    total = manifest["units"]["number"]
    if len(by_name) < total:
        raise InputError(
            f"{folder} is not finished: {some_are(total - len(by_name), total, 'run')} missing"
            f"{f' ({damaged:,} damaged)' if damaged else ''}: resume it with the command that began it"
        )
    if digest_of(record["unit"] for record in by_name.values()) != manifest["plan"]:
        raise InputError(misfit(folder, records, manifest))
    finished = list(by_name.values())
    return Results(
        table_of(finished, manifest), queries, manifest, ns_a_step(finished), settled_steps(finished)
    )


def name_of(record: Record) -> tuple[Any, ...]:
    """What tells a unit from the others, as `Unit.name`."""
    unit = record["unit"]
    return unit["policy"], unit["model"], unit["query"], unit["run"]


def misfit(folder: Path, records: Sequence[Record], manifest: Mapping[str, Any]) -> str:
    """The sentence about records that are not of a manifest."""
    told = misfits(manifest, [record["unit"] for record in records])
    return f"the results in {folder} do not fit their {MANIFEST} ({some(told)}): {WHAT_TO_DO}"


def table_of(records: Sequence[Record], manifest: Mapping[str, Any]) -> pa.Table:
    """Results by click model, query and policy, in the order of the plan, and by run."""
    places = {
        name: {value: place for place, value in enumerate(manifest["units"][name])}
        for name in ("model", "query", "policy", "run")
    }
    records = sorted(records, key=lambda record: tuple(places[name][record["unit"][name]] for name in places))
    ends = [window_ends(record["unit"]["steps"]) for record in records]
    sizes = [len(windows) for windows in ends]

    def spread(name: str) -> pa.Array:
        """A field of the units as a column, with a value for each window."""
        return pa.array([record["unit"][name] for record in records], COLUMNS[name]).take(rows)

    rows = pa.array(np.repeat(np.arange(len(records)), sizes))
    numbers = {name: np.concatenate([record[name] for record in records]) for name in ("regret", "clicks")}
    columns = {name: spread(name) for name in ("policy", "model", "query", "run")}
    return pa.table({**columns, "step": np.concatenate(ends), **numbers}, schema=pa.schema(COLUMNS.items()))


def traces_of(records: Sequence[Record]) -> list[Trace]:
    """The runs of each policy on each click model of each query, in the order of the records."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(name_of(record)[:3], []).append(record)
    return [
        Trace(
            policy=policy,
            model=model,
            query=query,
            runs=np.array([record["unit"]["run"] for record in mine]),
            steps=window_ends(mine[0]["unit"]["steps"]),
            regret=np.array([record["regret"] for record in mine]),
            clicks=np.array([record["clicks"] for record in mine]),
            final_lists=[record.get("final_list", []) for record in mine],
            seconds=sum(record["seconds"] for record in mine),
            against=mine[0]["unit"].get("against", "clicks"),
            settled=[record.get("settled") for record in mine],
        )
        for (policy, model, query), mine in groups.items()
    ]


def settled_steps(records: Sequence[Record]) -> list[int]:
    """The last steps of the runs that ended early because their list was settled."""
    return [record["settled"] for record in records if record.get("settled")]


def ns_a_step(records: Sequence[Record]) -> dict[tuple[str, str], float]:
    """By model and policy, how many nanoseconds on a core a step took."""
    totals: dict[tuple[str, str], tuple[float, int]] = {}
    for record in records:
        unit = record["unit"]
        seconds, steps = totals.get((unit["model"], unit["policy"]), (0.0, 0))
        taken = record.get("settled") or unit["steps"]
        totals[unit["model"], unit["policy"]] = seconds + record["seconds"], steps + taken
    return {key: 1e9 * seconds / steps for key, (seconds, steps) in totals.items()}
