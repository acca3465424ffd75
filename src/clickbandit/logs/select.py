"""Selecting queries to rank for: the most frequent, each with its most attractive items."""

from collections.abc import Sequence

import numpy as np

from clickbandit.compiling.kernel import FloatArray
from clickbandit.errors import InputError
from clickbandit.logs.counts import Counts
from clickbandit.logs.fit import Fit
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

    Of each query the `items` most attractive are kept, by their mean attraction over the models; click rates
    count only if there is no click model. Items shown fewer than `min_impressions` times rank after all
    others, as do queries without enough other items. Queries are in order of decreasing frequency and items
    in order of decreasing attraction, ties by name. Without numbers, everything is kept.
    """
    if not fits:
        raise InputError("expected at least one fitted model, found none")
    for name, value in (("top_queries", top_queries), ("items", items)):
        if value is not None and value < 1:
            raise InputError(f"expected {name} to be at least 1, found {value}")
    attraction = _attraction(fits)
    untested = counts.impressions < (min_impressions if items else 0)
    names, frequency = counts.query_sessions
    rows = [fits[0].rows(name) for name in names]
    lacking = np.array([(~untested[row]).sum() < min(items or 0, len(row)) for row in rows])
    chosen = []
    for query in np.lexsort((-frequency, lacking)).tolist()[:top_queries]:
        row = rows[query]
        best = row[np.lexsort((-attraction[row], untested[row]))][:items]
        kept = fits[0].pairs["item"].take(best).to_pylist()
        models = {fit.name: fit.model(names[query], kept) for fit in fits}
        errors = {
            fit.name: fit.standard_errors["attraction"][best].round(6).tolist()
            for fit in fits
            if "attraction" in fit.standard_errors and fit.is_by_pair("attraction")
        }
        chosen.append(Query(names[query], kept, models, errors=errors))
    return chosen


def _attraction(fits: Sequence[Fit]) -> FloatArray:
    """For each pair: the mean attraction, or else the mean rate, or else zero for all."""
    for name in ("attraction", "rate"):
        found = [fit.parameters[name] for fit in fits if name in fit.parameters and fit.is_by_pair(name)]
        if found:
            return np.asarray(np.mean(found, axis=0))
    return np.zeros(len(fits[0].impressions))
