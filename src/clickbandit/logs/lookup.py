"""Click models of many queries as one: the parameters of all items behind each other, and where an item
stands."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np

from clickbandit.click_models.base import ClickModel, model_class
from clickbandit.click_models.contract import Functions
from clickbandit.compiling.kernel import IntArray
from clickbandit.errors import InputError
from clickbandit.logs.counts import Counts
from clickbandit.logs.fitting import Fit
from clickbandit.queries import Query

UNSEEN = 0.5
"""The value of a parameter that nothing is known about."""


@dataclass(frozen=True)
class Source:
    """A click model of all queries."""

    name: str
    place: Mapping[tuple[str, str], int]
    """Where a (query, item) stands."""
    by_item: Mapping[str, Sequence[float]]
    shared: Mapping[str, Any]

    @property
    def functions(self) -> Functions:
        """The model's kernels."""
        return model_class(self.name).functions

    def params(self, counts: Counts) -> tuple[Any, IntArray]:
        """The parameters for the kernels, and which of them each pair of `counts` has."""
        n = len(self.place)
        pairs = zip(counts.pairs["query"].to_pylist(), counts.pairs["item"].to_pylist(), strict=True)
        item = np.fromiter((self.place.get(pair, n) for pair in pairs), np.int64, counts.n_pairs)
        values = {name: [*value, UNSEEN] for name, value in self.by_item.items()}
        shared = {name: _lengthened(value, counts.n_positions) for name, value in self.shared.items()}
        return model_class(self.name)(**values, **shared).params, item


def sources(models: Sequence[Query] | Sequence[Fit]) -> dict[str, Source]:
    """The click models in queries, or in fits, by their names."""
    fits = [model for model in models if isinstance(model, Fit)]
    if fits:
        return {fit.name: _of_fit(fit) for fit in fits}
    queries = cast(Sequence[Query], models)
    names = dict.fromkeys(name for query in queries for name in query.models)
    return {name: _of_queries(name, [query for query in queries if name in query.models]) for name in names}


def _of_fit(fit: Fit) -> Source:
    pairs = zip(fit.pairs["query"].to_pylist(), fit.pairs["item"].to_pylist(), strict=True)
    place = {pair: i for i, pair in enumerate(pairs)}
    by_item = {name: value.tolist() for name, value in fit.parameters.items() if fit.is_by_pair(name)}
    return Source(fit.name, place, by_item, fit.shared)


def _of_queries(name: str, queries: Sequence[Query]) -> Source:
    kind = model_class(name)
    place = {
        pair: i for i, pair in enumerate((query.query, item) for query in queries for item in query.items)
    }
    by_item = {
        part: [value for query in queries for value in getattr(query.models[name], part)]
        for part in kind.by_item
    }
    found = Counter(_shared(query.models[name]) for query in queries)
    if len(found) > 1:
        raise InputError(
            f"expected all queries to share what {name} says about positions, found {len(found)} different: "
            "evaluate queries that were fitted together"
        )
    ((shared, _),) = found.items()
    return Source(name, place, by_item, dict(shared))


def _shared(model: ClickModel) -> tuple[tuple[str, Any], ...]:
    names = [field.name for field in fields(model) if field.name not in model.by_item]
    return tuple((name, getattr(model, name)) for name in names)


def _lengthened(value: Any, n_positions: int) -> Any:
    """Values by position for lists that are longer than any that was seen."""
    if isinstance(value, float | int):
        return value
    triangle = len(value) > 0 and not isinstance(value[0], float | int)
    more = range(len(value), n_positions)
    return [*value, *([UNSEEN] * (k + 1) if triangle else UNSEEN for k in more)]
