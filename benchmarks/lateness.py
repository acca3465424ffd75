"""When a service learned from which list, read from its log, and simulated runs that learn at just these times."""

import sqlite3
from collections import deque
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clickbandit import ClickModel, best_list
from clickbandit.compiling.kernel import IntArray, interpreted
from clickbandit.live.algorithm import LiveAlgorithm
from clickbandit.live.records import RankRecord, SettleRecord, VoidRecord, read
from clickbandit.live.stores.rows import POLICY, VOID

SHOW, SHOW_IN_VAIN, LEARN, GIVE_BACK = range(4)
"""A list that counts, and one that will be void; the oldest that waits is learned from, and made void."""


class Lateness(NamedTuple):
    """What happened to the lists of a query, in order."""

    events: npt.NDArray[np.int8]

    @property
    def waiting(self) -> IntArray:
        """How many lists that count were not learned from yet, at each of them."""
        shown, learned = (np.cumsum(self.events == kind) for kind in (SHOW, LEARN))
        return np.asarray((shown - 1 - learned)[self.events == SHOW], np.int64)

    @property
    def blind(self) -> int:
        """How many lists that count were shown before anything was learned."""
        first = np.flatnonzero(self.events == LEARN)[:1]
        return int(np.sum(self.events[: first[0] if len(first) else None] == SHOW))

    def until(self, shown: int) -> "Lateness":
        """As long as so many lists that count were shown."""
        return Lateness(self.events[: np.flatnonzero(self.events == SHOW)[shown - 1] + 1])


def lateness(store: Path, query: str) -> Lateness:
    """Of a query in a SQLite store from which nothing was pruned."""
    with closing(sqlite3.connect(store)) as database:
        (number,) = database.execute("select id from queries where name = ?", (query,)).fetchone()
        rows = database.execute("select records from log where query = ? order by number", (number,))
        records = [record for (row,) in rows for record in read(row)]
        rows = database.execute(
            "select outcome from impressions where query = ? and source = ? order by number", (number, POLICY)
        )
        outcomes = iter([outcome for (outcome,) in rows])
    events = []
    for record in records:
        match record:
            case RankRecord():
                events.append(SHOW_IN_VAIN if next(outcomes) == VOID else SHOW)
            case SettleRecord():
                events.append(LEARN)
            case VoidRecord():
                events.append(GIVE_BACK)
    return Lateness(np.array(events, np.int8))


def regret_of(
    algorithm: LiveAlgorithm, model: ClickModel, positions: int, horizon: int, late: Lateness, run: int
) -> float:
    """The expected regret of a simulated run, over the lists that count."""
    rng, users, numbers = (np.random.default_rng([run, stream]) for stream in range(3))
    model = model.with_items(numbers.permutation(model.n_items).tolist())
    params, click, random = model.params, interpreted(model.functions.click), algorithm.random(rng)
    best, known = best_list(model, positions)[1], dict[bytes, float]()
    state = algorithm.start(model.n_items, positions, horizon)
    memo_size, unstated = algorithm.memo_size(model.n_items, positions), np.zeros((2, positions))
    waiting: dict[int, deque[tuple[IntArray, IntArray, npt.NDArray[np.float64]]]] = {
        LEARN: deque(),
        GIVE_BACK: deque(),
    }
    regret = 0.0
    for event in late.events.tolist():
        if event in waiting:
            ranking, clicks, memo = waiting[event].popleft()
            if event == LEARN:
                algorithm.learn(state, ranking, clicks, memo)
            else:
                algorithm.give_back(state, ranking, memo)
            continue
        (ranking, clicks), memo = np.zeros((2, positions), np.int64), np.zeros(memo_size)
        algorithm.serve(state, random, ranking, memo, *unstated)
        waiting[event + 2].append((ranking, clicks, memo))
        if event == SHOW:
            click(params, users, ranking, clicks)
            key = ranking.tobytes()
            if key not in known:
                known[key] = best - model.reward(ranking.tolist())
            regret += known[key]
    return regret
