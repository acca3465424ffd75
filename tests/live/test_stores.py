"""Both stores keep the contract, and the public check finds stores that do not."""

import contextlib
from dataclasses import replace

import pytest

from clickbandit.live.stores import open_store
from clickbandit.live.stores.sql_reader import SqlReader
from clickbandit.live.stores.sqlite import SqliteStore
from clickbandit.live.values import StoreError
from clickbandit.testing import check_store


def test_a_store_keeps_the_contract(url):
    check_store(open_store(url), reopen=lambda: open_store(url))


class LosesARecord(SqliteStore):
    def save(self, changes):
        super().save(replace(changes, log=changes.log[:-1]))


class CountsClicksTwice(SqliteStore):
    def lock(self, *given, events=(), **more):
        return super().lock(*given, **more)


class TakesAnEventAgain(SqliteStore):
    def save(self, changes):
        known = super().lock((), (), (), 0, events=[event.key for event in changes.events]).events
        super().save(replace(changes, events=[event for event in changes.events if event.key not in known]))


class ForgetsOnClosing(SqliteStore):
    def close(self):
        self.database.run("delete from impressions where number = 1")
        super().close()


class CommitsAtOnce(SqliteStore):
    def rollback(self):
        with contextlib.suppress(StoreError):
            self.commit()


class SettlesTwice(SqliteStore):
    def due(self, now, limit):
        return [id for (id,) in self.database.rows("select id from impressions where expires <= ?", (now,))]


class TakesTooLittle(SqliteStore):
    def take_due(self, now, limit, part, locked):
        return super().take_due(now, limit, part, locked)[1:]


class LocksNoQueries(SqliteStore):
    def take_due(self, now, limit, part, locked):
        ids = super().take_due(now, limit, part, locked)
        locked.queries.clear()
        return ids


class MakesTooMany(SqliteStore):
    def lock(self, names, ids, new, max_queries, *more, **events):
        return super().lock(names, ids, new, 10**9, *more, **events)


class LocksTooLittle(SqliteStore):
    def lock(self, names, *given, **events):
        locked = super().lock(names, *given, **events)
        return locked._replace(queries={name: row for name, row in locked.queries.items() if name in names})


class LeavesOutQueriesOfClicks(SqliteStore):
    def lock(self, names, ids, new, max_queries, clicked=(), now=0, events=()):
        locked = super().lock(names, ids, new, max_queries, events=events)
        locked.impressions.update(super().lock((), clicked, (), max_queries).impressions)
        return locked


class ForgetsWhatIsClicked(SqliteStore):
    def lock(self, names, ids, new, max_queries, clicked=(), now=0, events=()):
        return super().lock(names, ids, new, max_queries, events=events)


class PrunesWhatIsPending(SqliteStore):
    def prune(self, before, limit, keep=None):
        self.database.run("update impressions set outcome = 1 where at < ?", (before,))
        return super().prune(before, limit)


class CutsTheLog(SqliteStore):
    def log(self, query, after):
        return super().log(query, after + 1)


class LatestSnapshot(SqliteStore):
    def snapshot(self, query, before=None):
        return super().snapshot(query)


class CountsTwice(SqliteStore):
    class Reader(SqlReader):
        def totals(self):
            totals = super().totals()
            return totals._replace(clicks=2 * totals.clicks)

    def reader(self):
        return self.Reader(self._open())


class OfAnEarlierContract(SqliteStore):
    settles_between = None


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (OfAnEarlierContract, "settles_between"),
        (LosesARecord, "a query's log"),
        (CountsClicksTwice, "the events that are known"),
        (TakesAnEventAgain, "an event with an id that exists"),
        (ForgetsOnClosing, "the impressions"),
        (CommitsAtOnce, "queries after a rollback"),
        (SettlesTwice, "the times of those that are due|two of the impressions"),
        (TakesTooLittle, "due and taken"),
        (LocksNoQueries, "the queries that are locked with them"),
        (MakesTooMany, "queries when one too many is new"),
        (LocksTooLittle, "the queries of the impressions"),
        (LeavesOutQueriesOfClicks, "the query that clicks change"),
        (ForgetsWhatIsClicked, "the impression that is clicked"),
        (PrunesWhatIsPending, "rows pruned"),
        (CutsTheLog, "a query's log"),
        (LatestSnapshot, "the snapshot before the latest"),
        (CountsTwice, "the totals"),
    ],
)
def test_a_store_that_breaks_the_contract_is_found_out(kind, says, folder):
    path = folder / "broken.db"
    with pytest.raises(AssertionError, match=says):
        check_store(kind(path), reopen=lambda: SqliteStore(path))


def test_what_is_opened_again_is_closed_whatever_is_found(folder):
    opened = []

    def reopen():
        opened.append(SqliteStore(folder / "broken.db"))
        return opened[0]

    with pytest.raises(AssertionError, match="the impressions"):
        check_store(ForgetsOnClosing(folder / "broken.db"), reopen=reopen)
    with pytest.raises(StoreError, match="closed database"):
        opened[0].policies()


def test_a_failure_is_a_store_error(folder):
    store = SqliteStore(folder / "clicks.db")
    store.begin()
    with pytest.raises(StoreError, match="SQLite: cannot start a transaction"):
        store.begin()
    store.rollback()
    store.close()
