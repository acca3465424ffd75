"""Another policy in the place of a query's own, taught with what the query's log still has.

A policy that can learn from any list is given all of them. Others learn only from lists of their own making: such a
policy is run along the log, and whenever it would have shown the list that was shown, it is told what was clicked.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from clickbandit.compiling.kernel import IntArray
from clickbandit.live import records
from clickbandit.live.algorithm import Algorithms
from clickbandit.live.learner import Learner
from clickbandit.live.learners import check_sound, restore
from clickbandit.live.records import ItemsRecord, SettleRecord, StartRecord
from clickbandit.live.stores.contract import Store
from clickbandit.live.stores.rows import QueryRow


class Past(NamedTuple):
    """A list that was learned from."""

    items: list[str]
    clicks: IntArray


class Switched(NamedTuple):
    """What became of a learner."""

    learner: Learner
    records: list[bytes]
    """What was done with it, in order."""
    learned: int
    of: int
    """Lists that the log has."""


def past(store: Store, row: QueryRow, algorithms: Algorithms) -> Iterator[Past]:
    """The lists that a query's log still has, with the names of items."""
    first = snapshot = store.snapshot(row.id)
    while snapshot is not None:
        first, snapshot = snapshot, store.snapshot(row.id, before=snapshot.number)
    learner = restore(row.name, algorithms, first if first is not None and first.base else None)
    items, again = learner.items, 0
    for entry in store.log(row.id, learner.number):
        check_sound(entry, entry.records)
        for record in records.read(entry.records):
            match record:
                case StartRecord():
                    items, again = record.items, record.again or 0
                case ItemsRecord(new, gone, _):
                    items = [item for item in [*items, *new] if item not in gone]
                case SettleRecord() if again > 0:
                    again -= 1
                case SettleRecord(ranking, clicks, _):
                    yield Past([items[item] for item in ranking.tolist()], clicks)


def switch(learner: Learner, start: StartRecord, lists: Iterable[Past]) -> Switched:
    """A learner that starts afresh in the place of this one, which stays as it is, and learns from these lists."""
    made = learner.copy()
    made.start(start)
    done, learned, of = list[bytes](), 0, 0
    waiting = False
    for shown, clicks in lists:
        of += 1
        if len(shown) != made.shown or any(item not in made.index for item in shown):
            continue
        ranking = np.array([made.index[item] for item in shown], np.int64)
        if made.algorithm.learns_any:
            made.memo[:] = 0.0
        else:
            if not waiting:
                made.rank()
                done.append(records.RANK)
            waiting = not np.array_equal(made.ranking, ranking)
            if waiting:
                continue
        memo = made.memo.copy()
        made.settle(ranking, clicks, memo)
        mask = sum(1 << k for k, clicked in enumerate(clicks.tolist()) if clicked)
        done.append(records.settle(ranking.astype("<i2").tobytes(), mask, memo.tobytes()))
        learned += 1
    if waiting:
        made.void(made.ranking.copy(), made.memo.copy())
        done.append(records.void(made.ranking.astype("<i2").tobytes(), made.memo.tobytes()))
    return Switched(made, [records.text(start._replace(again=learned)), *done], learned, of)
