"""Fitting click models to counts, and what a fit holds."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np

from clickbandit.click_models.base import ClickModel, model_class
from clickbandit.click_models.empirical import NO_PRIOR
from clickbandit.click_models.fitting import FitOptions, Joint
from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.errors import InputError
from clickbandit.extras import pa
from clickbandit.logs.counts import Counts


@dataclass(frozen=True)
class Fit:
    """A click model fitted to a log: its parameters for every query and item, and how sure they are."""

    name: str
    """The model."""
    pairs: pa.Table
    """`query` and `item` of every parameter that belongs to an item, in alphabetical order."""
    impressions: IntArray
    """How often each pair was shown."""
    parameters: Mapping[str, FloatArray]
    """Each parameter: by pair, by position, or one value. All queries share those that are not by pair."""
    standard_errors: Mapping[str, FloatArray]
    """The standard error of each parameter."""
    trace: Sequence[float]
    """The penalised log-likelihood before each iteration of EM, and at the end."""
    iterations: int
    seconds: float
    joint: Joint | None = None
    """How the errors are related, if that was asked for (`FitOptions.joint`) and they do."""
    is_empirical: bool = False
    """Whether the prior of items was estimated."""

    @cached_property
    def queries(self) -> list[str]:
        """The names of all queries, in alphabetical order."""
        return list(self._rows)

    def items(self, query: str) -> list[str]:
        """The items that were shown for a query, in alphabetical order."""
        rows = self._of(query)
        return list(self.pairs["item"][rows.start : rows.stop].to_pylist())

    def model(self, query: str, items: Sequence[str] | None = None) -> ClickModel:
        """The click model of a query, of all items that were shown for it or of some."""
        rows = self.rows(query, items)
        by_item = {name: self.parameters[name][rows].tolist() for name in model_class(self.name).by_item}
        return model_class(self.name)(**by_item, **self.shared)

    @cached_property
    def shared(self) -> dict[str, Any]:
        """The parameters that all queries share, in the form that the model's class takes."""
        names = [name for name in self.parameters if not self.is_by_pair(name)]
        return {name: self.in_form(name, self.parameters[name]) for name in names}

    def rows(self, query: str, items: Sequence[str] | None = None) -> IntArray:
        """Where a query's items stand in `pairs`."""
        known = self._of(query)
        if items is None:
            return np.arange(known.start, known.stop)
        place = {item: known.start + i for i, item in enumerate(self.items(query))}
        missing = next((item for item in items if item not in place), None)
        if missing is not None:
            raise InputError(f"expected items that were shown for query {query}, found {missing!r}")
        return np.array([place[item] for item in items], np.int64)

    def is_by_pair(self, name: str) -> bool:
        """Whether there is a value of this parameter for each query and item."""
        return name in model_class(self.name).by_item

    @property
    def table(self) -> pa.Table:
        """Every query and item with its impressions, its parameters and their standard errors."""
        columns: dict[str, Any] = {"impressions": self.impressions}
        for name in filter(self.is_by_pair, self.parameters):
            columns[name] = self.parameters[name]
            columns[f"{name}_error"] = self.standard_errors[name]
        table = self.pairs
        for name, column in columns.items():
            table = table.append_column(name, pa.array(column))
        return table

    @cached_property
    def _rows(self) -> dict[str, range]:
        names = self.pairs["query"].combine_chunks().dictionary_encode()
        codes = names.indices.to_numpy()
        starts = np.flatnonzero(np.diff(codes, prepend=-1)) if len(codes) else np.zeros(0, np.int64)
        ends = np.append(starts[1:], len(codes))
        return {
            names.dictionary[int(codes[start])].as_py(): range(start, end)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        }

    def _of(self, query: str) -> range:
        if query not in self._rows:
            raise InputError(f"expected one of the {len(self._rows):,} queries of the log, found {query!r}")
        return self._rows[query]

    def in_form(self, name: str, value: FloatArray) -> Any:
        """Values of a shared parameter, in the form that the model's class takes."""
        hint = get_type_hints(model_class(self.name))[name]
        if not get_args(hint):
            return float(value[0])
        if get_args(get_args(hint)[0]):  # a triangle: row k has k values
            ends = np.cumsum(np.arange(1, len(value) + 1))
            return [row.tolist() for row in np.split(value, ends[ends < len(value)])]
        return value.tolist()


def fit(
    counts: Counts,
    model: str,
    *,
    iterations: int | None = None,
    tolerance: float = FitOptions.tolerance,
    smoothing: tuple[float, float] = FitOptions.smoothing,
    compat: str | None = None,
    empirical: bool = False,
) -> Fit:
    """Fit a click model to counts.

    Parameters that belong to an item are those of a (query, item); all others are shared by all queries. EM
    runs for `iterations`, or until an iteration improves the penalised log-likelihood by less than
    `tolerance` for each session. `compat="pyclick"` gives PyClick's DBN and CCM. `empirical` estimates the
    prior of items from the data (PBM and UBM), instead of `smoothing`.

    >>> from clickbandit.logs import count_log
    >>> import pandas
    >>> clicks = ["1 0", "1 0", "0 1", "0 0"]
    >>> log = pandas.DataFrame({"query": ["q"] * 4, "list": ["a b"] * 4, "clicks": clicks})
    >>> cascade = fit(count_log(log), "CM")
    >>> cascade.model("q")
    CascadeModel(attraction=(0.5, 0.5))
    >>> cascade.table["impressions"].to_pylist()
    [4, 4]
    """
    options = FitOptions((float(smoothing[0]), float(smoothing[1])), iterations, tolerance, compat, empirical)
    return fit_with(counts, model, options)


def fit_with(counts: Counts, model: str, options: FitOptions) -> Fit:
    """As `fit`, with all options in one."""
    kind = model_class(model)
    start = time.perf_counter()
    estimate = kind.fit(counts, options)
    names = [field.name for field in fields(kind)]
    if options.empirical and not estimate.is_empirical:
        raise InputError(f"the prior can be estimated for PBM and UBM, found {model}: leave empirical out")
    assert sorted(estimate.parameters) == sorted(names), (estimate.parameters.keys(), names)
    return Fit(
        model,
        counts.pairs,
        counts.impressions,
        estimate.parameters,
        estimate.errors,
        estimate.trace,
        estimate.iterations,
        time.perf_counter() - start,
        estimate.joint,
        estimate.is_empirical,
    )


class Doubt(NamedTuple):
    """A parameter that all queries share, and whose prior matters more than its error says."""

    name: str
    place: int
    """Among the values of its name in `Fit.parameters`."""
    value: float
    error: float
    other: float
    """Its value with hardly any prior."""
    other_error: float


def doubts(counts: Counts, found: Fit) -> list[Doubt]:
    """Where a fit to these counts rests on its prior: refitted with hardly any (`NO_PRIOR`), these parameters differ by
    more than twice the error of the difference.

    >>> from clickbandit.logs import count_log
    >>> import pandas
    >>> log = pandas.DataFrame({"query": ["q"] * 900, "list": ["a b"] * 900, "clicks": ["1 0", "0 1", "0 0"] * 300})
    >>> counts = count_log(log)
    >>> doubts(counts, fit(counts, "DCM"))
    []
    """
    other = fit(counts, found.name, smoothing=NO_PRIOR)
    all_shared = [
        Doubt(name, place, *map(float, both))
        for name in found.parameters
        if not found.is_by_pair(name)
        for place, both in enumerate(
            zip(
                *(part[name] for one in (found, other) for part in (one.parameters, one.standard_errors)),
                strict=True,
            )
        )
    ]
    return [
        one for one in all_shared if abs(one.value - one.other) > 2 * math.hypot(one.error, one.other_error)
    ]
