"""A query's items and click models, sets of queries as JSON files, and the best list under a click model."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from clickbandit.click_models.base import RATES, ClickModel, model_class, model_names, refuse_rate
from clickbandit.compiling.kernel import FloatArray, IntArray
from clickbandit.compiling.specialise import specialise
from clickbandit.errors import InputError, shortened

FORMAT = "clickbandit/queries"
VERSION = 1
MAX_LISTS = 5_000_000
"""A problem with more lists than this is not enumerated."""
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Query:
    """A query: the items to rank for it, and how its users click."""

    query: str
    items: Sequence[str]
    models: dict[str, ClickModel] = field(default_factory=dict)
    scores: Sequence[float] = ()
    """By item: what today's ranking is by, if that is known; higher ones are better."""
    features: Sequence[Sequence[float]] = ()
    """By item: numbers that mean the same for all items and queries, if there are any."""
    errors: dict[str, Sequence[float]] = field(default_factory=dict)
    """By click model: the standard errors of its attractions by item, if these were fitted."""

    def __post_init__(self) -> None:
        if len(self.items) == 0:
            raise InputError(f"query {self.query}: items must name at least one item, found none")
        duplicate = _first_duplicate(self.items)
        if duplicate is not None:
            raise InputError(f"query {self.query}: items must differ, found {duplicate!r} twice")
        object.__setattr__(self, "scores", tuple(self.scores))
        if self.scores:
            _check_length(f"query {self.query}: scores", len(self.scores), len(self.items))
        if len(self.features):
            _check_length(f"query {self.query}: features", len(self.features), len(self.items))
            lengths = {len(row) for row in self.features}
            if len(lengths) > 1:
                raise InputError(
                    f"query {self.query}: features must be the same number for each item, found {sorted(lengths)}"
                )
        for name, model in self.models.items():
            for part in model.by_item[:1]:
                _check_length(f"query {self.query}: {name}: {part}", model.n_items, len(self.items))
        for name, errors in self.errors.items():
            _check_length(f"query {self.query}: errors of {name}", len(errors), len(self.items))

    def model(self, name: str) -> ClickModel:
        """One of the query's click models, or an error that says which it has."""
        if name not in self.models:
            raise InputError(
                f"query {self.query} has no model {name}: it has {', '.join(self.models) or 'none'}"
            )
        return self.models[name]


def _first_duplicate(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _check_length(what: str, found: int, n_items: int) -> None:
    if found != n_items:
        raise InputError(f"{what} must have a value for each of the {n_items} items, found {found}")


# --- files --------------------------------------------------------------------------------------------------


EXAMPLE = "example"
"""The name of the queries that come with the package, which stands for their file wherever one is expected."""


def load_queries(path: str | Path) -> list[Query]:
    """The queries of a JSON file, checked; `example` names those that come with the package.

    >>> [query.query for query in load_queries("example")]
    ['running shoes', 'pasta recipe', 'weekend trip']
    """
    file = Path(path)
    if str(path) == EXAMPLE and not file.exists():
        file = Path(__file__).with_name("example_queries.json")
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the queries file {path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"the queries file {path} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise InputError(f"the queries file {path} must be a JSON object, found {_short(data)}")
    if data.get("format") != FORMAT:
        raise InputError(
            f'the queries file {path} must have format "{FORMAT}", found {_short(data.get("format"))}'
        )
    if data.get("version") != VERSION:
        raise InputError(
            f"the queries file {path} must have version {VERSION}, found {_short(data.get('version'))}"
        )
    if not isinstance(data.get("queries"), list) or not data["queries"]:
        raise InputError(
            f"the queries file {path} must have a list of queries, found {_short(data.get('queries'))}"
        )
    queries = [_read_query(entry, number) for number, entry in enumerate(data["queries"], 1)]
    duplicate = _first_duplicate(query.query for query in queries)
    if duplicate is not None:
        raise InputError(f"query {duplicate} appears twice in the queries file {path}: give each query once")
    return queries


def save_queries(path: str | Path, queries: Iterable[Query], description: str = "") -> None:
    """Write queries as a JSON file that `load_queries` reads."""
    queries = list(queries)
    duplicate = _first_duplicate(query.query for query in queries)
    if duplicate is not None:
        raise InputError(f"query {duplicate} appears twice among the queries to save: give each query once")
    data = {
        "format": FORMAT,
        "version": VERSION,
        "description": description,
        "queries": [
            {
                "query": query.query,
                "items": list(query.items),
                **({"scores": list(query.scores)} if query.scores else {}),
                "models": {
                    name: _model_fields(query.query, name, model) for name, model in query.models.items()
                },
                **(
                    {"errors": {name: list(row) for name, row in query.errors.items()}}
                    if query.errors
                    else {}
                ),
            }
            for query in queries
        ],
    }
    text = json.dumps(data, indent=1) + "\n"
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"the queries file {path} cannot be written: {error.strerror or error}") from error


def _model_fields(query: str, name: str, model: ClickModel) -> dict[str, Any]:
    known = [*model_names(), *RATES]
    if name not in known or type(model) is not model_class(name):
        raise InputError(
            f"query {query}: {name} is a {type(model).__name__}, which a queries file cannot hold under this "
            f"name: save one of {', '.join(known)}"
        )
    return {part.name: getattr(model, part.name) for part in fields(model)}


def _read_query(entry: Any, number: int) -> Query:
    if not isinstance(entry, dict):
        raise InputError(f"query number {number} must be a JSON object, found {_short(entry)}")
    name = entry.get("query")
    if not isinstance(name, str):
        raise InputError(f"query number {number}: query must be a text, its name, found {_short(name)}")
    for key, kind in (("items", list), ("models", dict)):
        if not isinstance(entry.get(key), kind):
            expected = "list" if kind is list else "object"
            raise InputError(f"query {name}: {key} must be a JSON {expected}, found {_short(entry.get(key))}")
    for item in entry["items"]:
        if not isinstance(item, str):
            raise InputError(f"query {name}: items must be texts, found {_short(item)}")
    scores = entry.get("scores", [])
    if not isinstance(scores, list) or not all(type(score) in (int, float) for score in scores):
        raise InputError(f"query {name}: scores must be a list of numbers, found {_short(scores)}")
    query = Query(name, entry["items"], scores=scores, errors=_read_errors(name, entry.get("errors", {})))
    for key, values in entry["models"].items():
        query.models[key] = _read_model(query, key, values)
    return query


def _read_errors(name: str, errors: Any) -> dict[str, Sequence[float]]:
    if not isinstance(errors, dict):
        raise InputError(f"query {name}: errors must be a JSON object, found {_short(errors)}")
    for model, values in errors.items():
        known = isinstance(values, list) and all(type(value) in (int, float) for value in values)
        if not known or not all(0 <= value < math.inf for value in values):
            raise InputError(
                f"query {name}: errors of {model} must be a list of numbers of 0 or more, found {_short(values)}"
            )
    return errors


def _read_model(query: Query, name: str, values: Any) -> ClickModel:
    try:
        kind = model_class(name)
        known = [part.name for part in fields(kind)]
        if not isinstance(values, dict):
            raise InputError(f"{name} must be an object with {', '.join(known)}, found {_short(values)}")
        for key in known:
            if key not in values:
                raise InputError(f"{name}: {key} is missing")
        for key in values:
            if key not in known:
                raise InputError(f"{name}: there is no field {key}: it has {', '.join(known)}")
        for key in known:
            _refuse_booleans(f"{name}: {key}", values[key])
        for part in kind.by_item[:1]:
            if isinstance(values[part], list):
                # found here, before the model measures its other fields by this one
                _check_length(f"{name}: {part}", len(values[part]), len(query.items))
        return kind(**values)
    except InputError as error:
        raise InputError(f"query {query.query}: {error}") from error


def _refuse_booleans(what: str, value: Any) -> None:
    """JSON's true and false would pass as 1 and 0."""
    if isinstance(value, bool):
        raise InputError(f"{what} must hold probabilities between 0 and 1, found {json.dumps(value)}")
    for entry in value if isinstance(value, list) else ():
        _refuse_booleans(what, entry)


def _short(value: Any) -> str:
    """A value from a file as it may stand in a sentence."""
    return "none" if value is None else shortened(json.dumps(value), 60)


# --- the best list ------------------------------------------------------------------------------------------


class Lists(NamedTuple):
    """Some lists of a problem, and what users do on them, a row each."""

    lists: IntArray
    clicked: FloatArray
    examined: FloatArray


def n_lists(model: ClickModel, positions: int) -> int:
    """How many different lists there are."""
    return math.perm(model.n_items, positions)


def evaluate(model: ClickModel, lists: IntArray) -> Lists:
    """What users do on these lists, a row each, in compiled code."""
    model.check_positions(lists.shape[1])
    module = specialise("clickbandit.enumeration", model=vars(model.functions), sources=model.sources)
    lists = np.ascontiguousarray(lists)  # in one layout, as each would be compiled by itself
    result = Lists(lists, np.empty(lists.shape), np.empty(lists.shape))
    module.evaluate(model.params, *result)
    return result


def all_lists(model: ClickModel, positions: int) -> Iterator[Lists]:
    """All lists, in lexicographic order, in pieces that fit in memory."""
    total = n_lists(model, positions)
    for first in range(0, total, _CHUNK):
        numbers = np.arange(first, min(first + _CHUNK, total))
        yield evaluate(model, _numbered_lists(numbers, model.n_items, positions))


def _numbered_lists(numbers: IntArray, n_items: int, positions: int) -> IntArray:
    """The lists with these numbers in lexicographic order."""
    lists = np.empty((len(numbers), positions), np.int64)
    for k in range(positions - 1, -1, -1):  # the digits of the number, in a mixed base
        numbers, lists[:, k] = np.divmod(numbers, n_items - k)
    for k in range(positions - 2, -1, -1):  # a digit is the rank of the item among those not above it
        lists[:, k + 1 :] += lists[:, k + 1 :] >= lists[:, k : k + 1]
    return lists


Against = Literal["clicks", "attraction"]
"""What regret is against: the list with the most expected clicks, or the items by decreasing attraction."""
AGAINST: dict[Against, str] = {
    "clicks": "the list with the most expected clicks",
    "attraction": "the list of the items by decreasing attraction",
}
"""The same in words. In the CM and the PBM these lists are equally good; in other models the first may be better."""


def reference_list(model: ClickModel, positions: int, against: Against) -> tuple[list[int], float]:
    """The list that regret is against, and its expected number of clicks.

    >>> from clickbandit import DynamicBayesianModel
    >>> users = DynamicBayesianModel(attraction=[0.5, 0.4], satisfaction=[1.0, 0.0], continuation=1.0)
    >>> reference_list(users, 2, "clicks")
    ([1, 0], 0.9)
    >>> reference_list(users, 2, "attraction")
    ([0, 1], 0.7)
    """
    if against not in AGAINST:
        raise InputError(f"against must be {' or '.join(AGAINST)}, found {against!r}")
    if against == "clicks":
        return best_list(model, positions)
    refuse_rate(model)
    model.check_positions(positions)
    ranking = model.by_attraction()[:positions]
    return ranking, model.reward(ranking)


def best_list(model: ClickModel, positions: int) -> tuple[list[int], float]:
    """The list with the most expected clicks, and how many these are.

    The items by decreasing attraction where no list is better (to 1e-12); found by going through all lists
    unless the model knows its best list by itself.

    >>> from clickbandit import CascadeModel
    >>> best_list(CascadeModel(attraction=[0.2, 0.5, 0.1]), 2)
    ([1, 0], 0.6)
    """
    ranking, reward = _best_list(model, positions)
    return list(ranking), reward


@lru_cache(maxsize=10_000)
def _best_list(model: ClickModel, positions: int) -> tuple[tuple[int, ...], float]:
    refuse_rate(model)
    model.check_positions(positions)
    by_attraction = model.by_attraction()[:positions]
    known = model.best_list(positions)
    if known is None:
        if n_lists(model, positions) > MAX_LISTS:
            raise InputError(
                f"{model.name} with {model.n_items} items and {positions} positions has too many lists to find "
                f"the best one: at most {MAX_LISTS:,} can be gone through; show fewer positions or rank fewer items"
            )
        highest = -1.0
        for piece in all_lists(model, positions):
            reward = piece.clicked.sum(axis=1)
            if reward.max() > highest:
                highest = float(reward.max())
                known = piece.lists[reward.argmax()].tolist()
        assert known is not None
    if model.reward(by_attraction) >= model.reward(known) - 1e-12:
        known = by_attraction
    return tuple(known), model.reward(known)
