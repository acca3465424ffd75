"""Where the priors of an experiment come from: the order or the scores of a queries file, or a file that was fitted."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clickbandit.defaults import STRENGTH
from clickbandit.errors import InputError
from clickbandit.experiments.plan import Source
from clickbandit.priors import Prior, calibrate
from clickbandit.queries import Query, load_queries

GIVEN_ORDER, SCORES, NONE = "given-order", "scores", "none"


def read_source(text: str, strength: float | None, queries: Sequence[Query]) -> Source | None:
    """The source that is meant by `given-order`, `scores`, `none` or a queries file."""
    if text == NONE:
        if strength is not None:
            raise InputError(
                f"a prior's strength needs a prior: give --prior too, found a strength of {strength} alone"
            )
        return None
    if strength is not None and not 0 < strength < float("inf"):
        raise InputError(f"a prior's strength must be a number of examinations above 0, found {strength}")
    if text == GIVEN_ORDER:
        return GivenOrder(tuple(queries), strength or STRENGTH)
    if text == SCORES:
        return Scores(tuple(queries), strength or STRENGTH)
    if not Path(text).is_file():
        raise InputError(
            f"a prior must be {GIVEN_ORDER}, {SCORES}, {NONE} or a queries file, and there is no file {text!r}"
        )
    return Fitted(text, tuple(load_queries(text)), strength)


def _others(queries: Sequence[Query], query: Query, model: str) -> list[Query]:
    """The other queries that have this click model: what is learned from these alone is no oracle's."""
    return [other for other in queries if other.query != query.query and model in other.models]


@dataclass(frozen=True)
class GivenOrder:
    """The items in the order of the file; attraction falls along it as it does on average in its other queries."""

    queries: Sequence[Query]
    strength: float

    def prior(self, query: Query, model: str) -> Prior:
        others = [other.model(model).attraction for other in _others(self.queries, query, model)]
        n_items = len(query.items)
        by_place = [[a[place] for a in others if place < len(a)] for place in range(n_items)]
        curve = [float(np.mean(values)) for values in by_place if values]
        return Prior.from_order(range(n_items), attraction=curve or None, strength=self.strength)

    def __str__(self) -> str:
        return f"{GIVEN_ORDER}, strength {self.strength:g}"


@dataclass(frozen=True)
class Scores:
    """The scores of the file, calibrated to the attractions of its other queries."""

    queries: Sequence[Query]
    strength: float

    def prior(self, query: Query, model: str) -> Prior:
        if not query.scores:
            raise InputError(
                f"query {query.query} must have scores to start from these: add a list of them, by item"
            )
        others = [other for other in _others(self.queries, query, model) if other.scores]
        pairs = [
            (score, attraction)
            for other in others
            for score, attraction in zip(other.scores, other.model(model).attraction, strict=True)
        ]
        return Prior.from_scores(query.scores, calibration=calibrate(pairs) or None, strength=self.strength)

    def __str__(self) -> str:
        return f"{SCORES}, strength {self.strength:g}"


@dataclass(frozen=True)
class Fitted:
    """The click models of another file, by the names of queries and items."""

    path: str
    queries: Sequence[Query]
    strength: float | None

    def prior(self, query: Query, model: str) -> Prior:
        fitted = next((other for other in self.queries if other.query == query.query), None)
        if fitted is None or set(query.items) - set(fitted.items):
            missing = "it" if fitted is None else sorted(set(query.items) - set(fitted.items))[0]
            raise InputError(
                f"the prior {self.path} must have query {query.query} with its items: {missing} is not there"
            )
        number = {item: i for i, item in enumerate(fitted.items)}
        order = [number[item] for item in query.items]
        errors = [fitted.errors[model][item] for item in order] if model in fitted.errors else None
        prior = Prior.from_model(fitted.model(model).with_items(order), errors=errors)
        if self.strength is None:
            return prior
        return Prior(prior.attraction, [self.strength] * prior.n_items).with_examination(prior)

    def __str__(self) -> str:
        strength = "its standard errors" if self.strength is None else f"strength {self.strength:g}"
        return f"{Path(self.path).name}, {strength}"
