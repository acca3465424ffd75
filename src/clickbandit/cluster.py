"""The way to a Dask cluster, which all long work takes that can be done on one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clickbandit.errors import InputError

PATIENCE: float = 300
"""Seconds to wait for a first worker."""
CONNECTING: float = 10
"""Seconds to wait for the scheduler."""


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the Dask scheduler at an address, or one sentence that says why there is none."""
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(
            "a cluster needs dask.distributed: install it with pip install 'clickbandit[cluster]'"
        ) from error
    try:
        client = Client(address, timeout=CONNECTING, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address}: start one with 'dask scheduler', "
            "and give the address that it prints"
        ) from error
    with client:
        yield client


def wait_for_worker(client: Any, address: str) -> None:
    """Wait until there is someone to do the work."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError as error:
        raise InputError(
            f"the Dask scheduler at {address} has no workers: start some with 'dask worker {address}'"
        ) from error


def result_of(future: Any, doing: str) -> Any:
    """A worker's result; its failure is raised here as one sentence."""
    try:
        return future.result()
    except InputError:
        raise
    except Exception as error:  # a worker's, of any kind
        problem = (str(error).splitlines() or [""])[0]
        raise InputError(f"{doing} on the cluster failed: {type(error).__name__}: {problem}") from error
