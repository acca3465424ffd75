"""How well click models predict held-out sessions, with bootstrap intervals: which model fits best?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast

import numpy as np

from clickbandit.click_models.base import ClickModel, model_class
from clickbandit.click_models.contract import Functions
from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.compiling.specialise import specialise
from clickbandit.errors import InputError
from clickbandit.logs.counts import Counts
from clickbandit.logs.fit import Fit
from clickbandit.logs.kernels import IMPOSSIBLE
from clickbandit.queries import Query

MEASURES = ("log_likelihood", "perplexity", "conditional_perplexity")
UNSEEN = 0.5
"""The value of a parameter about which nothing is known."""
_MAX_BAGS = 2000  # sessions are dealt into at most this many bags, and the bootstrap resamples bags


class Measure(NamedTuple):
    """A measure with its 95% bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """How well one model predicts the sessions of a log."""

    log_likelihood: Measure
    """The mean over sessions of the mean over positions of ln P(click or none | clicks above)."""
    perplexity: Measure
    """The mean over positions of 2 ** -(mean of log2 P(click or none)): 1 is perfect, 2 is a coin toss."""
    conditional_perplexity: Measure
    """The same, given the clicks above."""
    perplexity_by_position: FloatArray
    conditional_perplexity_by_position: FloatArray

    def as_dict(self) -> dict[str, Any]:
        """The score as plain data."""
        measures: dict[str, Measure] = {name: getattr(self, name) for name in MEASURES}
        return {name: measure.value for name, measure in measures.items()} | {
            "intervals": {name: [measure.low, measure.high] for name, measure in measures.items()},
            "perplexity_by_position": self.perplexity_by_position.tolist(),
            "conditional_perplexity_by_position": self.conditional_perplexity_by_position.tolist(),
        }


@dataclass(frozen=True)
class Evaluation:
    """How well models predict the sessions of a log."""

    models: Mapping[str, Score]
    n_sessions: int
    runner_up: str | None
    lead: Measure | None
    """How far the best model's log-likelihood is above the runner-up's, from the same bootstrap samples."""

    @property
    def best(self) -> str:
        """The model with the highest log-likelihood."""
        return max(self.models, key=lambda name: self.models[name].log_likelihood.value)

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the best model's lead is above zero."""
        return self.lead is None or self.lead.low > 0

    def as_dict(self) -> dict[str, Any]:
        """The evaluation as plain data: what `--json` prints."""
        return {
            "models": {name: score.as_dict() for name, score in self.models.items()},
            "sessions": self.n_sessions,
            "best": self.best,
            "clear": self.is_clear,
        }


def evaluate(
    models: Sequence[Query] | Sequence[Fit], counts: Counts, *, samples: int = 1000, seed: int = 0
) -> Evaluation:
    """Score the models of queries, or fits, on the sessions of a log.

    A parameter of an item or query that was never seen is 0.5. What a model considers impossible is given
    probability 1e-6. Intervals are from `samples` bootstrap samples of the sessions.
    """
    laws = _laws_of(models)
    if not laws:
        raise InputError("expected at least one click model to evaluate, found none")
    if not counts.n_sessions:
        raise InputError("expected sessions to evaluate on, found none")
    bootstrap = _Bootstrap(counts, samples, seed)
    likelihood: dict[str, FloatArray] = {}
    scores: dict[str, Score] = {}
    for name, law in laws.items():
        marginal, conditional = _log_probabilities(law, counts, bootstrap.inside)
        likelihood[name] = bootstrap.session_means(conditional)
        perplexity, given = bootstrap.perplexities(marginal), bootstrap.perplexities(conditional)
        scores[name] = Score(
            _measure(likelihood[name]),
            _measure(perplexity.mean(axis=1)),
            _measure(given.mean(axis=1)),
            perplexity[0],
            given[0],
        )
    order = sorted(scores, key=lambda name: -scores[name].log_likelihood.value)
    lead = _measure(likelihood[order[0]] - likelihood[order[1]]) if len(order) > 1 else None
    return Evaluation(scores, counts.n_sessions, order[1] if lead else None, lead)


# --- bootstrap ----------------------------------------------------------------------------------------------


class _Bootstrap:
    """Samples of a log's sessions, with which any model's log-probabilities are averaged.

    Rows of what its methods return are samples; the first row is the log itself.
    """

    def __init__(self, counts: Counts, samples: int, seed: int) -> None:
        patterns = counts.patterns
        self._size = np.diff(patterns.start)[patterns.list]
        self.inside = np.arange(counts.n_positions) < self._size[:, None]
        """A row for each pattern: which positions its list has."""
        rng = np.random.default_rng(seed)
        self._session = np.repeat(np.arange(len(patterns.list)), patterns.sessions.astype(np.int64))
        n = self._n_bags = min(len(self._session), _MAX_BAGS)
        self._bag = rng.permutation(np.arange(len(self._session)) % n)
        self._draws = np.vstack([np.ones(n), rng.multinomial(n, np.full(n, 1 / n), samples)])
        self._shown = self._sums(self.inside)

    def session_means(self, logs: FloatArray) -> FloatArray:
        """The mean over sessions of the mean over positions."""
        mean = (logs.sum(axis=1) / self._size)[:, None]
        n_sessions = self._draws @ np.bincount(self._bag, minlength=self._n_bags)
        return np.asarray(self._sums(mean)[:, 0] / n_sessions)

    def perplexities(self, logs: FloatArray) -> FloatArray:
        """A column for each position."""
        return np.exp(-self._sums(logs) / np.maximum(self._shown, 1))

    def _sums(self, values: Any) -> FloatArray:
        """The sums of each column over the sessions of each sample."""
        bags = [
            np.bincount(self._bag, values[:, k][self._session], self._n_bags) for k in range(values.shape[1])
        ]
        return np.asarray(self._draws @ np.array(bags, float).T)


def _measure(values: FloatArray) -> Measure:
    """The first value, and where the middle 95% of the others lie."""
    if len(values) == 1:
        return Measure(float(values[0]), float("nan"), float("nan"))
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return Measure(float(values[0]), float(low), float(high))


# --- one click model for all queries ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Law:
    """The click models of many queries as one: the parameters of all items one after another."""

    name: str
    place: Mapping[tuple[str, str], int]
    """The index of a (query, item)."""
    by_item: Mapping[str, Sequence[float]]
    shared: Mapping[str, Any]

    @property
    def functions(self) -> Functions:
        """The model's kernels."""
        return model_class(self.name).functions

    def params(self, counts: Counts) -> tuple[Any, IntArray]:
        """The parameters for the kernels, and the index into them of each pair of `counts`."""
        n = len(self.place)
        item = np.fromiter((self.place.get(pair, n) for pair in _rows(counts)), np.int64, counts.n_pairs)
        values = {name: [*value, UNSEEN] for name, value in self.by_item.items()}
        shared = {name: _lengthened(value, counts.n_positions) for name, value in self.shared.items()}
        return model_class(self.name)(**values, **shared).params, item


def _rows(source: Counts | Fit) -> "zip[tuple[str, str]]":
    return zip(source.pairs["query"].to_pylist(), source.pairs["item"].to_pylist(), strict=True)


def _log_probabilities(law: _Law, counts: Counts, inside: Any) -> tuple[FloatArray, FloatArray]:
    """ln P of each click or none, a row for each pattern: by itself, and given the clicks above."""
    patterns = counts.patterns
    params, item = law.params(counts)
    shown = item[patterns.pair]
    module = specialise("clickbandit.logs.kernels", model=vars(law.functions))
    probability = np.zeros(len(shown))
    module.marginal(params, patterns.start, shown, probability)
    conditional = np.zeros(inside.shape)
    clicks = patterns.clicks.view(np.int64)
    seen = np.zeros(inside.shape[1], np.int64)
    module.conditional(params, patterns.start, shown, patterns.list, clicks, seen, conditional)
    marginal = np.zeros(inside.shape)
    for k in range(inside.shape[1]):
        rows = np.flatnonzero(inside[:, k])
        p = probability[patterns.start[patterns.list[rows]] + k]
        clicked = (clicks[rows] >> k) & 1 == 1
        marginal[rows, k] = np.log(np.maximum(np.where(clicked, p, 1 - p), IMPOSSIBLE))
    return marginal, conditional


def _laws_of(models: Sequence[Query] | Sequence[Fit]) -> dict[str, _Law]:
    """The click models in queries, or in fits, by their names."""
    fits = [model for model in models if isinstance(model, Fit)]
    if fits:
        return {fit.name: _law_of_fit(fit) for fit in fits}
    queries = cast(Sequence[Query], models)
    names = dict.fromkeys(name for query in queries for name in query.models)
    return {
        name: _law_of_queries(name, [query for query in queries if name in query.models]) for name in names
    }


def _law_of_fit(fit: Fit) -> _Law:
    place = {pair: i for i, pair in enumerate(_rows(fit))}
    by_item = {name: value.tolist() for name, value in fit.parameters.items() if fit.is_by_pair(name)}
    return _Law(fit.name, place, by_item, fit.shared)


def _law_of_queries(name: str, queries: Sequence[Query]) -> _Law:
    pairs = [(query.query, item) for query in queries for item in query.items]
    by_item = {
        part: [value for query in queries for value in getattr(query.models[name], part)]
        for part in model_class(name).by_item
    }
    found = {_shared(query.models[name]) for query in queries}
    if len(found) > 1:
        raise InputError(
            f"expected all queries to share the parameters of {name} that are not by item, "
            f"found {len(found)} different sets: evaluate queries that were fitted together"
        )
    return _Law(name, {pair: i for i, pair in enumerate(pairs)}, by_item, dict(found.pop()))


def _shared(model: ClickModel) -> tuple[tuple[str, Any], ...]:
    names = [field.name for field in fields(model) if field.name not in model.by_item]
    return tuple((name, getattr(model, name)) for name in names)


def _lengthened(value: Any, n_positions: int) -> Any:
    """Values by position, extended to lists that are longer than any seen before."""
    if isinstance(value, float | int):
        return value
    triangle = len(value) > 0 and not isinstance(value[0], float | int)
    more = range(len(value), n_positions)
    return [*value, *([UNSEEN] * (k + 1) if triangle else UNSEEN for k in more)]
