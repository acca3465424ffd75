"""Results as arrays: the regret of a policy on a click model by query, run and window."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clickbandit.compiling.kernel import FloatArray, IntArray

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
