"""Packages that only some features need: import them from here, so that a missing one is reported with its extra.

The core of clickbandit (policies, click models, simulations in Python, the live ranker) needs none of them.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from clickbandit.errors import InputError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    import vl_convert as vlc

__all__ = ["MissingExtra", "duckdb", "explained", "pa", "pc", "pq", "vlc"]

_MODULES = {
    "duckdb": "duckdb",
    "pa": "pyarrow",
    "pc": "pyarrow.compute",
    "pq": "pyarrow.parquet",
    "vlc": "vl_convert",
}
_EXTRAS = {
    "vl_convert": "report",
    "pyarrow": "report",
    "duckdb": "logs",
    "msgspec": "live",
    "httptools": "live",
    "uvloop": "live",
    "prometheus_client": "live",
}
"""The extra of `pyproject.toml` that brings each package."""


class MissingExtra(InputError, ImportError):
    """A package is not installed, and the message says which extra of clickbandit brings it; or it does not work."""


@contextmanager
def explained() -> Iterator[None]:
    """If a package is missing that comes with an extra, says so in one sentence."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        raise MissingExtra(
            f"this needs {package}, which is not installed: pip install 'clickbandit[{_EXTRAS[package]}]'"
        ) from None


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        with explained():
            return importlib.import_module(_MODULES[name])
    except MissingExtra:
        raise
    except ImportError as error:  # as pyarrow where NumPy is too old for it, which pip does not see
        package = _MODULES[name].partition(".")[0]
        raise MissingExtra(f"{package} is installed, but cannot be imported: {error}") from error
