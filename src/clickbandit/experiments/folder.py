"""Results on disk: a folder that can be left at any moment and resumed.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from errno import ENOSPC
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import Any

from clickbandit.errors import InputError
from clickbandit.experiments.log import line_of, lines_of, read_log
from clickbandit.experiments.manifest import MANIFEST, describe, differences, read_manifest, some
from clickbandit.experiments.plan import Plan, Unit
from clickbandit.experiments.results import LOG, QUERIES, WHAT_TO_DO, Record, misfit, name_of, table_of
from clickbandit.extras import pa, pq
from clickbandit.queries import save_queries
from clickbandit.simulation.outcome import Outcome

RESULTS, LOCK = "results.parquet", ".lock"
_SYNC_EVERY = 1.0  # seconds


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
        """Begin an experiment in a new folder, or resume it where it was left.

        A folder with the results of another experiment is refused, unless `restart` says to discard them.
        """
        folder = cls(Path(path), plan)
        refuse_strange(folder.path)
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
    def records(self) -> list[Record]:
        """What is finished, in the order of the plan."""
        return [self.finished[unit] for unit in self.plan.units if unit in self.finished]

    @property
    def steps_done(self) -> int:
        """The steps of all finished units."""
        return sum(unit.steps for unit in self.finished)

    def add(self, unit: Unit, outcome: Outcome) -> None:
        """Store a unit's outcome at once."""
        record = {
            "unit": self.plan.identity(unit),
            "regret": outcome.regret.tolist(),
            "clicks": outcome.clicks.tolist(),
            "final_list": outcome.final_list,
            "seconds": outcome.seconds,
            "settled": outcome.settled,
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
        table = table_of([self.finished[unit] for unit in self.plan.units], describe(self.plan))
        write_whole(self.path / RESULTS, lambda file: pq.write_table(table, file))
        return table

    def _refuse_other_streams(self, expected: str, found: str) -> None:
        if found != expected:
            raise InputError(
                f"{self.path} holds runs whose random numbers were drawn in another way (streams {found}, now "
                f"{expected}), which new runs must not be mixed with: {WHAT_TO_DO}"
            )

    def _begin(self, restart: bool) -> None:
        """Write the manifest, or see that the one that is there is of this plan."""
        manifest = describe(self.plan)
        if (self.path / MANIFEST).exists() and not restart:
            found = read_manifest(self.path)
            self._refuse_other_streams(manifest["versions"]["streams"], found["versions"].get("streams", "1"))
            refuse_other(self.path, manifest, found)
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
            unit = units.get(name_of(record))
            if unit is None or record["unit"] != self.plan.identity(unit):
                raise InputError(misfit(self.path, records, describe(self.plan)))
            self.finished[unit] = record
        if self.damaged:
            write_whole(self.path / LOG, lambda file: file.write_bytes(lines_of(records)))


def refuse_strange(folder: Path) -> None:
    """See that a folder that is there is empty or holds results, before anything is written to it."""
    if not folder.is_dir() or (folder / MANIFEST).exists():
        return
    strange = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    if strange:
        raise InputError(
            f"{folder} is neither empty nor a folder of results: there is {min(strange)} in it but no "
            f"{MANIFEST}: give another folder"
        )


def refuse_other(folder: Path, expected: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """See that what a folder's manifest says is what is expected."""
    told = differences(expected, found)
    if told:
        raise InputError(f"{folder} holds the results of another experiment ({some(told)}): {WHAT_TO_DO}")


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
    """Says in one sentence why a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}: fix that, and the same command resumes from there"
        ) from error


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file that is there in full or not at all, also if the machine stops."""
    with writing(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=f".{path.name}")
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
