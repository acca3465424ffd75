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
_REWARDS = "rewards"
"""Which exports of earlier versions do not have: they have clicks alone."""
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
    rewards: FloatArray | None = None
    """What each item earned, if that is not its clicks."""

    def __len__(self) -> int:
        return len(self.lists)

    @property
    def earned(self) -> FloatArray:
        """What each item earned: its clicks, unless there are rewards."""
        return self.clicks if self.rewards is None else self.rewards

    @property
    def unit(self) -> str:
        """What is earned."""
        return "clicks" if self.rewards is None else "reward"

    @cached_property
    def reward(self) -> FloatArray:
        """What each list earned."""
        return np.asarray(self.earned.sum(axis=1), np.float64)


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
    clicks = _filled([row["clicks"] for row in known], width, 0.0)
    rewards = _filled([row["rewards"] or row["clicks"] for row in known], width, 0.0)
    return Decisions(
        queries=[row["query"] for row in known],
        lists=[tuple(row["list"]) for row in known],
        candidates={query: frozenset(items) for query, items in candidates.items()},
        clicks=clicks,
        propensities=_filled([row["propensities"] for row in known], width, 1.0),
        prefixes=_filled([row["prefix_propensities"] for row in known], width, 1.0),
        left_out=len(rows) - len(known),
        estimated=any(row["propensity_errors"] for row in known),
        rewards=None if np.array_equal(clicks, rewards) else rewards,
    )


def _read(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path)
        missing = next((name for name in _COLUMNS if name not in table.column_names), None)
        if missing:
            raise _not_exported(path, f"it has no column {missing!r}")
        if _REWARDS not in table.column_names:
            table = table.append_column(_REWARDS, pa.nulls(len(table), schema().field(_REWARDS).type))
        names = (*_COLUMNS, _REWARDS)
        table = table.select(names).cast(pa.schema([schema().field(name) for name in names]))
    except FileNotFoundError:
        raise InputError(f"expected a file that clickbandit export wrote, found no file {path}") from None
    except (OSError, pa.ArrowException) as error:
        raise _not_exported(path, str(error).splitlines()[0]) from None
    for row in table.to_pylist():
        if row["prefix_propensities"] and not _fits(row):
            raise _not_exported(
                path, f"impression {row['impression']!r} does not have clicks and propensities for each item"
            )
    return table


def _not_exported(path: Path, found: str) -> InputError:
    return InputError(f"{path} must be Parquet that clickbandit export wrote, found another: {found}")


def _fits(row: Mapping[str, Any]) -> bool:
    """Whether there is something for each item of a list, and propensities are such."""
    columns = [row[name] or [] for name in ("list", "clicks", "propensities", "prefix_propensities")]
    if row[_REWARDS] is not None:
        columns.insert(0, row[_REWARDS])
    return len({len(column) for column in columns}) == 1 and all(
        chance is not None and 0 < chance <= 1 + _ROUNDING for column in columns[-2:] for chance in column
    )


def _filled(rows: Sequence[Sequence[float]], width: int, rest: float) -> FloatArray:
    return np.array([[*row, *[rest] * (width - len(row))] for row in rows], np.float64)
