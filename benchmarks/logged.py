"""Lists that a policy shows while it learns, and how probable they were: a template for `compiling.specialise`."""

from typing import Any

import numba
from numba.extending import overload

from clickbandit.click_models.cm import click  # model
from clickbandit.compiling.kernel import FloatArray, IntArray, counted_entry_point, kernel
from clickbandit.policies.batchrank.algorithm import rank, update  # policy
from clickbandit.policies.batchrank.describe import prefix, propensity  # chances


@counted_entry_point
def show(states: Any, params: Any, rngs: Any, memos: FloatArray, log: Any, draws: int) -> None:
    """Fill a log, which is lists, clicks, and by position the chances of the item there and of the list down to there.

    With `draws` the chances are estimated, as `policies.propensities.by_draws` does it.
    """
    state, before, trial = states
    rng, users, apart = rngs
    lists, clicks, chances, prefixes, drawn = log
    for n in range(len(lists)):
        ranking, memo = lists[n], memos[0]
        if draws > 0:
            copy_into(before, state)
        rank(state, rng, ranking, memo)
        if draws > 0:
            for _ in range(draws):
                copy_into(trial, before)
                rank(trial, apart, drawn, memos[1])
                compare(ranking, drawn, chances[n], prefixes[n])
            for k in range(len(ranking)):
                chances[n, k] = (chances[n, k] + 1) / (draws + 1)
                prefixes[n, k] = (prefixes[n, k] + 1) / (draws + 1)
        else:
            propensity(state, ranking, memo, chances[n])
            prefix(state, ranking, memo, prefixes[n])
        click(params, users, ranking, clicks[n])
        update(state, ranking, clicks[n], memo)


@kernel
def compare(ranking: IntArray, drawn: IntArray, chances: FloatArray, prefixes: FloatArray) -> None:
    """Count the items that two lists have in the same place, and those down to which they are the same."""
    same = 1.0
    for k in range(len(ranking)):
        alike = 1.0 if ranking[k] == drawn[k] else 0.0
        same *= alike
        chances[k] += alike
        prefixes[k] += same


def copy_into(to: Any, of: Any) -> None:
    """Write one state over another."""
    for one, other in zip(to, of, strict=True):
        if hasattr(one, "shape"):
            one[...] = other


@overload(copy_into, strict=False)
def _compiled(to: Any, of: Any) -> Any:
    arrays = [n for n, kind in enumerate(of) if isinstance(kind, numba.types.Array)]
    made: dict[str, Any] = {}
    exec(
        "\n".join(["def copy(to, of):", *(f"    to[{n}][...] = of[{n}]" for n in arrays), "    return"]), made
    )
    return made["copy"]
