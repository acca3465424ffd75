"""What given lists, one for each query, would have earned."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.errors import InputError
from clickbandit.extras import pa
from clickbandit.intervals import watched_means, watched_sum
from clickbandit.logs import count_log, fit
from clickbandit.value.decisions import Decisions
from clickbandit.value.estimators import Estimated, cascade_dr, effective, normalised, weighted

MIN_EFFECTIVE = 100.0
"""Lists of the target's own that the log must be worth."""
MIN_CLICKS = 20.0
"""Clicks that it must be worth."""
ANY, CASCADE, BY_POSITION = "any users", "users who look from the top", "users who click by item and position"
_LEARNED = (10, 2)
"""After which parts of the log (a tenth and a half) the click model of cascade-dr is fitted again."""
_ALL = ("", "")
"""No query has this name."""
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ListEstimate:
    """What one estimator says, in clicks (or reward) per list."""

    estimator: str
    value: float | None
    """None where it is refused."""
    low: float | None
    high: float | None
    """Of a 95% interval, which holds for the log of a policy that learned from it."""
    effective: float
    """How many lists of the target's own would be as much evidence."""
    support: float
    """The mean weight, at the position where it is least: 1 but for chance, if the policy could always have shown the
    target's lists. Of rm, irm and rrm, the share of lists that are the target's."""
    right_for: str
    """Of which users it is right."""
    refused: str | None = None
    """Why nothing is said."""


@dataclass(frozen=True)
class Valuation:
    """What lists would have earned, and what those earned that were shown."""

    shown: ListEstimate
    """For the same queries."""
    estimates: list[ListEstimate]
    model: str
    """The click model of dm and cascade-dr."""
    predicted: float
    """dm: the prediction of the fitted model alone, as right as the model is. It has no interval."""
    lists: int
    """Logged lists that were used."""
    left_out: int
    """Others: no policy made them, their propensities are not known, or no list is given for their query."""
    unit: str = "clicks"
    """What is earned: clicks, or reward if that was exported."""

    def times(self, scale: float) -> "Valuation":
        """The same where everything earns `scale` times as much."""

        def larger(one: ListEstimate) -> ListEstimate:
            if one.value is None or one.low is None or one.high is None:
                return one
            return replace(one, value=scale * one.value, low=scale * one.low, high=scale * one.high)

        return replace(
            self,
            shown=larger(self.shown),
            estimates=[larger(one) for one in self.estimates],
            predicted=scale * self.predicted,
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def value_of_lists(
    decisions: Decisions, lists: Mapping[str, Sequence[str]], *, model: str = "PBM"
) -> Valuation:
    """What these lists, by query, would have earned instead of those that were shown.

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> shown = [("A", "B") if rng.random() < 0.5 else ("B", "A") for _ in range(4000)]
    >>> clicks = np.array([[float(item == "A" and rng.random() < 0.5) for item in one] for one in shown])
    >>> half = np.full((4000, 2), 0.5)
    >>> log = Decisions(["q"] * 4000, shown, {"q": frozenset("AB")}, clicks, half, half)
    >>> found = value_of_lists(log, {"q": ["A", "B"]})
    >>> [estimate.estimator for estimate in found.estimates if estimate.low < 0.5 < estimate.high]
    ['sips', 'snsips', 'iips', 'sniips', 'rips', 'snrips', 'cascade-dr', 'rm', 'irm', 'rrm']
    """
    _check(decisions, lists)
    if decisions.rewards is None:
        return _valued(decisions, lists, model)
    most = float(decisions.rewards.max()) or 1.0  # 1 is the most that an item earns in what follows
    found = _valued(replace(decisions, rewards=decisions.rewards / most), lists, model)
    return found.times(most)


def _valued(decisions: Decisions, lists: Mapping[str, Sequence[str]], model: str) -> Valuation:
    used = np.array([query in lists for query in decisions.queries])
    rows = np.flatnonzero(used).tolist()
    if len(rows) < MIN_EFFECTIVE:
        raise InputError(
            f"these lists cannot be valued from this log: it has {len(rows)} lists for their queries, and "
            f"{MIN_EFFECTIVE:,.0f} are needed"
        )
    estimates = estimate(decisions, lists, rows, model)
    if all(one.refused for one in estimates):
        raise InputError(f"these lists cannot be valued from this log: {estimates[0].refused}")
    clicks = decisions.earned[rows]
    ones = np.ones_like(clicks)
    ahead = _predictions(decisions, lists, rows, model, clicks.shape[1])
    predicted = [
        times * (ahead[query][0] - ahead[query][length : length + 1].sum())
        for (query, length), times in Counter(_strata(decisions, rows)).items()
    ]
    return Valuation(
        shown=_estimate("shown", ANY, clicks, ones, weighted(clicks, ones)),
        estimates=estimates,
        model=model,
        predicted=math.fsum(predicted) / len(rows),
        lists=len(rows),
        left_out=decisions.left_out + int((~used).sum()),
        unit=decisions.unit,
    )


def estimate(
    decisions: Decisions, lists: Mapping[str, Sequence[str]], rows: Sequence[int], model: str
) -> list[ListEstimate]:
    """What each estimator says, of some of the log."""
    clicks = decisions.earned[rows]
    alike = _alike(decisions, lists, rows)
    slate, position, cascade = _ratios(decisions, alike, rows)
    estimates = [
        _estimate(name, right_for, clicks, ratios, estimator(clicks, ratios))
        for ratios, right_for, names in (
            (slate, ANY, ("sips", "snsips")),
            (position, BY_POSITION, ("iips", "sniips")),
            (cascade, CASCADE, ("rips", "snrips")),
        )
        for name, estimator in zip(names, (weighted, normalised), strict=True)
    ]
    if (rips := next(one for one in estimates if one.estimator == "rips")).refused:
        estimates.append(replace(rips, estimator="cascade-dr"))  # for a reason that no click model changes
    else:
        rest = _rest(decisions, lists, rows, model)
        found = cascade_dr(clicks, cascade, rest, rest)
        estimates.append(_estimate("cascade-dr", CASCADE, clicks, cascade, found))
    down_to = np.logical_and.accumulate(alike, axis=1)
    numbers: dict[tuple[str, int], int] = {}
    by_stratum = np.array([numbers.setdefault(one, len(numbers)) for one in _strata(decisions, rows)])
    ends = np.bincount(by_stratum).cumsum()
    members = np.split(np.argsort(by_stratum, kind="stable"), ends[:-1])
    strata = [(own, length) for own, (_, length) in zip(members, numbers, strict=True)]
    estimates += [
        _where_shown("rm", ANY, strata, clicks.sum(axis=1, keepdims=True), down_to[:, -1:]),
        _where_shown("irm", BY_POSITION, strata, clicks, alike),
        _where_shown("rrm", CASCADE, strata, clicks, down_to),
    ]
    return estimates


def _strata(decisions: Decisions, rows: Sequence[int]) -> list[tuple[str, int]]:
    """By list: its query, and how many items it shows."""
    return [(decisions.queries[row], len(decisions.lists[row])) for row in rows]


def _check(decisions: Decisions, lists: Mapping[str, Sequence[str]]) -> None:
    if not any(query in lists for query in decisions.queries):
        raise InputError(
            f"there must be lists for queries of the log, such as {decisions.queries[0]!r}, found {sorted(lists)[:3]}"
        )
    for query, items in lists.items():
        unknown = [item for item in items if item not in decisions.candidates.get(query, items)]
        if unknown:
            raise InputError(
                f"a list must have items that the log knows, found {unknown[0]!r} for query {query!r}, which never was "
                "among the candidates"
            )
        if len(set(items)) < len(items):
            raise InputError(f"a list must have each item once, found {list(items)} for query {query!r}")


def _alike(decisions: Decisions, lists: Mapping[str, Sequence[str]], rows: Sequence[int]) -> BoolArray:
    """By position: whether the item is the target's; beyond the end of a list it is."""
    width, known = decisions.clicks.shape[1], dict[tuple[str, tuple[str, ...]], list[bool]]()
    for key in dict.fromkeys((decisions.queries[row], decisions.lists[row]) for row in rows):
        (query, shown), target = key, lists[key[0]]
        if len(target) < len(shown):
            raise InputError(
                f"a list must have as many items as were shown, {len(shown)}, found {len(target)} for query {query!r}"
            )
        same = [one == other for one, other in zip(shown, target, strict=False)]
        known[key] = same + [True] * (width - len(shown))
    return np.array([known[decisions.queries[row], decisions.lists[row]] for row in rows], bool)


def _ratios(
    decisions: Decisions, alike: BoolArray, rows: Sequence[int]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of the whole list, of each item at its position, and of the list down to there."""
    # beyond the end of a list: as at its end
    prefixes = np.minimum.accumulate(decisions.prefixes[rows], axis=1)
    cascade = np.logical_and.accumulate(alike, axis=1) / prefixes
    slate = np.repeat(cascade[:, -1:], alike.shape[1], axis=1)
    return slate, alike / decisions.propensities[rows], cascade


def _where_shown(
    name: str, right_for: str, strata: Sequence[tuple[IntArray, int]], clicks: FloatArray, counted: BoolArray
) -> ListEstimate:
    """The mean where the target's lists were shown, of each stratum by itself: right if users do not change.

    A stratum is the lists of a query of the same length: a short list says nothing of the positions below it. The
    intervals of the Q strata are added up by their shares, so each has level 1 - 0.05 / Q: then all hold at once in
    95% of logs, however strata depend on one another and shares on clicks. That is so if clicks do not decide how many
    strata there are, and only as well as the interval of one holds, which is asymptotic (`watched_means`).
    """
    value = low = high = spread = clicked = 0.0
    for rows, length in strata:
        values, known = clicks[rows, :length], counted[rows, :length]
        share, found = len(rows) / len(clicks), watched_means(values, known, 1 - 0.05 / len(strata))
        value, low, high = value + share * found.mean, low + share * found.low, high + share * found.high
        least = int(known.sum(axis=0).min())
        spread += share**2 / least if least > 0 else math.inf
        clicked += float(values[known].sum())
    worth, right_for = 1 / spread, f"{right_for}, the same all along"
    support = float(counted.mean(axis=0).min())
    if refused := _lacking(round(worth), clicked):
        return ListEstimate(name, None, None, None, worth, support, right_for, refused)
    return ListEstimate(name, value, max(low, 0.0), high, worth, support, right_for)


def _lacking(worth: float, clicked: float) -> str | None:
    """What is missing for anything to be said."""
    if worth < MIN_EFFECTIVE:
        return f"the log is worth {worth:,.0f} lists of theirs, and {MIN_EFFECTIVE:,.0f} are needed"
    if clicked < MIN_CLICKS:
        return f"the log is worth {clicked:,.0f} clicks on them, and {MIN_CLICKS:,.0f} are needed"
    return None


def _estimate(
    name: str, right_for: str, clicks: FloatArray, ratios: FloatArray, found: Estimated
) -> ListEstimate:
    value, residuals = found
    worth, support = effective(ratios), float(ratios.mean(axis=0).min())
    rewards = (ratios * clicks).sum(axis=1)
    squares = float(rewards @ rewards)
    clicked = float(rewards.sum()) ** 2 / squares if squares > 0 else 0.0
    support_high = min(watched_sum(float(c.mean()), c - c.mean())[1] for c in ratios.T)
    refused = _lacking(worth, clicked)
    if refused is None and support_high < 1:
        refused = f"the policy could not always have shown them: their mean weight is {support:.2f}, and should be 1"
    if refused is not None:
        return ListEstimate(name, None, None, None, worth, support, right_for, refused)
    low, high = watched_sum(value, residuals)
    return ListEstimate(name, value, max(low, 0.0), high, worth, support, right_for)


def _rest(
    decisions: Decisions, lists: Mapping[str, Sequence[str]], rows: Sequence[int], model: str
) -> FloatArray:
    """What is expected of the target's list from each position on, by what was learned before each list was shown."""
    rest = np.zeros((len(rows), decisions.clicks.shape[1]))
    for part in _LEARNED:
        known = len(rows) // part
        ahead = _predictions(decisions, lists, rows[:known], model, rest.shape[1])
        rest[known:] = [ahead[decisions.queries[row]] for row in rows[known:]]
    return rest


def _predictions(
    decisions: Decisions, lists: Mapping[str, Sequence[str]], rows: Sequence[int], model: str, width: int
) -> dict[str, FloatArray]:
    """By query: what a click model fitted to some of the log expects of the list from each position on."""
    shown = [list(decisions.lists[row]) for row in rows]
    clicks = decisions.clicks[rows].astype(int).tolist()
    frame = pa.table(
        {
            "query": [decisions.queries[row] for row in rows],
            "list": shown,
            "clicks": [one[: len(items)] for one, items in zip(clicks, shown, strict=True)],
        }
    )
    found = fit(count_log(frame), model)
    known = {query: set(found.items(query)) for query in found.queries}
    shared, worth = float(decisions.earned[rows].mean()), _worth(decisions, rows)
    predictions = {}
    for query in set(decisions.queries) & set(lists):
        target = list(lists[query])[:width]
        chances = np.full(len(target), shared)  # of what was never shown in the part that was fitted
        if set(target) <= known.get(query, set()):
            chances = found.model(query, target).click_probability(range(len(target)))
            chances = chances * [worth.get((query, item), worth[_ALL]) for item in target]
        ahead = np.zeros(width)
        ahead[: len(target)] = np.cumsum(chances[::-1])[::-1]
        predictions[query] = ahead
    return predictions


def _worth(decisions: Decisions, rows: Sequence[int]) -> dict[tuple[str, str], float]:
    """By query and item, what it earned for each of its clicks in some of the log; `_ALL` is of all."""
    if decisions.rewards is None:
        return {_ALL: 1.0}
    sums: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        for k, item in enumerate(decisions.lists[row]):
            one = sums.setdefault((decisions.queries[row], item), [0.0, 0.0])
            one[0] += decisions.rewards[row, k]
            one[1] += decisions.clicks[row, k]
    earned, clicked = decisions.rewards[rows].sum(), decisions.clicks[rows].sum()
    found = {key: earned / clicks for key, (earned, clicks) in sums.items() if clicks > 0}
    return {**found, _ALL: float(earned / max(clicked, 1.0))}
