"""What one query teaches another: where users look on this page, how attraction falls along the given order, and what
scores are worth. A query takes it once, when it starts, as a prior that its first record holds; replay needs no more.
"""

import json
import logging
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from clickbandit.errors import InputError
from clickbandit.features import Ridge
from clickbandit.live.algorithm import LiveAlgorithm
from clickbandit.live.settings import RankerSettings
from clickbandit.live.told import MAX_FEATURE, NUMBER_BYTES, Told
from clickbandit.priors import (
    Curve,
    Lesson,
    Prior,
    estimate_curve,
    learn_scores,
    shared_examination,
    usual_attraction,
)
from clickbandit.queries import Query, load_queries

MAX_LESSONS = 500
"""Queries that are learned from, those that changed last."""
MIN_LESSONS = 8
"""This many must teach before a curve or a calibration is taken for more than what one would guess."""
_REFIT = 16
"""What is known, and what features are worth, is recomputed once one in this many lessons is new."""
_MAX_NUMBERS = 500_000
"""Features that are computed with, of the lessons that came last: nobody waits long for it."""
NO_STRENGTH = 1e-6
"""Of an item of which a file says nothing."""
REFRESH = 60_000
"""Milliseconds after which the store is asked for the lessons of other processes."""

log = logging.getLogger("clickbandit.live")


class Taught(NamedTuple):
    """One query's lesson, as it is stored."""

    lesson: Lesson
    in_order: bool
    """Whether its items are still those that were given, in that order."""
    told: Told = Told()

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        lesson = self.lesson
        rows = (lesson.clicks, lesson.examined, *lesson.log_examination, *lesson.precision)
        return self.told.size + NUMBER_BYTES * sum(map(len, rows)) + 1000

    def to_bytes(self) -> bytes:
        lesson = _rounded(self.lesson._asdict())
        return json.dumps({**lesson, "in_order": self.in_order, **self.told.given()}).encode()

    @classmethod
    def from_bytes(cls, written: bytes) -> "Taught":
        values = json.loads(written)
        in_order = values.pop("in_order")
        told = Told(values.pop("scores", None) or None, values.pop("features", None))
        values["precision"] = [[np.inf if one is None else one for one in row] for row in values["precision"]]
        return cls(Lesson(**values), in_order, told)


def _rounded(value: Any) -> Any:
    """With four digits behind the point, and None for what is infinite, which JSON has no word for."""
    if isinstance(value, Mapping):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(part) for part in value]
    if isinstance(value, float):
        return round(value, 4) if np.isfinite(value) else None
    return value


class Shared:
    """What is known of the page, from the lessons of all queries."""

    def __init__(self, settings: RankerSettings, max_bytes: int = 2**26) -> None:
        self._settings = settings
        self._max_bytes = max_bytes
        self._lessons: OrderedDict[int, Taught] = OrderedDict()
        self.n_bytes = 0
        """About how many these take."""
        self._n_added = 0
        self._read_at: int | None = None
        self._known: tuple[Any, ...] | None = None
        """Curve, examination and calibration."""
        self._known_until = 0
        """How many lessons may have come before these are looked at again."""
        self._ridges: dict[int, tuple[int, Ridge | None]] = {}
        """By the number of features: what they are worth, and after how many more lessons that is to be looked at."""
        self._fitted: dict[str, Query] = {}
        if settings.prior not in ("none", "given-order", "scores"):
            self._fitted = {query.query: query for query in load_queries(settings.prior)}

    def add(self, query: int, taught: Taught) -> None:
        before = self._lessons.pop(query, None)
        self._lessons[query] = taught
        self.n_bytes += taught.size - (0 if before is None else before.size)
        while len(self._lessons) > MAX_LESSONS or (self.n_bytes > self._max_bytes and len(self._lessons) > 1):
            self.n_bytes -= self._lessons.popitem(last=False)[1].size
        self._n_added += 1

    def is_stale(self, now: int) -> bool:
        return self._read_at is None or not 0 <= now - self._read_at < REFRESH

    def refresh(self, stored: Iterable[tuple[int, bytes]], now: int) -> None:
        """Take over what the store has."""
        self._read_at = now
        for query, written in stored:
            self.add(query, Taught.from_bytes(written))

    # --- what is known --------------------------------------------------------------------------------------

    @property
    def _look_again(self) -> int:
        """How many lessons will have come when enough of them are new."""
        return self._n_added + 1 + len(self._lessons) // _REFIT

    def known(
        self,
    ) -> tuple[Curve | None, tuple[list[list[float]], list[list[float]]], list[tuple[float, float]]]:
        """The curve by given place, the examination with its errors, and the calibration of scores."""
        if self._known is None or self._n_added >= self._known_until:
            self._known_until = self._look_again
            lessons = list(self._lessons.values())
            ordered = [one.lesson for one in lessons if one.in_order]
            curve = None
            if len(ordered) >= MIN_LESSONS:
                longest = max(len(one.clicks) for one in ordered)
                clicks, examined = (
                    [[*getattr(one, name), *[0.0] * (longest - len(one.clicks))] for one in ordered]
                    for name in ("clicks", "examined")
                )
                curve = estimate_curve(clicks, examined)
            scored = [(one.told.scores or (), one.lesson) for one in lessons]
            scored = [(scores, lesson) for scores, lesson in scored if len(scores) == len(lesson.clicks) > 0]
            calibration = learn_scores(*zip(*scored, strict=True)) if len(scored) >= MIN_LESSONS else []
            self._known = curve, shared_examination([one.lesson for one in lessons]), calibration
        return self._known

    def by_features(self, features: Sequence[Sequence[float]]) -> Prior | None:
        """What items with these features are expected to be, from the lessons of queries with as many; None until there
        are enough of them, or where nothing can be computed from theirs."""
        n_features = len(features[0])
        try:
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                again, ridge = self._ridges.get(n_features, (0, None))
                if self._n_added >= again:
                    ridge = self._ridge(n_features)
                    self._ridges[n_features] = self._look_again, ridge
                return None if ridge is None else ridge.prior(_with_one(features))
        except (np.linalg.LinAlgError, FloatingPointError, InputError):
            log.exception("nothing can be learned from %d features, until another query teaches", n_features)
            self._ridges[n_features] = self._n_added + 1, None
            return None

    def _ridge(self, n_features: int) -> Ridge | None:
        """From the lessons of queries with `n_features` features, if there are enough of them."""
        ridge, found, numbers = Ridge(n_features + 1), 0, 0
        for one in reversed(self._lessons.values()):
            rows, lesson = one.told.features or (), one.lesson
            if not rows or len(rows) != len(lesson.clicks) or len(rows[0]) != n_features:
                continue
            x = _with_one(rows)
            if not np.abs(x).max() <= MAX_FEATURE:  # older stores have any, even no number
                continue
            found += 1
            numbers += x.size
            if numbers > _MAX_NUMBERS and found > MIN_LESSONS:
                break
            ridge.add(x, lesson.clicks, lesson.examined)
        return ridge if found >= MIN_LESSONS else None

    def attraction(self, place: int) -> float:
        """What is expected of the item at a place, from 0, of the given order."""
        curve, usual = self.known()[0], usual_attraction(place + 1)
        if curve is None:
            return usual[place]
        last = min(place, len(curve.mean) - 1)  # places of which nobody told fall as is usual
        return curve.mean[last] * usual[place] / usual[last]

    def prior(self, algorithm: LiveAlgorithm, query: str, items: Sequence[str], told: Told) -> Prior | None:
        """What a query starts from, if its policy can start from something: scores, features, a file or the order."""
        if algorithm.policy.algorithm.prime is None or (self._settings.prior == "none" and told == Told()):
            return None
        strength = self._settings.prior_strength
        _, (rows, errors), calibration = self.known()
        featured = None if told.features is None else self.by_features(told.features)
        if told.scores is not None:
            prior = Prior.from_scores(told.scores, calibration=calibration or None, strength=strength)
        elif featured is not None:
            prior = featured
        elif self._settings.prior == "none":
            return None
        elif query in self._fitted:
            prior = self._from_file(query, items)
        else:
            curve = [self.attraction(place) for place in range(len(items))]
            prior = Prior.from_order(range(len(items)), attraction=curve, strength=strength)
        if len(prior.examination) == 0 and rows:
            prior = Prior(prior.attraction, prior.strength, prior.order, rows, errors)
        return prior

    def _from_file(self, query: str, items: Sequence[str]) -> Prior:
        """The first click model that a file has for the query, as sure as its standard errors where it has them, with
        what is usual at an item's place, which is all that is expected of items that it has not."""
        fitted = self._fitted[query]
        if not fitted.models:
            raise InputError(
                f"the prior {self._settings.prior} must have a click model for query {query}, found none"
            )
        name, model = next(iter(fitted.models.items()))
        errors = fitted.errors.get(name)
        found = Prior.from_model(model, errors=errors)
        number = {item: i for i, item in enumerate(fitted.items)}
        usual = [self.as_usual(place) for place in range(len(items))]
        known = [
            (
                found.attraction[number[item]],
                self._settings.prior_strength if errors is None else found.strength[number[item]],
            )
            if item in number
            else (usual[place][0], NO_STRENGTH)
            for place, item in enumerate(items)
        ]
        told = Prior(*zip(*known, strict=True)).with_examination(found)
        return told.beside(Prior(*zip(*usual, strict=True)))

    def as_usual(self, place: int) -> tuple[float, float]:
        """The attraction of an item of which only its place is known, worth the examinations that bring one click."""
        attraction = self.attraction(place)
        return attraction, 1 / max(attraction, 1e-3)

    def expected(self, new: Sequence[str], items: Sequence[str], told: Told) -> list[tuple[float, float]]:
        """What is expected of new items among those of a request, and what that is worth."""
        calibration = self.known()[2]
        featured = None if told.features is None else self.by_features(told.features)
        if featured is not None:
            found = dict(zip(items, zip(featured.attraction, featured.strength, strict=True), strict=True))
            return [found[item] for item in new]
        if told.scores is not None and calibration:
            prior = Prior.from_scores(told.scores, calibration=calibration)
            by_name = dict(zip(items, prior.attraction, strict=True))
            return [(by_name[item], 1 / max(by_name[item], 1e-3)) for item in new]
        return [self.as_usual(items.index(item)) for item in new]

    def view(self) -> dict[str, Any]:
        """For people: the curve with its interval, and where users look with no click above."""
        curve, (rows, errors), _ = self.known()
        told: dict[str, Any] = {"queries": len(self._lessons), "curve": [], "examination": []}
        if curve is not None:
            told["curve"] = [
                {"position": place + 1, "estimate": mean, "low": low, "high": high}
                for place, (mean, low, high) in enumerate(zip(*curve, strict=True))
            ]
        for k, (row, error) in enumerate(zip(rows, errors, strict=True)):
            spread = math.exp(1.96 * error[0]) if k else 1.0
            low, high = min(1.0, row[0] / spread), min(1.0, row[0] * spread)
            told["examination"].append(
                {"position": k + 1, "estimate": min(1.0, row[0]), "low": low, "high": high}
            )
        return told


def _with_one(features: Sequence[Sequence[float]]) -> Any:
    """Each row with a 1 in front, so that what all items have in common is learned too."""
    return np.insert(np.array(features, float), 0, 1.0, axis=1)


def as_record(prior: Prior) -> dict[str, Any]:
    """A prior as a record holds it."""
    return {
        "attraction": list(prior.attraction),
        "strength": list(prior.strength),
        "order": list(prior.order),
        "examination": [list(row) for row in prior.examination],
        "examination_error": [list(row) for row in prior.examination_error],
    }
