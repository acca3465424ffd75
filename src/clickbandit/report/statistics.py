"""Results as numbers, the same in the terminal and on a page: totals by policy and click model, and whole curves."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.extras import pa, pc
from clickbandit.intervals import Interval, mean_of_strata
from clickbandit.simulation.outcome import LOSING, TAIL, last_tenth

_ROUNDING = 1e-9  # of a regret over all steps

# --- totals -------------------------------------------------------------------------------------------------


Regrets = Mapping[tuple[str, int], float]
"""By query and run: the regret over all steps."""


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
    losing: int
    """How many runs lose, of those on all queries."""
    regrets: Regrets

    @property
    def tail(self) -> float:
        """The 90th percentile of the regret over all steps, of all runs on all queries."""
        return float(np.quantile([*self.regrets.values()], TAIL))


def totals(table: pa.Table) -> list[Total]:
    """What came out for each policy and model, in the order of the results.

    The queries are given and the runs on each are drawn, so the intervals are for the mean over these queries.
    """
    finished = units(whole_runs(table))
    pairs = zip(finished["model"].to_pylist(), finished["policy"].to_pylist(), strict=True)
    return [_total(finished, model, policy) for model, policy in dict.fromkeys(pairs)]


def _total(finished: pa.Table, model: str, policy: str) -> Total:
    mine = finished.filter((pc.field("model") == model) & (pc.field("policy") == policy))
    query = numbered(mine, "query")
    by_query = [query == number for number in np.unique(query)]

    def interval(name: str, least: float) -> Interval:
        return mean_of_strata([mine[name].to_numpy()[rows] for rows in by_query], least)

    regret = mine["regret"].to_numpy()
    least = 0.0 if regret.min() >= -_ROUNDING else -math.inf  # below 0 against a list that is not the best
    names = zip(mine["query"].to_pylist(), mine["run"].to_pylist(), strict=True)
    return Total(
        model=model,
        policy=policy,
        queries=len(by_query),
        runs=mine.num_rows // len(by_query),
        regret=interval("regret", least),
        last_regret=interval("last_regret", least),
        clicks=interval("clicks", 0.0),
        losing=int((mine["late_regret"].to_numpy() > LOSING).sum()),
        regrets=dict(zip(names, regret.tolist(), strict=True)),
    )


def paired_difference(one: Regrets, other: Regrets) -> Interval | None:
    """How much more regret one policy has than another, from the runs that both have: there they met the same users.

    None if these are too few for an interval.
    """
    by_query: dict[str, list[float]] = {}
    for (query, run), regret in one.items():
        if (query, run) in other:
            by_query.setdefault(query, []).append(regret - other[query, run])
    if not by_query or min(map(len, by_query.values())) < 2:
        return None
    return mean_of_strata([*by_query.values()])


def beyond_the_least(found: Sequence[Total]) -> dict[tuple[str, str], Interval | None]:
    """By model and policy, how much more regret than the least on the model it has; None for the least itself."""
    best: dict[str, Total] = {}
    for total in found:
        if total.model not in best or total.regret.mean < best[total.model].regret.mean:
            best[total.model] = total
    return {
        (total.model, total.policy): None
        if total is best[total.model]
        else paired_difference(total.regrets, best[total.model].regrets)
        for total in found
    }


def distinguishable(difference: Interval) -> bool:
    """Whether a difference is distinguishable from none."""
    return not difference.low <= 0 <= difference.high


def units(table: pa.Table) -> pa.Table:
    """A row for each policy, model, query and run: its steps, the regret of them all and that of a step in the
    last window and in the last tenth of the steps, and the clicks a step."""
    key = numbered(table, "policy", "model", "query", "run")
    step = table["step"].to_numpy()
    order = np.lexsort((step, key))
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    size = np.diff(step[order], prepend=0)
    size[first] = step[order][first]
    steps = step[order][last]
    regret, clicks = (table[name].to_numpy()[order] for name in ("regret", "clicks"))
    late_size = size * np.concatenate(
        [last_tenth(step[order][begin : end + 1]) for begin, end in zip(first, last, strict=True)]
    )
    rows = table.select(["policy", "model", "query", "run"]).take(order[first])
    for name, values in {
        "steps": steps,
        "regret": np.add.reduceat(regret * size, first),
        "last_regret": regret[last],
        "late_regret": np.add.reduceat(regret * late_size, first) / np.add.reduceat(late_size, first),
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


def a_step(regret: float) -> str:
    """A regret a step, as axes write it; rounding errors count as 0.

    >>> a_step(0.00054), a_step(0.12), a_step(1.1e-16)
    ('5.4e-4', '1.2e-1', '0')
    """
    return "0" if abs(regret) < 1e-12 else f"{regret:.1e}".replace("e-0", "e-")
