"""What the project states about its speed: `python -m benchmarks`."""

from typing import Any, NamedTuple

Rows = list[dict[str, Any]]


class Table(NamedTuple):
    """What a benchmark found."""

    title: str
    rows: Rows
