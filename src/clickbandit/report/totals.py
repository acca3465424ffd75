"""Results in a few numbers: the same in the terminal and on a page."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from clickbandit.intervals import Interval, mean_interval


class Total(NamedTuple):
    """A policy on a click model: means over queries, with 95% intervals over runs."""

    model: str
    policy: str
    queries: int
    runs: int
    regret: Interval
    """Over all steps."""
    last_regret: Interval
    """A step, in the last window."""
    clicks: Interval
    """A step."""


def totals(table: pa.Table) -> list[Total]:
    """What came out for each policy and model, in the order of the results.

    The queries are given and the runs are drawn, so a run's value is its mean over the queries that all runs have.
    """
    units: dict[tuple[str, str], dict[tuple[str, int], list[tuple[int, float, float]]]] = {}
    for row in table.sort_by("step").to_pylist():
        unit = units.setdefault((row["model"], row["policy"]), {}).setdefault((row["query"], row["run"]), [])
        unit.append((row["step"], row["regret"], row["clicks"]))
    order = dict.fromkeys(zip(table["model"].to_pylist(), table["policy"].to_pylist(), strict=True))
    return [_total(model, policy, units[model, policy]) for model, policy in order]


def _total(model: str, policy: str, units: dict[tuple[str, int], list[tuple[int, float, float]]]) -> Total:
    by_run: dict[int, list[tuple[float, float, float]]] = {}
    for (_, run), rows in units.items():
        steps, regret, clicks = np.array(rows).T
        sizes = np.diff(steps, prepend=0)
        values = (float(regret @ sizes), float(regret[-1]), float(clicks @ sizes / steps[-1]))
        by_run.setdefault(run, []).append(values)
    queries = max(map(len, by_run.values()))
    whole = [np.mean(values, axis=0) for values in by_run.values() if len(values) == queries]
    regret, last, clicks = (mean_interval(column, least=0) for column in np.array(whole).T)
    return Total(model, policy, queries, len(whole), regret, last, clicks)
