"""The best list known of each query, and how sure its policy is of it, read from the store concurrently."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace

from clickbandit.live.algorithm import Algorithms
from clickbandit.live.comparison import certainty, is_early
from clickbandit.live.learner import Learner
from clickbandit.live.learners import replay, restore
from clickbandit.live.records import Damaged
from clickbandit.live.stores.reading import Reader
from clickbandit.live.stores.rows import QueryRow
from clickbandit.live.values import QuerySummary, StoreError
from clickbandit.live.views import summary

_SLICE = 1000
"""Rows of the log that are read at once."""

log = logging.getLogger("clickbandit.live")


def best_lists(reader: Reader, algorithms: Algorithms) -> Iterator[QuerySummary]:
    """Every query of a store with its best list, in the order in which they were made."""
    id = -1
    while (found := reader.next_query(id)) is not None:
        id, name = found
        of_query = reader.query(name)
        if of_query is not None:  # unless it was deleted at this very moment
            yield _with_best(reader, of_query[0], algorithms)


def best_included(reader: Reader, found: QuerySummary, algorithms: Algorithms) -> QuerySummary:
    """A query with its best list."""
    of_query = reader.query(found.query)
    return found if of_query is None else _with_best(reader, of_query[0], algorithms)


def _with_best(reader: Reader, row: QueryRow, algorithms: Algorithms) -> QuerySummary:
    found = summary(row)
    if row.frozen is not None:
        found = replace(found, best=json.loads(row.frozen))
    try:
        learner = _learner(reader, row, algorithms)
        best = learner.best()
        if row.frozen is None or best == found.best:
            sure = None if is_early(found) else certainty(learner.describe(), best)
            found = replace(found, best=best, certainty=sure)
    except StoreError:
        raise
    except Exception as error:  # it is damaged, or its policy is gone, or has another state now
        log.error("what was learned about query %r with %s cannot be loaded: %s", row.name, row.policy, error)
    return found


def _learner(reader: Reader, row: QueryRow, algorithms: Algorithms) -> Learner:
    """A query's learner as of its last record, from its last snapshot, or from the first if that is damaged."""
    try:
        return _loaded(reader, row, algorithms, row.snapshot - 1)
    except Damaged:
        return _loaded(reader, row, algorithms, -1)


def _loaded(reader: Reader, row: QueryRow, algorithms: Algorithms, after: int) -> Learner:
    learner = restore(row.name, algorithms, reader.snapshot(row.id, after))
    while entries := list(reader.log(row.id, learner.number, _SLICE)):
        for entry in entries:
            replay(learner, entry)
    if learner.number < row.number:
        raise Damaged(f"the log must go to record {row.number}, found {learner.number}")
    return learner
