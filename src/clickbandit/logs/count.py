"""Counting a log: files of any format, or a data frame."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from clickbandit.errors import InputError
from clickbandit.logs import files, formats
from clickbandit.logs.cluster import count_on_cluster
from clickbandit.logs.counts import Counts
from clickbandit.logs.item_counts import ItemCounts, count_items
from clickbandit.logs.plain import columns_of, count_plain, source_of
from clickbandit.logs.reading import Reading
from clickbandit.logs.tally import Database, close_tally, open_tally
from clickbandit.logs.yandex import PARSE, YandexReader

Log = str | PathLike[str] | Sequence[str | PathLike[str]] | Any
"""A file, a glob, several of them, or a data frame (pandas, polars, Arrow)."""
Progress = Callable[[int, int], None]
"""Called with how many more bytes of files and how many more sessions were read."""


def count_log(
    log: Log,
    format: str | None = None,
    *,
    memory_limit: str | int = "2GiB",
    strict: bool = False,
    query_key: str = "query",
    cluster: str | None = None,
    progress: Progress | None = None,
) -> Counts:
    """Read a log and count it, within a memory limit whatever its size.

    Without a format it is told from the first lines. `strict` stops at the first malformed line. With
    `query_key="query+region"` the same query in two regions is two queries (`yandex-relpred` only). With
    `cluster`, the address of a Dask scheduler, files are counted by its workers, with the same result.

    >>> import pandas
    >>> log = pandas.DataFrame({"query": ["q", "q"], "list": ["a b", "a b"], "clicks": ["1 0", "0 0"]})
    >>> counts = count_log(log)
    >>> counts
    <Counts of 2 sessions, 1 queries, 2 items>
    >>> counts.reading.clicks
    1
    """
    if format is not None:
        formats.check_format(format)
    if _is_frame(log):
        if cluster:
            raise InputError("expected files to count on a cluster, found a data frame: count it here")
        return _count_frame(log, strict, memory_limit)
    paths = files.find(log)
    kinds = {path: _format_of(path, format) for path in paths if path.stat().st_size}
    if not kinds:
        raise InputError(f"{_listed(paths)} has no usable session: it is empty")
    for kind in kinds.values():
        if (kind == "counts") != ("counts" in kinds.values()):
            raise InputError(
                "expected logs or counts, found both: count the logs first, and merge the counts"
            )
        if query_key != "query" and (kind, query_key) not in PARSE:
            known = " or ".join(key for name, key in PARSE if name == kind) or "query"
            raise InputError(f"expected the query key of {kind} to be {known}, found {query_key!r}")
    options: dict[str, Any] = {"memory_limit": memory_limit, "strict": strict, "query_key": query_key}
    if cluster:
        counts = count_on_cluster(cluster, kinds, **options, progress=progress)
    else:
        counts = count_files(kinds, **options, progress=progress)
    if not counts.n_sessions:
        raise InputError(_nothing_usable(_listed(paths), next(iter(kinds.values())), counts.reading))
    counts.reading.files = len(paths)
    counts.reading.note("files without a session", len(paths) - len(kinds))
    return counts


def count_files(
    kinds: Mapping[Path, str],
    *,
    memory_limit: str | int,
    strict: bool,
    query_key: str,
    progress: Progress | None = None,
) -> Counts:
    """The counts of files, each with its format; those of files with nothing in them are empty."""
    if all(formats.is_saved(path) for path in kinds):
        return Counts.load(*kinds, memory_limit=memory_limit)
    database = Database(memory_limit)
    open_tally(database)
    reading = Reading()
    for path, kind in kinds.items():
        if (kind, query_key) in PARSE:
            found = _count_yandex(database, path, PARSE[kind, query_key], strict, progress)
        else:
            source = source_of(path, kind)
            columns = columns_of(database, source, str(path))
            count = count_items if kind == "counts" else count_plain
            found = count(database, source, columns, str(path), strict)
            if progress:
                progress(path.stat().st_size, found.sessions)
        found.note("files without a session", not found.sessions)
        reading += found
    return _finish(database, reading, "counts" in kinds.values())


def _finish(database: Database, reading: Reading, counted: bool) -> Counts:
    if counted:
        return ItemCounts(database, reading)
    close_tally(database)
    counts = Counts(database, reading)
    counts.reading.note("lists with an item twice", counts.n_sessions_with_repeats)
    return counts


def _format_of(path: Path, format: str | None) -> str:
    likely = formats.looks_like(path)
    if format is None:
        if likely is None:
            raise InputError(f"{path} looks like no log format: expected one of {', '.join(formats.FORMATS)}")
        return likely
    if likely is not None and likely != format:
        raise InputError(f"{path} is not {format}: it looks like {likely}, so read it with --format {likely}")
    return format


def _listed(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths[:3])) + (" and others" if len(paths) > 3 else "")


def _nothing_usable(where: str, kind: str, reading: Reading) -> str:
    odd = ", ".join(
        f"{times:,} {name}" for name, times in reading.odd.items() if name != "files without a session"
    )
    example = f"; for example {reading.malformed[0]}" if reading.malformed else ""
    found = f"{reading.lines:,} lines{odd and f', {odd}'}{example}"
    return f"{where} has no usable session as {kind}: found {found}"


def _count_yandex(
    database: Database, path: Path, parse: str, strict: bool, progress: Progress | None
) -> Reading:
    reader = YandexReader(database, path, parse, strict)
    done = n_sessions = 0
    for block in files.blocks(path):
        reader.add(block)
        if progress:
            progress(block.bytes_read - done, reader.n_shown - n_sessions)
            done, n_sessions = block.bytes_read, reader.n_shown
    return reader.finish()


def _is_frame(log: Any) -> bool:
    return hasattr(log, "__arrow_c_stream__") or hasattr(log, "collect_schema")


def _count_frame(frame: Any, strict: bool, memory_limit: str | int) -> Counts:
    if not hasattr(frame, "__arrow_c_stream__"):  # a lazy frame of polars
        frame = frame.collect()
    table = pa.table(frame)
    table = table.rename_columns([str(name).lower() for name in table.column_names])
    database = Database(memory_limit)
    open_tally(database)
    database.connection.register("frame", table)
    try:
        columns = columns_of(database, "frame", "the data frame")
        counted = formats.shape(list(columns), "the data frame") == formats.COUNTED
        count = count_items if counted else count_plain
        reading = count(database, "frame", columns, "the data frame", strict)
    finally:
        database.connection.unregister("frame")
    if not reading.sessions:
        raise InputError(_nothing_usable("the data frame", "a plain log", reading))
    return _finish(database, reading, counted)
