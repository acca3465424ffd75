"""A query's items and click models, sets of queries as JSON files, and the best list under a click model."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clickbandit.clicks._base import ClickModel, model_class
from clickbandit.compilation import specialise
from clickbandit.errors import InputError
from clickbandit.kernel import FloatArray, IntArray

FORMAT = "clickbandit/queries"
VERSION = 1
MOST_LISTS = 5_000_000
"""A problem with more lists than this is not enumerated."""
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Query:
    """A query: the items to rank for it, and how its users click."""

    query: str
    items: Sequence[str]
    models: dict[str, ClickModel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        duplicate = next((item for i, item in enumerate(self.items) if item in self.items[:i]), None)
        if duplicate is not None:
            raise InputError(f"query {self.query}: items must differ, found {duplicate!r} twice")
        for name, model in self.models.items():
            if model.n_items != len(self.items):
                raise InputError(
                    f"query {self.query}: {name} attraction must have {len(self.items)} values, one for each item, "
                    f"found {model.n_items}"
                )

    def model(self, name: str) -> ClickModel:
        """One of the query's click models, or an error that says which it has."""
        if name not in self.models:
            raise InputError(f"query {self.query} has no model {name}: it has {', '.join(self.models) or 'none'}")
        return self.models[name]


# --- files --------------------------------------------------------------------------------------------------


def load_queries(path: str | Path) -> list[Query]:
    """The queries of a JSON file, checked."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the queries file {path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"the queries file {path} is not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError(f'the queries file {path} must be a JSON object with "format": "{FORMAT}"')
    if data.get("version") != VERSION:
        raise InputError(f"the queries file {path} must have version {VERSION}, found {data.get('version')!r}")
    if not isinstance(data.get("queries"), list) or not data["queries"]:
        raise InputError(f"the queries file {path} must hold a list of queries, found none")
    queries = [_read_query(entry, number) for number, entry in enumerate(data["queries"], 1)]
    names = [query.query for query in queries]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the queries file {path} has the query {name} {names.count(name)} times")
    return queries


def save_queries(path: str | Path, queries: Iterable[Query], description: str = "") -> None:
    """Write queries as a JSON file that `load_queries` reads."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "description": description,
        "queries": [
            {
                "query": query.query,
                "items": list(query.items),
                "models": {name: _model_fields(model) for name, model in query.models.items()},
            }
            for query in queries
        ],
    }
    Path(path).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _model_fields(model: ClickModel) -> dict[str, Any]:
    return {part.name: getattr(model, part.name) for part in fields(model)}


def _read_query(entry: Any, number: int) -> Query:
    if not isinstance(entry, dict) or not isinstance(entry.get("query"), str):
        raise InputError(f'query number {number} must be an object with a text "query"')
    name = entry["query"]
    for key, kind in (("items", list), ("models", dict)):
        if not isinstance(entry.get(key), kind):
            raise InputError(f"query {name}: {key} must be given, as a JSON {'list' if kind is list else 'object'}")
    for item in entry["items"]:
        if not isinstance(item, str):
            raise InputError(f"query {name}: items must be texts, found {item!r}")
    return Query(name, entry["items"], {key: _read_model(name, key, value) for key, value in entry["models"].items()})


def _read_model(query: str, name: str, values: Any) -> ClickModel:
    try:
        kind = model_class(name)
        known = [part.name for part in fields(kind)]
        if not isinstance(values, dict):
            raise InputError(f"{name} must be an object with {', '.join(known)}")
        for key in known:
            if key not in values:
                raise InputError(f"{name}: {key} is missing")
        for key in values:
            if key not in known:
                raise InputError(f"{name}: there is no field {key}: it has {', '.join(known)}")
        return kind(**values)
    except InputError as error:
        raise InputError(f"query {query}: {error}") from error


# --- the best list ------------------------------------------------------------------------------------------


class Lists(NamedTuple):
    """Some lists of a problem, and what users do on them, a row each."""

    lists: IntArray
    clicked: FloatArray
    examined: FloatArray


def n_lists(model: ClickModel, positions: int) -> int:
    """How many different lists there are."""
    return math.perm(model.n_items, positions)


def all_lists(model: ClickModel, positions: int) -> Iterator[Lists]:
    """All lists, in lexicographic order, in pieces that fit in memory."""
    module = specialise("clickbandit.enumeration", model=model.module)
    total = n_lists(model, positions)
    for first in range(0, total, _CHUNK):
        size = min(_CHUNK, total - first)
        piece = Lists(np.empty((size, positions), np.int64), np.empty((size, positions)), np.empty((size, positions)))
        module.tabulate(model.params, model.n_items, first, *piece)
        yield piece


def best_list(model: ClickModel, positions: int) -> tuple[list[int], float]:
    """The list with the most expected clicks, and how many these are.

    The items by decreasing attraction where no list is better (to 1e-12); found by going through all lists unless
    the model knows its best list by itself.

    >>> from clickbandit import CascadeModel
    >>> best_list(CascadeModel(attraction=[0.2, 0.5, 0.1]), 2)
    ([1, 0], 0.6)
    """
    model.check_positions(positions)
    by_attraction = np.argsort(-np.asarray(model.attraction), kind="stable")[:positions].tolist()
    known = model.best_list(positions)
    if known is None:
        if n_lists(model, positions) > MOST_LISTS:
            raise InputError(
                f"{model.name} with {model.n_items} items and {positions} positions has too many lists to find the "
                f"best one: at most {MOST_LISTS:,} lists, or a CM or PBM"
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
    return known, model.reward(known)
