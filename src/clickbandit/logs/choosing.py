"""Choosing queries to rank for: the most frequent, each with its most attractive items."""

from collections.abc import Sequence

import numpy as np

from clickbandit.clicks._base import RATES
from clickbandit.errors import InputError
from clickbandit.logs.counts import Counts
from clickbandit.logs.fitting import Fit
from clickbandit.queries import Query


def choose_queries(
    counts: Counts,
    fits: Sequence[Fit],
    *,
    top_queries: int | None = None,
    items: int | None = None,
    min_impressions: int = 10,
) -> list[Query]:
    """The most frequent queries of a log with their click models, ready for `save_queries`.

    Of each query the `items` most attractive are kept, by their mean attraction over the models. An item
    shown less often than `min_impressions` comes after all others, and so does a query without enough other
    items. Queries go by decreasing frequency and items by decreasing attraction, ties by name. Without
    numbers, all are kept.
    """
    if not fits:
        raise InputError("expected at least one fitted model, found none")
    check_can_be_chosen([fit.name for fit in fits])
    for name, value in (("top_queries", top_queries), ("items", items)):
        if value is not None and value < 1:
            raise InputError(f"expected {name} to be at least 1, found {value}")
    attraction = np.mean([_attraction(fit) for fit in fits], axis=0)
    untested = counts.impressions < (min_impressions if items else 0)
    names, frequency = counts.query_sessions
    rows = [fits[0].rows(name) for name in names]
    lacking = np.array([(~untested[row]).sum() < min(items or 0, len(row)) for row in rows])
    chosen = []
    for query in np.lexsort((-frequency, lacking)).tolist()[:top_queries]:
        row = rows[query]
        best = row[np.lexsort((-attraction[row], untested[row]))][:items]
        kept = fits[0].pairs["item"].take(best).to_pylist()
        chosen.append(Query(names[query], kept, {fit.name: fit.model(names[query], kept) for fit in fits}))
    return chosen


def check_can_be_chosen(names: Sequence[str]) -> None:
    """Refuse click rates: a query holds click models, which have an attraction for each of its items."""
    rates = [name for name in names if name in RATES]
    if rates:
        raise InputError(
            f"queries hold click models, not click rates such as {rates[0]}: fit it without --out"
        )


def _attraction(fit: Fit) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(fit.parameters["attraction"])
