"""What is known before the first click: how attractive each item should be, how sure that is, and where users look.

A policy that has `prime` starts from it; what it makes of a prior that clicks contradict is its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from clickbandit.defaults import STRENGTH
from clickbandit.documented import Documented
from clickbandit.errors import InputError, shortened
from clickbandit.intervals import student_quantile

if TYPE_CHECKING:
    from clickbandit.click_models.base import ClickModel

MAX_STRENGTH = 10_000.0
"""What a fit's standard errors may say at most: an item may have changed since."""
EXAMINATION_ERROR = 0.2
"""The standard error of log examination where a click model tells it and nothing says how sure that is."""


@dataclass(frozen=True)
class Prior(Documented):
    """What is known of a query's items, and of the page, before the first click.

    >>> prior = Prior.from_order([2, 0, 1], attraction=[0.5, 0.3, 0.1], strength=20)
    >>> prior.attraction, prior.strength, prior.order
    ((0.3, 0.1, 0.5), (20.0, 20.0, 20.0), (2, 0, 1))
    """

    attraction: Sequence[float]
    """By item: its mean attraction, how probably it is clicked when it is examined."""
    strength: Sequence[float]
    """By item: how many examinations that is worth."""
    order: Sequence[int] = ()
    """The items, the one that should stand first in front; by default by decreasing attraction."""
    examination: Sequence[Sequence[float]] = ()
    """By position k: how probably it is examined, against the first, with no click above and with the last click above
    at each position from the first to k - 1; none where nothing is known."""
    examination_error: Sequence[Sequence[float]] = ()
    """In the same form: the standard errors of the logarithms of these."""

    def __post_init__(self) -> None:
        attraction = _numbers("attraction", self.attraction, 0, 1)
        if not attraction:
            raise InputError("a prior must have an attraction for each item, found none")
        strength = _numbers("strength", self.strength, 0, math.inf)
        if len(strength) != len(attraction):
            raise InputError(
                f"a prior must have a strength for each of its {len(attraction)} items, found {len(strength)}"
            )
        by_attraction = np.argsort(-np.array(attraction), kind="stable").tolist()
        order = check_order(self.order if len(self.order) else by_attraction, len(attraction))
        rows = tuple(_numbers("examination", row, 0, math.inf) for row in self.examination)
        errors = tuple(_numbers("examination_error", row, 0, math.inf) for row in self.examination_error)
        triangle = list(range(1, len(rows) + 1))
        if [len(row) for row in rows] != triangle or [len(row) for row in errors] != triangle:
            raise InputError(
                "a prior's examination and examination_error must have a row for each position k, of k numbers, found "
                f"rows of {[len(row) for row in rows]} and {[len(row) for row in errors]}"
            )
        if any(value <= 0 for row in (strength, *rows, *errors) for value in row):
            raise InputError("a prior's strength, examination and examination_error must be above 0, found 0")
        for name, value in (
            ("attraction", attraction),
            ("strength", strength),
            ("order", order),
            ("examination", rows),
            ("examination_error", errors),
        ):
            object.__setattr__(self, name, value)

    @property
    def n_items(self) -> int:
        return len(self.attraction)

    def renumbered(self, number_of: Sequence[int]) -> Self:
        """The same prior where item i is called `number_of[i]`.

        >>> Prior.from_order([1, 0], attraction=[0.5, 0.2]).renumbered([1, 0]).order
        (0, 1)
        """
        items = np.argsort(number_of)
        return type(self)(
            attraction=np.take(self.attraction, items).tolist(),
            strength=np.take(self.strength, items).tolist(),
            order=[number_of[item] for item in self.order],
            examination=self.examination,
            examination_error=self.examination_error,
        )

    def with_examination(self, page: "Prior") -> Self:
        """The same items on a page of which another prior knows where users look."""
        return type(self)(
            self.attraction, self.strength, self.order, page.examination, page.examination_error
        )

    def beside(self, other: "Prior") -> Self:
        """What two priors of the same items say together, each by its strength; the page is that of this one.

        >>> both = Prior([0.5], [30]).beside(Prior([0.1], [10]))
        >>> both.attraction, both.strength
        ((0.4,), (40.0,))
        """
        worth, more = np.array(self.strength), np.array(other.strength)
        mean = (worth * np.array(self.attraction) + more * np.array(other.attraction)) / (worth + more)
        return type(self)(mean.round(12).tolist(), (worth + more).tolist()).with_examination(self)

    @classmethod
    def from_order(
        cls,
        order: Sequence[int],
        *,
        attraction: Sequence[float] | None = None,
        strength: float | Sequence[float] = STRENGTH,
    ) -> Self:
        """The items in an order that is thought to be good, such as that of today's page.

        `attraction` falls along it, by place; places behind its last have the same. By default it is that of
        `usual_attraction`, so that the order is what counts. `strength` is one number for all items, or one by item.
        """
        found = check_order(order, len(order) if hasattr(order, "__len__") else 0)
        curve = list(usual_attraction(len(found)) if attraction is None else attraction)
        if not curve:
            raise InputError(
                "the attraction of a prior's order must have a value for its first place, found none"
            )
        by_item = np.empty(len(found))
        by_item[list(found)] = [curve[min(place, len(curve) - 1)] for place in range(len(found))]
        return cls(by_item.tolist(), _by_item(strength, len(found)), found)

    @classmethod
    def from_scores(
        cls,
        scores: Sequence[float],
        *,
        calibration: Sequence[tuple[float, float]] | None = None,
        strength: float | Sequence[float] = STRENGTH,
    ) -> Self:
        """Items with scores, by item, of which higher ones are better.

        `calibration` has pairs of a score and the attraction that goes with it, linear in between; without one only the
        order of the scores counts, as in `from_order`.

        >>> Prior.from_scores([7, 9], calibration=[(5, 0.1), (10, 0.6)]).attraction
        (0.3, 0.5)
        """
        found = np.array(_numbers("scores", scores, -math.inf, math.inf))
        order = np.argsort(-found, kind="stable").tolist()
        if calibration is None:
            return cls.from_order(order, strength=strength)
        knots = sorted(_numbers("calibration", pair, -math.inf, math.inf) for pair in calibration)
        if {len(pair) for pair in knots} != {2}:
            raise InputError(
                "calibration must have at least one pair of score and attraction, and only pairs"
            )
        at, known = (np.array(values) for values in zip(*knots, strict=True))
        attraction = np.interp(found, at, known).round(12)
        return cls(attraction.tolist(), _by_item(strength, len(found)), order)

    @classmethod
    def from_model(cls, model: "ClickModel", *, errors: Sequence[float] | float | None = None) -> Self:
        """The attractions of a click model that was fitted to a log, and its examination if it has one by position.

        `errors` are the standard errors of the attractions, which say how many examinations each is worth; without
        them each is worth the default strength. Where a model's users do not always look at the first position, an
        item is as attractive as it is clicked there, since a prior's examination is against the first.

        >>> from clickbandit import PositionBasedModel
        >>> Prior.from_model(PositionBasedModel([0.8, 0.2], examination=[0.5, 0.25])).attraction
        (0.4, 0.1)
        """
        if not hasattr(model, "attraction"):
            raise InputError(
                f"a prior needs a click model with attractions, found {shortened(repr(model), 60)}"
            )
        first = _first_of(getattr(model, "examination", ()))
        attraction = np.clip(np.array(model.attraction) * first, 1e-3, 1 - 1e-3)
        strength: Sequence[float] = [STRENGTH] * len(attraction)
        if errors is not None:
            told = _numbers("errors", _by_item(errors, len(attraction), "errors"), 0, math.inf)
            known = np.array(told) * first
            worth = attraction * (1 - attraction) / np.maximum(known, 1e-9) ** 2 - 1
            strength = np.clip(worth, 0.1, MAX_STRENGTH).tolist()
        rows = _rows_of(getattr(model, "examination", ()))
        doubts = [[EXAMINATION_ERROR] * len(row) for row in rows]
        return cls(attraction.tolist(), strength, examination=rows, examination_error=doubts)


def _rows_of(examination: Any) -> list[list[float]]:
    """Examination by position, or by position and last click as the user browsing model has it, against the first."""
    rows = [
        list(value) if isinstance(value, (list, tuple)) else [float(value)] * (k + 1)
        for k, value in enumerate(examination)
    ]
    first = _first_of(examination)
    if not rows or [len(row) for row in rows] != list(range(1, len(rows) + 1)) or first <= 0:
        return []
    return [[max(value / first, 1e-5) for value in row] for row in rows]


def _first_of(examination: Any) -> float:
    """How probably the first position is examined; 1 where a model has no examination by position."""
    first = next(iter(examination), 1.0)
    return float(first[0] if isinstance(first, (list, tuple)) else first)


# --- what was given -----------------------------------------------------------------------------------------


def check_order(order: Sequence[int], n_items: int) -> tuple[int, ...]:
    """The numbers of all items in some order, or a sentence about what else it is."""
    try:
        found = tuple(int(item) for item in order)
    except (TypeError, ValueError):
        found = ()
    if not found and n_items == 0:
        raise InputError(
            f"a prior's order must be a list of the numbers of items, found {shortened(repr(order), 60)}"
        )
    if sorted(found) != list(range(n_items)) or not found or list(found) != list(order):
        raise InputError(
            f"a prior's order must name each item from 0 to {n_items - 1} once, found {shortened(repr(order), 60)}"
        )
    return found


def _numbers(name: str, values: Sequence[float], low: float, high: float) -> tuple[float, ...]:
    try:
        found = tuple(float(n) if isinstance(n, Real) and type(n) is not bool else math.nan for n in values)
    except TypeError:
        found = (math.nan,)
    if not all(low <= value <= high and math.isfinite(value) for value in found):
        least = "" if math.isinf(low) else f" from {low}"
        expected = f"numbers from {low} to {high}" if math.isfinite(high) else f"finite numbers{least}"
        raise InputError(f"a prior's {name} must be {expected}, found {shortened(repr(values), 60)}")
    return found


def _by_item(value: float | Sequence[float], n_items: int, name: str = "strength") -> list[float]:
    """A value for each item, of which there may be one for all."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return [value] * n_items  # type: ignore[list-item]
    if len(value) != n_items:
        raise InputError(f"a prior must have {name} for each of its {n_items} items, found {len(value)}")
    return list(value)


# --- curves -------------------------------------------------------------------------------------------------


def usual_attraction(n_items: int) -> list[float]:
    """How attraction falls along a good order where nobody has measured it: 0.4 over the root of the place.

    >>> [round(value, 2) for value in usual_attraction(4)]
    [0.4, 0.28, 0.23, 0.2]
    """
    return [0.4 / math.sqrt(place) for place in range(1, n_items + 1)]


class Curve(NamedTuple):
    """Attraction by place in the given order, over many queries, with a 95% interval."""

    mean: list[float]
    low: list[float]
    high: list[float]


SPREAD = 20.0
"""How many examinations the attraction of one query's item is worth where the curve is estimated: queries differ, so
that no single one counts for more, however often it was shown."""


def estimate_curve(clicks: Any, exposures: Any) -> Curve | None:
    """How attraction falls along the given order, from many queries: a row each, by place the clicks on the item there
    and how often it was examined; None without any.

    Each query counts by m / (m + 20) for m examinations. The mean is made to fall (pool adjacent violators); the
    interval is Student's for the weighted mean at the place, from the differences between queries.

    >>> curve = estimate_curve([[40, 5], [30, 20]], [[100, 100], [100, 100]])
    >>> [round(value, 3) for value in curve.mean]
    [0.35, 0.125]
    """
    clicks, exposures = np.atleast_2d(np.asarray(clicks, float)), np.atleast_2d(np.asarray(exposures, float))
    weight = exposures / (exposures + SPREAD)
    total = weight.sum(axis=0)
    seen = int((np.cumprod(total > 0.5)).sum())
    if seen == 0:
        return None
    weight, total = weight[:, :seen], total[:seen]
    rate = np.minimum(1, clicks[:, :seen] / np.maximum(exposures[:, :seen], 1e-9))
    mean = (weight * rate).sum(axis=0) / total
    # between queries, with one more that is as far from the mean as usual, since there may be few
    square = (weight**2 * (rate - mean) ** 2).sum(axis=0) + mean * (1 - mean) / SPREAD
    n_queries = total**2 / (weight**2).sum(axis=0)
    reach = [student_quantile(max(1, round(n) - 1)) for n in n_queries]
    radius = reach * np.sqrt(square) / total
    falling = falling_mean(mean, total)
    return Curve(
        falling.tolist(),
        np.clip(falling - radius, 0, 1).tolist(),
        np.clip(falling + radius, 0, 1).tolist(),
    )


def falling_mean(values: Any, weights: Any) -> Any:
    """The nearest values that never rise, by weighted least squares: neighbours that rise share their mean.

    >>> falling_mean([0.5, 0.1, 0.3], [1, 1, 1]).tolist()
    [0.5, 0.2, 0.2]
    """
    pools: list[list[float]] = []
    for value, weight in zip(values, weights, strict=True):
        pools.append([float(value), float(weight), 1])
        while len(pools) > 1 and pools[-2][0] < pools[-1][0]:
            (upper, more, n), (lower, less, m) = pools[-2], pools[-1]
            pools[-2:] = [[(upper * more + lower * less) / (more + less), more + less, n + m]]
    return np.array([value for value, _, n in pools for _ in range(int(n))])


def calibrate(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The attraction that goes with each score, which never falls where the score rises: from many pairs of both.

    >>> calibrate([(1, 0.1), (2, 0.5), (3, 0.3), (4, 0.8)])
    [(1.0, 0.1), (2.0, 0.4), (3.0, 0.4), (4.0, 0.8)]
    """
    if not pairs:
        return []
    scores, attractions = (np.array(values, float) for values in zip(*pairs, strict=True))
    knots, which = np.unique(scores, return_inverse=True)
    weights = np.bincount(which)
    means = np.bincount(which, attractions) / weights
    rising = falling_mean(means[::-1], weights[::-1])[::-1]
    return list(zip(knots.tolist(), rising.tolist(), strict=True))


# --- what one query teaches another -------------------------------------------------------------------------


class Lesson(NamedTuple):
    """What one query tells of the page that it stands on."""

    clicks: Sequence[float]
    """By item."""
    examined: Sequence[float]
    """By item: how often."""
    log_examination: Sequence[Sequence[float]] = ()
    """In the form of `Prior.examination`: the logarithms, of what clicks alone say."""
    precision: Sequence[Sequence[float]] = ()
    """One over the squares of the standard errors of these; 0 where clicks say nothing."""


def learn_scores(scores: Sequence[Sequence[float]], lessons: Sequence[Lesson]) -> list[tuple[float, float]]:
    """What scores are worth, from queries with theirs, by item; items that were never examined say nothing."""
    pairs = [
        (score, min(1.0, clicks / examined))
        for row, lesson in zip(scores, lessons, strict=True)
        for score, clicks, examined in zip(row, lesson.clicks, lesson.examined, strict=True)
        if examined >= 1
    ]
    return calibrate(pairs)


MIN_EXAMINATION_ERROR = 0.05
"""However many queries tell it: pages differ a little from query to query."""
UNKNOWN_ERROR = 10.0


def shared_examination(lessons: Sequence[Lesson]) -> tuple[list[list[float]], list[list[float]]]:
    """The examination that many queries tell together, and its errors, as `Prior` takes them; none without any.

    >>> lesson = Lesson([], [], [[0.0], [-0.5, -0.7]], [[math.inf], [25.0, 0.0]])
    >>> shared_examination([lesson, lesson])
    ([[1.0], [0.607, 1.0]], [[0.05], [0.141, 10.0]])
    """
    told = [lesson for lesson in lessons if lesson.log_examination]
    n_positions = max((len(lesson.precision) for lesson in told), default=0)
    rows: list[list[float]] = []
    errors: list[list[float]] = []
    for k in range(n_positions):
        mine = [lesson for lesson in told if k < len(lesson.precision)]
        weights = np.array([lesson.precision[k] for lesson in mine]) if k else np.full((1, 1), math.inf)
        total = weights.sum(axis=0)
        known = np.isfinite(total) & (total > UNKNOWN_ERROR**-2)
        mean = np.zeros(k + 1)
        if k:
            sums = (weights * np.array([lesson.log_examination[k] for lesson in mine])).sum(axis=0)
            mean[known] = sums[known] / total[known]
        error = np.where(np.isinf(total), MIN_EXAMINATION_ERROR, UNKNOWN_ERROR)
        error[known] = np.maximum(MIN_EXAMINATION_ERROR, total[known] ** -0.5)
        rows.append(np.exp(mean).round(3).clip(1e-3).tolist())
        errors.append(error.round(3).tolist())
    return rows, errors
