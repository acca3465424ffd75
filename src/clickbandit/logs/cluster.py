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

from clickbandit.errors import InputError
from clickbandit.logs.counts import Counts, saved_reading

PATIENCE: float = 300
"""Seconds to wait for a first worker."""
CONNECTING: float = 10
"""Seconds to wait for the scheduler."""
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
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise InputError(
            "counting on a cluster needs dask.distributed: install it with pip install 'clickbandit[cluster]'"
        ) from error
    with tempfile.TemporaryDirectory(prefix="clickbandit-") as folder:
        parts = [Path(folder) / f"{i}.parquet" for i in range(len(paths))]
        try:
            client = Client(address, timeout=CONNECTING, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(
                f"no Dask scheduler answers at {address}: start one with 'dask scheduler', "
                "and give the address that it prints"
            ) from error
        with client:
            # not pure: a file of the same name may have changed since another run
            futures = [
                client.submit(_count_file, str(path.absolute()), kind, memory_limit, options, pure=False)
                for path, kind in kinds.items()
            ]
            try:
                client.wait_for_workers(1, timeout=PATIENCE)
            except TimeoutError as error:
                raise InputError(
                    f"the Dask scheduler at {address} has no workers: start some with 'dask worker {address}'"
                ) from error
            number = {future.key: i for i, future in enumerate(futures)}
            for future in as_completed(futures, loop=client.loop):
                i = number[future.key]
                parts[i].write_bytes(_result(future, paths[i]))
                future.release()
                if progress:
                    progress(paths[i].stat().st_size, saved_reading(parts[i]).sessions)
        return Counts.load(*parts, memory_limit=memory_limit)


def _result(future: Any, path: Path) -> bytes:
    try:
        return bytes(future.result())
    except InputError:
        raise
    except Exception as error:  # a worker's, of any kind: what went wrong there must be told here
        problem = (str(error).splitlines() or [""])[0]
        raise InputError(
            f"{path} could not be counted on the cluster: {type(error).__name__}: {problem}"
        ) from error


def _count_file(path: str, kind: str, memory_limit: str | int, options: dict[str, Any]) -> bytes:
    """A file's counts as `Counts.save` writes them: what a worker does.

    A worker with many threads still counts one file at a time, on all its cores and within one memory limit.
    """
    from clickbandit.logs.counting import count_files

    if not Path(path).exists():
        raise InputError(
            f"{path} is not there on {socket.gethostname()}: put logs where all workers can read them"
        )
    with _one_at_a_time, tempfile.TemporaryDirectory(prefix="clickbandit-") as folder:
        part = Path(folder) / "counts.parquet"
        count_files({Path(path): kind}, memory_limit=memory_limit, **options).save(part)
        return part.read_bytes()
