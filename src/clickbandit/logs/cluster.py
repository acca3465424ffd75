"""Counting the files of a log on a Dask cluster: each worker counts its files, and the counts are added up.

Counting is what takes long, and counts are small: only they travel. They are added up as saved counts always are,
so the result is that of counting here. A worker that dies loses nothing but time: Dask gives its files to others.
"""

import socket
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from clickbandit.cluster import connected, result_of, wait_for_worker
from clickbandit.errors import InputError
from clickbandit.logs.counts import Counts, saved_reading

_one_at_a_time = Lock()


def count_on_cluster(
    address: str,
    kinds: Mapping[Path, str],
    *,
    memory_limit: str | int,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Counts:
    """Count files, each with its format, on the workers of the Dask scheduler at an address, which must all see
    the files."""
    paths = list(kinds)
    with connected(address) as client, tempfile.TemporaryDirectory(prefix="clickbandit-") as folder:
        from distributed import as_completed

        parts = [Path(folder) / f"{i}.parquet" for i in range(len(paths))]
        # not pure: a file of the same name may have changed since another run
        futures = [
            client.submit(_count_file, str(path.absolute()), kind, memory_limit, options, pure=False)
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


def _count_file(path: str, kind: str, memory_limit: str | int, options: dict[str, Any]) -> bytes:
    """A file's counts as `Counts.save` writes them: what a worker does.

    A worker with many threads still counts one file at a time, on all its cores and within one memory limit.
    """
    from clickbandit.logs.count import count_files

    if not Path(path).exists():
        raise InputError(
            f"{path} is not there on {socket.gethostname()}: put logs where all workers can read them"
        )
    with _one_at_a_time, tempfile.TemporaryDirectory(prefix="clickbandit-") as folder:
        part = Path(folder) / "counts.parquet"
        count_files({Path(path): kind}, memory_limit=memory_limit, **options).save(part)
        return part.read_bytes()
