"""Results as numbers, the same in the terminal and on a page: totals by policy and click model, and whole curves."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.intervals import Interval, mean_interval

# --- totals -------------------------------------------------------------------------------------------------


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
    found = []
    finished = units(whole_runs(table))
    for model, policy in dict.fromkeys(
        zip(finished["model"].to_pylist(), finished["policy"].to_pylist(), strict=True)
    ):
        mine = finished.filter((pc.field("model") == model) & (pc.field("policy") == policy))
        runs, run = np.unique(mine["run"].to_numpy(), return_inverse=True)
        queries = mine.num_rows // len(runs)
        means = (
            np.bincount(run, mine[name].to_numpy()) / queries for name in ("regret", "last_regret", "clicks")
        )
        found.append(
            Total(model, policy, queries, len(runs), *(mean_interval(mean, least=0) for mean in means))
        )
    return found


def units(table: pa.Table) -> pa.Table:
    """A row for each policy, model, query and run: its steps, the regret of them all and that of a step in the
    last window, and the clicks a step."""
    key = numbered(table, "policy", "model", "query", "run")
    step = table["step"].to_numpy()
    order = np.lexsort((step, key))
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    size = np.diff(step[order], prepend=0)
    size[first] = step[order][first]
    steps = step[order][last]
    regret, clicks = (table[name].to_numpy()[order] for name in ("regret", "clicks"))
    rows = table.select(["policy", "model", "query", "run"]).take(order[first])
    for name, values in {
        "steps": steps,
        "regret": np.add.reduceat(regret * size, first),
        "last_regret": regret[last],
        "clicks": np.add.reduceat(clicks * size, first) / steps,
    }.items():
        rows = rows.append_column(name, pa.array(values))
    return rows.take(np.argsort(order[first]))  # as they first come in the table


def whole_runs(table: pa.Table) -> pa.Table:
    """The rows of the runs that have all the queries that any run of their policy and model has: a run that was
    stopped in between has not."""
    pair, run = numbered(table, "model", "policy"), numbered(table, "model", "policy", "run")
    _, row = np.unique(numbered(table, "model", "policy", "run", "query"), return_index=True)
    runs, first, queries = np.unique(run[row], return_index=True, return_counts=True)
    pairs = pair[row][first]
    most = np.zeros(pairs.max(initial=0) + 1, np.int64)
    np.maximum.at(most, pairs, queries)
    whole = queries == most[pairs]
    return table if whole.all() else table.filter(np.isin(run, runs[whole]))


def numbered(table: pa.Table, *names: str) -> IntArray:
    """A number for each row, the same where these columns are the same."""
    number = np.zeros(table.num_rows, np.int64)
    for name in names:
        values = table[name].combine_chunks().dictionary_encode()
        number = number * max(len(values.dictionary), 1) + values.indices.to_numpy()
    return number


# --- whole curves -------------------------------------------------------------------------------------------

LEAPT = (
    "Where steps were leapt over, regret is the mean over the orders in which items were shuffled, without the noise "
    "of the orders that happened."
)
"""What readers of regret curves must know."""


class Curves(NamedTuple):
    """All runs of a policy on a click model."""

    queries: list[str]
    steps: IntArray
    """The last step of each window."""
    regret: FloatArray
    """The expected regret a step, by query, run and window."""

    @property
    def mean(self) -> FloatArray:
        """The regret a step by window, over all queries and runs."""
        return np.asarray(self.regret.mean(axis=(0, 1)))

    @property
    def cumulative(self) -> FloatArray:
        """The regret of all steps to each window's end, by query, run and window."""
        return np.cumsum(self.regret * np.diff(self.steps, prepend=0), axis=2)


def curves(table: pa.Table) -> dict[tuple[str, str], Curves]:
    """For each policy and click model of the results, in their order.

    Every query must have the same runs, and every run the same windows.
    """
    pairs = dict.fromkeys(zip(table["policy"].to_pylist(), table["model"].to_pylist(), strict=True))
    return {(policy, model): _curves(table, policy, model) for policy, model in pairs}


def _curves(table: pa.Table, policy: str, model: str) -> Curves:
    part = table.filter(pc.and_(pc.equal(table["policy"], policy), pc.equal(table["model"], model)))
    queries = part["query"].combine_chunks().dictionary_encode()
    run, step = part["run"].to_numpy(), part["step"].to_numpy()
    order = np.lexsort((step, run, queries.indices.to_numpy()))
    steps = np.unique(step)
    regret = (
        part["regret"].to_numpy()[order].reshape(len(queries.dictionary), len(np.unique(run)), len(steps))
    )
    return Curves(queries.dictionary.to_pylist(), steps, regret)


Found = Mapping[tuple[str, str], Curves]
"""The curves of all results, by policy and click model."""


def first_of(found: Found, model: str, *names: str) -> Curves | None:
    """The curves of the first of these policies that was run on the model, with whatever other settings."""
    for name in names:
        for (policy, of), mine in found.items():
            if of == model and (policy == name or policy.partition(":")[0] == name):
                return mine
    return None
