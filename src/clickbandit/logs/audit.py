"""Which queries of a log are ordered wrongly: the better list, what it would earn, and what proving it takes.

What users click on lists that were never shown rests on a click model: the one that best predicts sessions that it was
not fitted to. The better list is the best by what its parameters are expected to be, and its gain has an interval from
draws of them. Since the list is chosen by the same estimates, it looks better than it is unless these are shrunk, and
so they are (`posterior`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from clickbandit.click_models.base import ClickModel, model_class, model_names
from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.compiling.specialise import specialise
from clickbandit.defaults import CLICK_MODELS
from clickbandit.errors import InputError
from clickbandit.intervals import Interval, interval_of_draws, sessions_to_prove
from clickbandit.logs.counts import Counts
from clickbandit.logs.evaluate import evaluate
from clickbandit.logs.fit import Fit, fit
from clickbandit.logs.posterior import Posterior, fit_posterior
from clickbandit.wording import counted

_BIASED = ("DCM", "SDBN")
JUDGES = tuple(name for name in CLICK_MODELS if name not in _BIASED)
"""Those by which lists are judged. DCM and SDBN take the last click for the end of a session, so that their fits are
off by more than their errors, even for users of their own; their opinions are shown next to the others'."""
DRAWS = 1000
_HELD_OUT = 0.2  # of the sessions, by which the click model is chosen
_WORTH = 1e-4  # clicks a list: what is less is no reason to move an item
_ROUNDS = 200
_CHOICES = 20
"""Draws whose own best lists tell how much of a promised gain the choice of the list may have made up."""


@dataclass(frozen=True)
class Finding:
    """What an audit says of a query. Clicks are expected clicks on a list."""

    query: str
    sessions: int
    """Of the query."""
    usual: tuple[str, ...]
    """The list that was shown most often."""
    shown: int
    """How often that was."""
    measured: float
    """Clicks on it, as counted: no click model is needed for this."""
    better: tuple[str, ...]
    """The list that would earn the most clicks, by the click model; the usual one where none is better."""
    gain: Interval
    """Clicks more than on the usual list, by the click model."""
    chance: float
    """That the better list is better, by the click model."""
    new_places: int
    """How many items of the better list were never shown where it shows them: there the click model alone speaks."""
    others: Mapping[str, float]
    """The gain of the same list by other click models."""
    to_prove: float
    """How many sessions a test needs that shows both lists to half of them."""
    cost: float
    """Clicks that such a test is expected to lose against showing whichever list is better from the start."""

    @property
    def verdict(self) -> str:
        """Whether the query is ordered wrongly: yes, maybe or no."""
        if self.better == self.usual:
            return "no"
        return "yes" if self.gain.low > 0 else "maybe"

    @property
    def more(self) -> float:
        """Clicks more over the log's sessions of the query."""
        return self.gain.mean * self.sessions

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain data."""
        plain = asdict(self) | {"wrong": self.verdict, "clicks_more": self.more}
        plain["gain"] = self.gain._asdict()
        if not np.isfinite(self.to_prove):
            plain |= {"to_prove": None, "cost": None}
        return plain


@dataclass(frozen=True)
class Audit:
    """What is wrong with the order of a log's queries."""

    model: str
    """The click model by which lists are judged."""
    findings: Sequence[Finding]
    """Those with the most clicks to gain first."""
    refused: Mapping[str, str]
    """Queries with too little evidence, and why."""
    n_sessions: int

    def as_dict(self) -> dict[str, Any]:
        """The audit as plain data: what `--json` prints."""
        return {
            "model": self.model,
            "sessions": self.n_sessions,
            "rests_on_the_model": ["better", "gain", "chance", "others", "to_prove", "cost", "clicks_more"],
            "queries": [finding.as_dict() for finding in self.findings],
            "refused": dict(self.refused),
        }


@dataclass(frozen=True)
class Evidence:
    """What a query must have to be judged."""

    sessions: int = 200
    """Of the query."""
    clicks: int = 20
    """On the usual list."""
    impressions: int = 50
    """Of an item, to be put in the better list if the usual one does not show it."""


def audit(
    counts: Counts,
    *,
    model: str | None = None,
    models: Sequence[str] = CLICK_MODELS,
    evidence: Evidence = Evidence(),
    seed: int = 0,
    progress: Callable[[int], None] = lambda n: None,
) -> Audit:
    """Find the queries that are ordered wrongly, by a click model or else by the one of `models` that fits best (but
    for DCM and SDBN, see `JUDGES`).

    >>> from clickbandit.logs import count_log
    >>> import pandas
    >>> lists, clicks = ["a b"] * 900 + ["b a"] * 100, (["0 1"] * 3 + ["0 0"] * 6) * 100 + ["1 0"] * 50 + ["0 0"] * 50
    >>> log = pandas.DataFrame({"query": ["q"] * 1000, "list": lists, "clicks": clicks})
    >>> found = audit(count_log(log), model="PBM", models=["PBM"]).findings[0]
    >>> found.verdict, found.better
    ('yes', ('b', 'a'))
    """
    names = list(dict.fromkeys([*models, *([model] if model else [])]))
    rate = next((name for name in names if not issubclass(model_class(name), ClickModel)), None)
    if rate:
        raise InputError(
            f"expected click models that order items, found the click rate {rate}: take of {', '.join(model_names())}"
        )
    judges = [name for name in names if name not in _BIASED]
    if not judges or model in _BIASED:
        raise InputError(
            f"expected a click model whose errors are right, found {model or ', '.join(names)}, which takes the last "
            f"click for the end of a session: judge by {', '.join(JUDGES)}"
        )
    chosen = model or best_model(counts, judges, seed)
    judge = _Judge(
        counts, fit_posterior(counts, chosen), [fit(counts, name) for name in names if name != chosen], seed
    )
    found, refused = [], {}
    for query in _queries(counts):
        problem = _lack(query, evidence)
        if problem:
            refused[query.name] = problem
        else:
            found.append(judge.finding(query, evidence))
        progress(1)
    found.sort(key=lambda finding: -finding.more)
    return Audit(chosen, found, refused, counts.n_sessions)


def best_model(counts: Counts, models: Sequence[str], seed: int = 0) -> str:
    """The click model that best predicts a fifth of the sessions when it is fitted to the others.

    The first one if there are too few sessions for that.
    """
    if len(models) == 1:
        return models[0]
    held_out, others = counts.split(_HELD_OUT, seed)
    if not (held_out.n_sessions and others.n_sessions):
        return models[0]
    return evaluate([fit(others, name) for name in models], held_out, samples=1).best


# --- what was shown -----------------------------------------------------------------------------------------


class _Query(NamedTuple):
    """A query of a log, and the list that it usually shows."""

    name: str
    rows: range
    """Of its pairs."""
    sessions: int
    usual: IntArray
    """The pairs of the usual list."""
    shown: int
    clicks: int
    squares: int
    """The sum of the squares of the clicks on it."""

    @property
    def mean(self) -> float:
        return self.clicks / self.shown

    @property
    def variance(self) -> float:
        return self.squares / self.shown - self.mean**2


def _queries(counts: Counts) -> Iterator[_Query]:
    """The queries of a log; lists and pairs stand in the order of their queries."""
    patterns = counts.patterns
    sessions = patterns.sessions.astype(np.int64)
    n_lists = len(patterns.start) - 1
    often = np.bincount(patterns.list, sessions, n_lists).astype(np.int64)
    bits = np.unpackbits(patterns.clicks.astype(np.uint64).view(np.uint8))
    clicks = bits.reshape(-1, 64).sum(axis=1, dtype=np.int64)
    total = np.bincount(patterns.list, sessions * clicks, n_lists)
    squares = np.bincount(patterns.list, sessions * clicks**2, n_lists)
    names = counts.pairs["query"].combine_chunks().dictionary_encode()
    codes = names.indices.to_numpy()
    bounds = np.append(np.flatnonzero(np.diff(codes, prepend=-1)), len(codes))
    of_list = codes[patterns.pair[patterns.start[:-1]]]
    ends = np.searchsorted(of_list, np.arange(len(bounds)))
    for i, name in enumerate(names.dictionary.to_pylist()):
        mine = slice(ends[i], ends[i + 1])
        usual = int(mine.start + often[mine].argmax())
        yield _Query(
            name,
            range(int(bounds[i]), int(bounds[i + 1])),
            int(often[mine].sum()),
            patterns.pair[patterns.start[usual] : patterns.start[usual + 1]],
            int(often[usual]),
            int(total[usual]),
            int(squares[usual]),
        )


def _lack(query: _Query, evidence: Evidence) -> str | None:
    """What a query lacks to be judged."""
    if query.sessions < evidence.sessions:
        return f"{counted(query.sessions, 'session')}, of at least {evidence.sessions:,}"
    if query.clicks < evidence.clicks:
        return f"{counted(query.clicks, 'click')} on the usual list, of at least {evidence.clicks:,}"
    if len(set(query.usual.tolist())) < len(query.usual):
        return "the usual list shows an item twice"
    return None


# --- what would be better -----------------------------------------------------------------------------------


class _Judge:
    """Judges queries by what is known of a click model's parameters."""

    def __init__(self, counts: Counts, posterior: Posterior, others: Sequence[Fit], seed: int) -> None:
        self._counts, self._posterior, self._others = counts, posterior, others
        functions = model_class(posterior.fit.name).functions
        self._module = specialise(
            "clickbandit.enumeration", model=vars(functions), sources=list(vars(functions).values())
        )
        self._rng = np.random.default_rng(seed)
        self._deviations = posterior.shared_draws(DRAWS, self._rng)
        self._expected, *self._laws = posterior.laws(
            np.vstack([np.zeros(self._deviations.shape[1]), self._deviations])
        )
        cells = counts.by_position
        self._seen = set(zip(cells.pair.tolist(), cells.position.tolist(), strict=True))

    def finding(self, query: _Query, evidence: Evidence) -> Finding:
        """What there is to say of a query."""
        rows = np.arange(query.rows.start, query.rows.stop)
        known = self._counts.impressions[rows] >= evidence.impressions
        known[query.usual - query.rows.start] = True
        rows = rows[known]
        usual = np.searchsorted(rows, query.usual)
        expected = self._expected._replace(
            **{name: mean[rows] for name, mean in self._posterior.means.items()}
        )
        better = climb(partial(self._rewards, expected), usual, len(rows))
        drawn = self._drawn(rows)
        gains = np.array([self._gain(law, usual, better) for law in drawn])
        gain = interval_of_draws(gains)
        if better.tolist() != usual.tolist():
            best = [climb(partial(self._rewards, law), better, len(rows)) for law in drawn[:_CHOICES]]
            made_up = self._made_up_by_choice(expected, zip(drawn, best, strict=False), usual)
            gain = gain._replace(low=gain.low - made_up / 2)
        grown = max(query.mean + gain.mean, 0) / query.mean
        to_prove = sessions_to_prove(gain.mean, (query.variance, query.variance * grown))
        items = self._counts.pairs["item"].take(rows).to_pylist()
        before, after = (tuple(items[i] for i in order) for order in (usual, better))
        return Finding(
            query.name,
            query.sessions,
            before,
            query.shown,
            query.mean,
            after,
            gain,
            float(np.mean(gains > 0)),
            sum((int(rows[i]), k) not in self._seen for k, i in enumerate(better)),
            {
                other.name: model.reward(range(len(after), 2 * len(after))) - model.reward(range(len(before)))
                for other in self._others
                for model in [other.model(query.name, [*before, *after])]
            },
            to_prove,
            to_prove / 2 * float(np.mean(np.abs(gains))) if np.isfinite(to_prove) else 0.0,
        )

    def _drawn(self, rows: IntArray) -> list[Any]:
        """The parameters of a query's items, as they may be."""
        drawn = self._posterior.draws(rows, self._deviations, self._rng)
        return [
            law._replace(**{name: values[i] for name, values in drawn.items()})
            for i, law in enumerate(self._laws)
        ]

    def _made_up_by_choice(
        self, expected: Any, chosen: Iterable[tuple[Any, IntArray]], usual: IntArray
    ) -> float:
        """How much more than expected of it each draw promises for the list that it would choose, on average.

        That is what estimates without a prior promise too much; a prior that is known takes all of it off already. Ours
        is estimated, so the interval allows for half.
        """
        more = [self._gain(law, usual, best) - self._gain(expected, usual, best) for law, best in chosen]
        return max(float(np.mean(more)), 0.0)

    def _gain(self, params: Any, before: IntArray, after: IntArray) -> float:
        """How much more one list earns than another."""
        earned = self._rewards(params, np.array([before, after]))
        return float(earned[1] - earned[0])

    def _rewards(self, params: Any, lists: IntArray) -> FloatArray:
        clicked, examined = np.empty(lists.shape), np.empty(lists.shape)
        self._module.evaluate(params, lists, clicked, examined)
        return np.asarray(clicked.sum(axis=1))


def climb(rewards: Callable[[IntArray], FloatArray], usual: IntArray, n_items: int) -> IntArray:
    """From the usual list, one that no exchange, move or replacement of an item makes better by `_WORTH`."""
    current = np.asarray(usual, np.int64)
    earned = float(rewards(current[None])[0])
    for _ in range(_ROUNDS):
        lists = _neighbours(current, n_items)
        found = rewards(lists)
        best = int(found.argmax()) if len(found) else 0
        if not len(found) or found[best] < earned + _WORTH:
            break
        current, earned = lists[best], float(found[best])
    return current


def _neighbours(order: IntArray, n_items: int) -> IntArray:
    """All lists that differ by an exchange of two items, a move of one, or a replacement of one by another item."""
    shown, found = order.tolist(), []
    unused = sorted(set(range(n_items)).difference(shown))
    for k, item in enumerate(shown):
        for j in range(len(shown)):
            if j > k:
                found.append([*shown[:k], shown[j], *shown[k + 1 : j], item, *shown[j + 1 :]])
            if abs(j - k) > 1:
                rest = [*shown[:k], *shown[k + 1 :]]
                found.append([*rest[:j], item, *rest[j:]])
        found += [[*shown[:k], other, *shown[k + 1 :]] for other in unused]
    return np.array(found, np.int64).reshape(-1, len(shown))
