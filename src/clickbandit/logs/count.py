"""Counting a log: files of any format, here or on a Dask cluster, or a data frame."""

import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

from clickbandit.cluster import connected, result_of, wait_for_worker
from clickbandit.errors import InputError
from clickbandit.logs import files
from clickbandit.logs.columns import Columns
from clickbandit.logs.counts import Counts, counts_in
from clickbandit.logs.formats.base import Progress, ReadOptions, format_of, log_format
from clickbandit.logs.plain import read_frame
from clickbandit.logs.reading import Reading
from clickbandit.logs.saved import saved_reading
from clickbandit.logs.tally import Tally

Log = str | PathLike[str] | Sequence[str | PathLike[str]] | Any
"""A file, a glob pattern, several of them, or a data frame (pandas, polars, Arrow)."""
_NO_SESSION = "files without a session"
_one_at_a_time = Lock()


def count_log(
    log: Log,
    format: str | None = None,
    *,
    memory_limit: str | int = "2GiB",
    strict: bool = False,
    query_key: str = "query",
    columns: Columns = Columns(),  # noqa: B008  (frozen)
    cluster: str | None = None,
    progress: Progress | None = None,
) -> Counts:
    """Read a log and count it, within a memory limit whatever its size.

    Without a format, each file's first lines decide. `strict` stops at the first malformed line. With
    `query_key="query+region"` the same query in two regions is two queries (`yandex-relpred` only).
    `columns` says what the columns of a table are called, if not as we call them. With
    `cluster`, the address of a Dask scheduler, its workers count the files, with the same result.

    >>> import pandas
    >>> log = pandas.DataFrame({"query": ["q", "q"], "list": ["a b", "a b"], "clicks": ["1 0", "0 0"]})
    >>> counts = count_log(log)
    >>> counts
    <Counts of 2 sessions, 1 query, 2 items>
    >>> counts.reading.clicks
    1
    """
    if format is not None:
        log_format(format)
    if hasattr(log, "__arrow_c_stream__") or hasattr(log, "collect_schema"):
        if cluster:
            raise InputError("a cluster counts files, found a data frame: count it without a cluster")
        tally = Tally(memory_limit)
        counts = counts_in(tally, read_frame(log, tally, "the data frame", strict, columns))
        return _usable(counts, "the data frame", "a plain log")
    paths = files.find(log)
    kinds = {path: format_of(path, format, columns) for path in paths if path.stat().st_size}
    where = ", ".join(map(str, paths[:3])) + (" and others" if len(paths) > 3 else "")
    if not kinds:
        raise InputError(f"{where} has no usable session: it is empty")
    _check_kinds(kinds, query_key)
    options = ReadOptions(strict, query_key, columns)
    if cluster:
        together = next((kind for kind in kinds.values() if log_format(kind).together), None)
        if together:
            raise InputError(f"files of {together} are read together, not each on a worker: count them here")
        counts = _count_on_cluster(cluster, kinds, options, memory_limit, progress)
    else:
        counts = _count_files(kinds, options, memory_limit, progress)
    counts.reading.files = len(paths)
    counts.reading.note(_NO_SESSION, len(paths) - len(kinds))
    return _usable(counts, where, next(iter(kinds.values())))


def _check_kinds(kinds: Mapping[Path, str], query_key: str) -> None:
    if len({kind == "counts" for kind in kinds.values()}) > 1:
        raise InputError("expected logs or counts, found both: count the logs first, and merge the counts")
    for kind in dict.fromkeys(kinds.values()):
        known = log_format(kind).query_keys
        if query_key not in known:
            raise InputError(
                f"expected the query key of {kind} to be {' or '.join(known)}, found {query_key!r}"
            )


def _count_files(
    kinds: Mapping[Path, str], options: ReadOptions, memory_limit: str | int, progress: Progress | None
) -> Counts:
    """The counts of files, each with its format; those of files with nothing in them are empty."""
    tally = Tally(memory_limit)
    reading = Reading()
    for kind in dict.fromkeys(kinds.values()):
        reading += _read_files(
            [path for path in kinds if kinds[path] == kind], kind, tally, options, progress
        )
    return counts_in(tally, reading)


def _read_files(
    paths: Sequence[Path], kind: str, tally: Tally, options: ReadOptions, progress: Progress | None
) -> Reading:
    reported = [0, 0]

    def report(n_bytes: int, n_sessions: int) -> None:
        reported[0] += n_bytes
        reported[1] += n_sessions
        if progress and (n_bytes or n_sessions):
            progress(n_bytes, n_sessions)

    reading = log_format(kind).read_together(paths, tally, replace(options, progress=report))
    size = sum(path.stat().st_size for path in paths)
    report(size - reported[0], reading.sessions - reported[1])
    return reading


def _usable(counts: Counts, where: str, kind: str) -> Counts:
    """Refuse counts without a session, and say what was found instead."""
    if counts.n_sessions:
        return counts
    reading = counts.reading
    odd = "".join(f", {times:,} {name}" for name, times in reading.odd.items() if name != _NO_SESSION)
    example = f"; for example {reading.malformed[0]}" if reading.malformed else ""
    raise InputError(f"{where} has no usable session as {kind}: found {reading.lines:,} lines{odd}{example}")


# --- on a cluster -------------------------------------------------------------------------------------------

# Counting is what takes long, and counts are small: only they travel. They are added up as saved counts always
# are, so the result is that of counting here. If a worker dies, Dask gives its files to others.


def _count_on_cluster(
    address: str,
    kinds: Mapping[Path, str],
    options: ReadOptions,
    memory_limit: str | int,
    progress: Progress | None,
) -> Counts:
    """Count files on the workers of the Dask scheduler at an address, which must all see the files."""
    paths = list(kinds)
    with connected(address) as client, tempfile.TemporaryDirectory(prefix="clickbandit-") as folder:
        from distributed import as_completed

        parts = [Path(folder) / f"{i}.parquet" for i in range(len(paths))]
        # not pure: a file of the same name may have changed since another run
        futures = [
            client.submit(_count_file, path.absolute(), kind, options, memory_limit, pure=False)
            for path, kind in kinds.items()
        ]
        wait_for_worker(client, address)
        number = {future.key: i for i, future in enumerate(futures)}
        for future in as_completed(futures, loop=client.loop):
            i = number[future.key]
            parts[i].write_bytes(result_of(future, f"counting {paths[i]}"))
            future.release()
            if progress:
                progress(paths[i].stat().st_size, saved_reading(parts[i]).sessions)
        return Counts.load(*parts, memory_limit=memory_limit)


def _count_file(path: Path, kind: str, options: ReadOptions, memory_limit: str | int) -> bytes:
    """A file's counts as `Counts.save` writes them: what a worker does.

    A worker with many threads still counts one file at a time, on all its cores and within one memory limit.
    """
    if not path.exists():
        raise InputError(
            f"{path} does not exist on {socket.gethostname()}: put logs where all workers can read them"
        )
    with _one_at_a_time, tempfile.TemporaryDirectory(prefix="clickbandit-") as folder:
        part = Path(folder) / "counts.parquet"
        _count_files({path: kind}, options, memory_limit, None).save(part)
        return part.read_bytes()
