"""Logged decisions: lists that a policy made, how probable they were, and what was clicked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from clickbandit.compiling.kernel import FloatArray
from clickbandit.errors import InputError
from clickbandit.extras import pa, pq
from clickbandit.live.export import schema

_COLUMNS = (
    *("impression", "time", "query", "candidates", "list", "source", "clicks"),
    *("propensities", "prefix_propensities", "propensity_errors"),
)
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Decisions:
    """Lists in the order in which they were shown. Arrays have a row for each, and a column for each position; beyond
    the end of a list clicks are 0 and propensities 1."""

    queries: Sequence[str]
    lists: Sequence[tuple[str, ...]]
    candidates: Mapping[str, frozenset[str]]
    """By query: all items that there ever were."""
    clicks: FloatArray
    propensities: FloatArray
    """Of each item at its position."""
    prefixes: FloatArray
    """Of the list down to there."""
    left_out: int = 0
    """Impressions that no policy made, or whose propensities are not known."""
    estimated: bool = False
    """Whether some propensities are estimates."""

    def __len__(self) -> int:
        return len(self.lists)

    @cached_property
    def reward(self) -> FloatArray:
        """The clicks of each list."""
        return np.asarray(self.clicks.sum(axis=1), np.float64)


def read_decisions(*paths: str | Path) -> Decisions:
    """What `clickbandit export` or an archive wrote, each impression once."""
    tables = [_read(Path(path)) for path in paths]
    rows = {row["impression"]: row for table in tables for row in table.to_pylist()}
    made = sorted(
        (row for row in rows.values() if row["source"] == "policy" and row["list"]),
        key=lambda row: row["time"],
    )
    known = [row for row in made if row["prefix_propensities"]]
    if not known:
        raise InputError(
            f"{paths[0]}: a list needs propensities to be valued, found none in {len(rows):,} impressions: serve with "
            "--propensity-draws, or a policy that states them"
        )
    candidates: dict[str, set[str]] = {}
    for row in rows.values():
        candidates.setdefault(row["query"], set()).update(row["candidates"] or (), row["list"])
    width = max(len(row["list"]) for row in known)
    return Decisions(
        queries=[row["query"] for row in known],
        lists=[tuple(row["list"]) for row in known],
        candidates={query: frozenset(items) for query, items in candidates.items()},
        clicks=_filled([row["clicks"] for row in known], width, 0.0),
        propensities=_filled([row["propensities"] for row in known], width, 1.0),
        prefixes=_filled([row["prefix_propensities"] for row in known], width, 1.0),
        left_out=len(rows) - len(known),
        estimated=any(row["propensity_errors"] for row in known),
    )


def _read(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path)
        missing = next((name for name in _COLUMNS if name not in table.column_names), None)
        if missing:
            raise _not_exported(path, f"it has no column {missing!r}")
        typed = pa.schema([schema().field(name) for name in _COLUMNS])
        table = table.select(_COLUMNS).cast(typed)
    except (OSError, pa.ArrowException) as error:
        raise _not_exported(path, str(error).splitlines()[0]) from None
    for row in table.to_pylist():
        if row["prefix_propensities"] and not _fits(row):
            raise _not_exported(
                path, f"impression {row['impression']!r} has not a click and propensities for each item"
            )
    return table


def _not_exported(path: Path, found: str) -> InputError:
    return InputError(f"{path} must be Parquet that clickbandit export wrote, found another: {found}")


def _fits(row: Mapping[str, Any]) -> bool:
    """Whether there is something for each item of a list, and propensities are such."""
    columns = [row[name] or [] for name in ("list", "clicks", "propensities", "prefix_propensities")]
    return len({len(column) for column in columns}) == 1 and all(
        chance is not None and 0 < chance <= 1 + _ROUNDING for column in columns[2:] for chance in column
    )


def _filled(rows: Sequence[Sequence[float]], width: int, rest: float) -> FloatArray:
    return np.array([[*row, *[rest] * (width - len(row))] for row in rows], np.float64)
