"""Results on disk: a folder that can be left at any moment and gone on with.

    manifest.json     what is run, with which settings, seeds and versions; written first and never changed
    queries.json      the queries and their click models
    runs.log          a line for each finished unit: a checksum, and the unit and its numbers as JSON
    results.parquet   all of that as a table, once everything is finished

A unit's line is written as soon as it is finished, so a killed process loses what it was running and no more; the
disk is told to keep it within a second. A line that is cut off or damaged does not fit its checksum: it is dropped,
and its unit is run again. The table is only ever made from the log.
"""

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import ENOSPC
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clickbandit.errors import InputError
from clickbandit.experiments.log import line_of, lines_of, read_log
from clickbandit.experiments.manifest import MANIFEST, describe, differences, misfits, read_manifest, some
from clickbandit.experiments.plan import Plan, Unit, digest_of, digest_of_queries
from clickbandit.queries import Query, load_queries, save_queries
from clickbandit.simulation.simulate import Outcome, window_ends
from clickbandit.simulation.trace import COLUMNS

QUERIES, LOG, RESULTS, LOCK = "queries.json", "runs.log", "results.parquet", ".lock"
_SYNC_EVERY = 1.0  # seconds

_WHAT_TO_DO = "give another folder, or start anew with --restart, which throws them away"

Record = dict[str, Any]
"""A line of the log: `unit`, what was run; `regret` and `clicks`, a step, by window; `seconds`, the time on a core,
which is no result and in no table of them."""


class Results(NamedTuple):
    """All that a finished folder holds."""

    table: pa.Table
    """Columns policy, model, query, run, step, regret, clicks: a row for each run and window."""
    queries: list[Query]
    manifest: dict[str, Any]
    ns_a_step: dict[tuple[str, str], float]
    """For each model and policy, how many nanoseconds on a core a step took where it was run: others each time."""


class Folder:
    """The folder of an experiment that is being run; no other process may write to it meanwhile."""

    _log: FileIO

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        self.plan = plan
        self.finished: dict[Unit, Record] = {}
        self.damaged = 0
        """Lines of the log that were cut off or damaged when the folder was opened."""
        self._one_at_a_time = Lock()
        self._synced = time.monotonic()

    @classmethod
    @contextmanager
    def open(cls, path: str | Path, plan: Plan, *, restart: bool = False) -> Iterator["Folder"]:
        """Begin an experiment in a new folder, or go on with it where it was left.

        A folder with the results of another experiment is refused, unless `restart` says to throw these away.
        """
        folder = cls(Path(path), plan)
        with locked(folder.path):
            folder._begin(restart)
            folder._read()
            with open(folder.path / LOG, "ab", buffering=0) as folder._log:
                yield folder

    @property
    def unfinished(self) -> list[Unit]:
        """What is left to run, in the order of the plan."""
        return [unit for unit in self.plan.units if unit not in self.finished]

    @property
    def steps_done(self) -> int:
        """The steps of all finished units."""
        return sum(unit.steps for unit in self.finished)

    def add(self, unit: Unit, outcome: Outcome) -> None:
        """Keep what a unit came to, at once."""
        record = {
            "unit": self.plan.identity(unit),
            "regret": outcome.regret.tolist(),
            "clicks": outcome.clicks.tolist(),
            "seconds": outcome.seconds,
        }
        line = line_of(record)
        with self._one_at_a_time, writing(self.path / LOG):
            if self._log.write(line) < len(line):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            self.finished[unit] = record
            if time.monotonic() - self._synced > _SYNC_EVERY:
                os.fsync(self._log.fileno())
                self._synced = time.monotonic()

    def finish(self) -> pa.Table:
        """The results as a table, which is also written to the folder."""
        os.fsync(self._log.fileno())
        table = _table([self.finished[unit] for unit in self.plan.units], describe(self.plan))
        write_whole(self.path / RESULTS, lambda file: pq.write_table(table, file))
        return table

    def _begin(self, restart: bool) -> None:
        """Write the manifest, or see that the one that is there is of this plan."""
        manifest = describe(self.plan)
        begun = (self.path / MANIFEST).exists()
        strange = [path.name for path in self.path.iterdir() if not path.name.startswith(".")]
        if strange and not begun:
            raise InputError(
                f"{self.path} is neither empty nor a folder of results: there is {min(strange)} in it but no "
                f"{MANIFEST}: give another folder"
            )
        if begun and not restart:
            told = differences(manifest, read_manifest(self.path))
            if told:
                raise InputError(
                    f"{self.path} holds the results of another experiment ({some(told)}): {_WHAT_TO_DO}"
                )
        else:
            for name in (RESULTS, LOG):
                (self.path / name).unlink(missing_ok=True)
            text = json.dumps(manifest, indent=1) + "\n"
            write_whole(self.path / MANIFEST, lambda file: file.write_text(text, encoding="utf-8"))
        write_whole(self.path / QUERIES, lambda file: save_queries(file, self.plan.queries))

    def _read(self) -> None:
        """Find what is finished, and leave the log without lines that are cut off or damaged."""
        records, self.damaged = read_log(self.path / LOG)
        units = {unit.name: unit for unit in self.plan.units}
        for record in records:
            unit = units.get(_name(record))
            if unit is None or record["unit"] != self.plan.identity(unit):
                raise InputError(_misfit(self.path, records, describe(self.plan)))
            self.finished[unit] = record
        if self.damaged:
            write_whole(self.path / LOG, lambda file: file.write_bytes(lines_of(records)))


def load_results(path: str | Path) -> Results:
    """The results of a finished experiment, checked against its manifest; nothing is run and nothing written."""
    folder = Path(path)
    manifest = read_manifest(folder)
    queries = load_queries(folder / QUERIES)
    found = digest_of_queries(queries)
    if found != manifest["queries"]:
        raise InputError(
            f"{folder / QUERIES} is not what was run on: the manifest expects {manifest['queries'][:16]}, found "
            f"{found[:16]}: give the file its content back, or start anew with --restart"
        )
    records, damaged = read_log(folder / LOG)
    by_name = {_name(record): record for record in records}
    total = manifest["units"]["number"]
    if len(by_name) < total:
        raise InputError(
            f"{folder} is not finished: {total - len(by_name):,} of {total:,} runs are missing"
            f"{f' ({damaged:,} damaged)' if damaged else ''}: go on with the command that began it"
        )
    if digest_of(record["unit"] for record in by_name.values()) != manifest["plan"]:
        raise InputError(_misfit(folder, records, manifest))
    finished = list(by_name.values())
    return Results(_table(finished, manifest), queries, manifest, _ns_a_step(finished))


def _name(record: Record) -> tuple[Any, ...]:
    """What tells a unit from the others, as `Unit.name`."""
    unit = record["unit"]
    return unit["policy"], unit["model"], unit["query"], unit["run"]


def _misfit(folder: Path, records: Sequence[Record], manifest: Mapping[str, Any]) -> str:
    told = misfits(manifest, [record["unit"] for record in records])
    return f"the results in {folder} do not fit their {MANIFEST} ({some(told)}): {_WHAT_TO_DO}"


def _table(records: list[Record], manifest: Mapping[str, Any]) -> pa.Table:
    """Results by click model, query and policy, in the order of the plan, and by run."""
    places = {
        name: {value: place for place, value in enumerate(manifest["units"][name])}
        for name in ("model", "query", "policy", "run")
    }
    records.sort(key=lambda record: tuple(places[name][record["unit"][name]] for name in places))
    ends = [window_ends(record["unit"]["steps"]) for record in records]
    sizes = [len(windows) for windows in ends]

    def spread(name: str) -> pa.Array:
        """A field of the units as a column, with a value for each window."""
        return pa.array([record["unit"][name] for record in records], COLUMNS.field(name).type).take(rows)

    rows = pa.array(np.repeat(np.arange(len(records)), sizes))
    numbers = {name: np.concatenate([record[name] for record in records]) for name in ("regret", "clicks")}
    columns = {name: spread(name) for name in ("policy", "model", "query", "run")}
    return pa.table({**columns, "step": np.concatenate(ends), **numbers}, schema=COLUMNS)


def _ns_a_step(records: Sequence[Record]) -> dict[tuple[str, str], float]:
    seconds: dict[tuple[str, str], float] = {}
    steps: dict[tuple[str, str], int] = {}
    for record in records:
        unit = record["unit"]
        key = unit["model"], unit["policy"]
        seconds[key] = seconds.get(key, 0.0) + record["seconds"]
        steps[key] = steps.get(key, 0) + unit["steps"]
    return {key: 1e9 * seconds[key] / steps[key] for key in seconds}


# --- files --------------------------------------------------------------------------------------------------


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Makes a folder this process's own, and the folder itself if it is not there.

    The lock goes with the process, however that ends.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / LOCK, "a+", encoding="utf-8")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise InputError(
                f"{folder} is being written by process {holder}: wait for it, or give another folder"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What hinders writing is told in one sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}: mend that, and the same command goes on from there"
        ) from error


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file that is there in full or not at all, also if the machine stops."""
    with writing(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        try:
            write(Path(name))
            os.chmod(name, 0o644)
            _sync(name)
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)
        _sync(path.parent)


def _sync(path: str | Path) -> None:
    """Have the disk keep a file or folder before anything else is done."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
