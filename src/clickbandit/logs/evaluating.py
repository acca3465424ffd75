"""How well click models foretell held-out sessions, with bootstrap intervals: which model fits best?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickbandit.compiling.kernel import FloatArray
from clickbandit.compiling.specialise import specialise
from clickbandit.errors import InputError
from clickbandit.logs.counts import Counts
from clickbandit.logs.fitting import Fit
from clickbandit.logs.lookup import Source, sources
from clickbandit.logs.scoring import IMPOSSIBLE
from clickbandit.queries import Query

MEASURES = ("log_likelihood", "perplexity", "conditional_perplexity")
_BAGS = 2000  # sessions are dealt into as many bags at most, and bags are drawn anew


class Interval(NamedTuple):
    """A measure with its 95% bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """How well one model foretells the sessions of a log."""

    log_likelihood: Interval
    """The mean over sessions of the mean over positions of ln P(click or none | clicks above)."""
    perplexity: Interval
    """The mean over positions of 2 ** -(mean of log2 P(click or none)): 1 is perfect, 2 is a coin."""
    conditional_perplexity: Interval
    """The same, given the clicks above."""
    perplexity_by_position: FloatArray
    conditional_perplexity_by_position: FloatArray


@dataclass(frozen=True)
class Evaluation:
    """How well models foretell the sessions of a log."""

    models: Mapping[str, Score]
    n_sessions: int
    runner_up: str | None
    lead: Interval | None
    """By how much the best model's log-likelihood is above the next one's, from the same bootstrap samples."""

    @property
    def best(self) -> str:
        """The model with the highest log-likelihood."""
        return max(self.models, key=lambda name: self.models[name].log_likelihood.value)

    @property
    def is_clear(self) -> bool:
        """Whether the best model's lead is above zero by its interval."""
        return self.lead is None or self.lead.low > 0

    def as_dict(self) -> dict[str, Any]:
        """The evaluation as plain data: what `--json` prints."""
        return {
            "models": {
                name: {measure: getattr(score, measure).value for measure in MEASURES}
                | {"intervals": {measure: list(getattr(score, measure)[1:]) for measure in MEASURES}}
                | {
                    "perplexity_by_position": score.perplexity_by_position.tolist(),
                    "conditional_perplexity_by_position": score.conditional_perplexity_by_position.tolist(),
                }
                for name, score in self.models.items()
            },
            "sessions": self.n_sessions,
            "best": self.best,
            "clear": self.is_clear,
        }


def evaluate(
    models: Sequence[Query] | Sequence[Fit], counts: Counts, *, samples: int = 1000, seed: int = 0
) -> Evaluation:
    """Score the models of queries, or fits, on the sessions of a log.

    A parameter of an item or query that was never seen is 0.5. What a model holds to be impossible counts as
    having probability 1e-6. Intervals are from `samples` bootstrap samples of the sessions.
    """
    found = sources(models)
    if not found:
        raise InputError("expected at least one click model to evaluate, found none")
    if not counts.n_sessions:
        raise InputError("expected sessions to evaluate on, found none")
    patterns = counts.patterns
    size = np.diff(patterns.start)[patterns.list]
    inside = np.arange(counts.n_positions) < size[:, None]
    rng = np.random.default_rng(seed)
    session = np.repeat(np.arange(len(patterns.list)), patterns.sessions.astype(np.int64))
    n_bags = min(len(session), _BAGS)
    bag = rng.permutation(np.arange(len(session)) % n_bags)
    # How often each bag is drawn: once in the first row, which gives the measures themselves.
    draws = np.vstack([np.ones(n_bags), rng.multinomial(n_bags, np.full(n_bags, 1 / n_bags), samples)])
    shown = draws @ _by_bag(bag, session, inside, n_bags)
    likelihood: dict[str, FloatArray] = {}
    scores: dict[str, Score] = {}
    for name, source in found.items():
        apart, given = _log_probabilities(source, counts, inside)
        mean = (given.sum(axis=1) / size)[:, None]
        likelihood[name] = (draws @ _by_bag(bag, session, mean, n_bags))[:, 0] / (
            draws @ np.bincount(bag, minlength=n_bags)
        )
        alone, conditional = (
            np.exp(-(draws @ _by_bag(bag, session, logs, n_bags)) / np.maximum(shown, 1))
            for logs in (apart, given)
        )
        scores[name] = Score(
            _interval(likelihood[name]),
            _interval(alone.mean(axis=1)),
            _interval(conditional.mean(axis=1)),
            alone[0],
            conditional[0],
        )
    order = sorted(scores, key=lambda name: -scores[name].log_likelihood.value)
    lead = _interval(likelihood[order[0]] - likelihood[order[1]]) if len(order) > 1 else None
    return Evaluation(scores, counts.n_sessions, order[1] if lead else None, lead)


def _log_probabilities(source: Source, counts: Counts, inside: Any) -> tuple[FloatArray, FloatArray]:
    """ln P of each click or none, a row for each pattern: by itself, and given the clicks above."""
    patterns = counts.patterns
    params, item = source.params(counts)
    shown = item[patterns.pair]
    module = specialise("clickbandit.logs.scoring", model=vars(source.functions))
    probability = np.zeros(len(shown))
    module.marginal(params, patterns.start, shown, probability)
    given = np.zeros(inside.shape)
    clicks = patterns.clicks.view(np.int64)
    seen = np.zeros(inside.shape[1], np.int64)
    module.conditional(params, patterns.start, shown, patterns.list, clicks, seen, given)
    apart = np.zeros(inside.shape)
    for k in range(inside.shape[1]):
        rows = np.flatnonzero(inside[:, k])
        p = probability[patterns.start[patterns.list[rows]] + k]
        clicked = (clicks[rows] >> k) & 1 == 1
        apart[rows, k] = np.log(np.maximum(np.where(clicked, p, 1 - p), IMPOSSIBLE))
    return apart, given


def _by_bag(bag: Any, session: Any, values: Any, n_bags: int) -> FloatArray:
    """The sums of each column over the sessions of each bag."""
    columns = [np.bincount(bag, values[:, k][session], n_bags) for k in range(values.shape[1])]
    return np.array(columns, float).T


def _interval(values: FloatArray) -> Interval:
    """The first value, and where the middle 95% of the others lie."""
    if len(values) == 1:
        return Interval(float(values[0]), float("nan"), float("nan"))
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return Interval(float(values[0]), float(low), float(high))
