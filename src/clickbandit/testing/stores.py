"""What a store of the live ranker must keep, as a check that anyone can run on a store of their own."""

from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

from clickbandit.live.stores.contract import Changes, Locked, Part, Store
from clickbandit.live.stores.reading import Decision, Delay, Listing, Reader, Totals
from clickbandit.live.stores.rows import (
    DIVIDED,
    FINISHED,
    OUTCOMES,
    PENDING,
    POLICY,
    QUERY_COLUMNS,
    SETTLED,
    VOID,
    EventRow,
    ImpressionRow,
    LogRow,
    NewQuery,
    QueryRow,
    Snapshot,
)
from clickbandit.live.values import StoreError
from clickbandit.testing._clicked import check_clicked
from clickbandit.testing._comparisons import check_comparisons
from clickbandit.testing._decisions import check_decisions
from clickbandit.testing._learning_store import LEARNED, VISITS, check_ranker, expect

_NAMES = ("Boots", "boots", 'it\'s 100% "new"?', "ünïcødé 😀", "zebra")
_MAX_QUERIES = len(_NAMES)
_NO_LIMIT = 1000


class _Filled(NamedTuple):
    """What a store was given."""

    queries: list[QueryRow]
    impressions: list[ImpressionRow]
    events: list[EventRow]
    log: list[LogRow]
    snapshots: list[Snapshot]
    histories: dict[int, bytes]


def check_store(store: Store, *, reopen: Callable[[], Store] | None = None) -> None:
    """Raise an AssertionError that says how a store breaks the contract (`live.stores.contract`), if it does.

    The store must be empty; it is filled and closed. Everything saved is found again as it was, to the bit, and once;
    what is rolled back is not; nothing is stored twice under one id; limits, orders and sums hold, and pruning forgets
    what it should and nothing else. Then a ranker learns with it. `reopen` opens it again at the end, to see that
    nothing was lost.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from clickbandit.live.stores.sqlite import SqliteStore
    >>> with TemporaryDirectory() as folder:
    ...     check_store(SqliteStore(Path(folder, "mine.db")), reopen=lambda: SqliteStore(Path(folder, "mine.db")))
    """
    try:
        with closing(store.reader()) as reader:
            filled = _check_contract(store, reader)
    except BaseException:
        store.close()
        raise
    for row in filled.queries:
        row.policy = "random"
    _lock(store, _NAMES)
    store.save(Changes(filled.queries))
    store.commit()
    check_ranker(store, sum(row.clicks for row in filled.queries))
    if reopen is not None:
        with closing(reopen()) as store:
            _check_reopened(store, filled)


def _check_contract(store: Store, reader: Reader) -> _Filled:
    expect(getattr(store, "settles_between", None) in (True, False), True, "that `settles_between` is said")
    expect(store.policies(), [], "the policies of an empty store")
    expect(reader.totals(), Totals(*[0] * len(Totals._fields)), "the totals of an empty store")
    expect((reader.queries(Listing()), reader.oldest()), (([], 0), None), "an empty store")
    filled = _fill(store, _check_new_queries(store, reader))
    _check_rows(store, filled)
    _check_learning(store, filled)
    _check_rollback(store, filled)
    _check_ids(store, filled)
    check_clicked(store, filled.impressions)
    _check_due(store, filled)
    expect(store.latest(), filled.impressions[-1].at, "when the last impression was shown")
    store.probe()
    _check_rows(store, filled)
    _check_deletion(store, filled)
    _check_reader(reader, filled)
    check_decisions(store, reader, filled.queries[0], [i for i in filled.impressions if i.outcome == SETTLED])
    filled = _check_prune(store, filled)
    (one, other), ids = _NAMES[:2], (filled.queries[0].id, filled.queries[1].id)
    check_comparisons(store, reader, (one, other), ids)
    return filled


def _lock(
    store: Store,
    names: Any = (),
    ids: Any = (),
    new: Any = (),
    max_queries: int = _NO_LIMIT,
    events: Collection[str] = (),
) -> Locked:
    store.begin()
    return store.lock(names, ids, new, max_queries, events=events)


def _check_new_queries(store: Store, reader: Reader) -> list[QueryRow]:
    """Queries are made with their settings, as many as there may be, and not before the commit."""
    new = [
        NewQuery(name, "random", 2 + k, 10**6 + k, None if k else 5000, k) for k, name in enumerate(_NAMES)
    ]
    locked = _lock(store, {*_NAMES, "missing"}, {"missing"}, new)
    expect(set(locked.queries), set(_NAMES), "the queries that lock gives")
    expect(locked.impressions, {}, "impressions that do not exist")
    store.rollback()
    expect(reader.totals().queries, 0, "queries after a rollback")
    _lock(store, _NAMES[:1], (), new[:1])
    store.commit()
    rows = _lock(store, _NAMES, (), new, _MAX_QUERIES - 1).queries
    expect(len(rows), _MAX_QUERIES - 1, "queries when one too many is new")
    store.commit()
    rows = _lock(store, _NAMES, (), new, _MAX_QUERIES).queries
    store.commit()
    for query in new:
        expected = QueryRow(rows[query.name].id, *query)
        expect(rows[query.name], expected, "a new query")
    expect(len({row.id for row in rows.values()}), len(new), "different ids of queries")
    expect(reader.totals().queries, len(new), "queries after the commit")
    expect(store.policies(), ["random"], "the policies of all queries, each once")
    return [rows[name] for name in _NAMES]


def _fill(store: Store, rows: list[QueryRow]) -> _Filled:
    """Write something into every column."""
    for k, row in enumerate(rows):
        for j, name in enumerate(QUERY_COLUMNS[8:]):
            setattr(row, name, 100 * k + j + 1)
        row.policy, row.frozen = f"toprank:c={k}", '["A", "ü"]' if k == 0 else None
        row.progress, row.idle = [FINISHED, DIVIDED, 0, 0, 0][k], 200 if k == 3 else 0
    impressions = [
        ImpressionRow(
            id=f"i{k}",
            query=rows[k % 2].id,
            at=1000 + k,
            expires=5000 - k // 2,
            source=POLICY,
            items='["A", "é\\u0001"]',
            body=bytes([0, k, 255]),
            propensities=[None, b"", b"\x00\xff"][k % 3],
            learning=None if k % 2 else bytes(range(k, 256)),
            clicks=2**49 + k,
            share=[None, 0.05][k % 2],
            reward=[None, 0.5][k % 2],
            rewards=[None, "[0.0, 0.5]"][k % 2],
            unit=[None, "", "me"][k % 3],
        )
        for k in range(10)
    ]
    events = [
        EventRow(f"e{k} '", f"i{k}", "é", 2000 + k, k == 3, None if k else "2024-05-01T12:00:00+00:00")
        for k in range(5)
    ]
    log = [LogRow(row.id, n, bytes([n, 0, 255]), 1000 + n, 2**32 - n) for row in rows[:2] for n in (1, 4, 9)]
    snapshots = [Snapshot(rows[0].id, n, bytes([n]) * 300, 1000 + n, 2**32 - n) for n in (4, 9)]
    histories = {rows[0].id: b'{"frames": []}', rows[1].id: b"\x00\xff"}
    _lock(store, [row.name for row in rows])
    store.save(Changes(rows, impressions, [], events, log, snapshots, [(rows[0].id, b"old")]))
    store.save(Changes(histories=list(histories.items())))
    store.commit()
    return _Filled(rows, impressions, events, log, snapshots, histories)


def _check_rows(store: Store, filled: _Filled) -> None:
    """All is read as it was written, and nothing else."""
    kept = {row.id: row for row in filled.impressions}
    locked = _lock(store, (), [f"i{k}" for k in range(10)])
    expect(locked.impressions, kept, "the impressions")
    expect(set(locked.queries), set(_NAMES[:2]), "the queries of the impressions that are locked")
    store.rollback()
    keys = [event.key for event in filled.events]
    locked = _lock(store, _NAMES, events=[*keys, "new"])
    expect(list(map(locked.queries.get, _NAMES)), filled.queries, "the queries")
    expect(set(locked.events), set(keys), "the events that are known")
    store.rollback()


def _check_learning(store: Store, filled: _Filled) -> None:
    first, second, third = (row.id for row in filled.queries[:3])
    store.begin()
    expect(list(store.log(first, 0)), filled.log[:3], "a query's log")
    expect(list(store.log(second, 1)), filled.log[4:], "a query's log after record 1")
    expect(list(store.log(third, 0)), [], "the log of a query without one")
    expect(store.snapshot(first), filled.snapshots[-1], "the latest snapshot")
    before = filled.snapshots[-1].number
    expect(store.snapshot(first, before), filled.snapshots[0], "the snapshot before the latest")
    expect(store.snapshot(second), None, "the snapshot of a query without one")
    for query in (first, second, third):
        expect(store.history(query), filled.histories.get(query), "a query's history")
    store.save(Changes(lessons=[(first, b"old"), (second, b"\x00"), (first, b"new")]))
    expect(sorted(store.lessons(9)), [(first, b"new"), (second, b"\x00")], "what queries teach")
    expect(len(store.lessons(1)), 1, "lessons up to the limit")
    store.rollback()


def _check_rollback(store: Store, filled: _Filled) -> None:
    row, impression = replace(filled.queries[0], clicks=0), replace(filled.impressions[0], clicks=0)
    new = replace(impression, id="undone")
    _lock(store, [row.name], [impression.id])
    changes = Changes([row], [new], [impression], [EventRow("undone", "i0", "A", 1, False, None)])
    changes.log, changes.histories = [LogRow(row.id, 99, b"", 1)], [(row.id, b"undone")]
    store.save(changes)
    store.rollback()
    store.rollback()  # without a transaction it does nothing
    _check_rows(store, filled)
    _check_learning(store, filled)
    locked = _lock(store, (), ["undone"], events=["undone"])
    expect(locked.impressions, {}, "an impression that was rolled back")
    expect(set(locked.events), set(), "an event that was rolled back")
    store.rollback()


def _check_ids(store: Store, filled: _Filled) -> None:
    """What has an id is stored once: a click that comes twice must not count twice."""
    for what, changes in (
        ("an impression", Changes(impressions=[replace(filled.impressions[0], at=9)])),
        ("an event", Changes(events=[filled.events[0]._replace(item="other")])),
        ("a record of a log", Changes(log=[filled.log[0]._replace(records=b"other")])),
    ):
        _lock(store, _NAMES)
        try:
            store.save(changes)
            store.commit()
        except StoreError:
            store.rollback()
        else:
            raise AssertionError(
                f"{what} with an id that exists: expected a StoreError, found that it was saved"
            )
    _check_rows(store, filled)


def _check_due(store: Store, filled: _Filled) -> None:
    """Impressions that expired come the earliest first, and settled ones no more."""
    order = [row.id for row in sorted(filled.impressions, key=lambda row: row.expires)]
    times = {row.id: row.expires for row in filled.impressions}
    _lock(store, (), order)
    due = store.due(4998, _NO_LIMIT)
    expect(set(due), {id for id in order if times[id] <= 4998}, "the impressions that are due")
    expect([times[id] for id in due], sorted(times[id] for id in due), "the times of those that are due")
    expect(store.due(4998, 2), due[:2], "two of the impressions that are due")
    taken = Locked({}, {})
    expect(store.take_due(4998, _NO_LIMIT, Part(), taken), due, "the impressions that are due and taken")
    settled = [row for row in filled.impressions if row.id in due]
    held = {row.id for row in taken.queries.values()}, {row.query for row in settled}
    expect(*held, "the queries that are locked with them")
    parts = [store.take_due(4998, _NO_LIMIT, Part(k, 2), Locked({}, {})) for k in range(2)]
    expect(set().union(*parts), set(due), "the impressions that are due, of two parts")
    for k, row in enumerate(settled):
        row.outcome, row.clicks = SETTLED, row.clicks | 1
        if k % 3 == 0:
            row.expires, row.learning, row.reward, row.rewards = row.expires + 9, None, 2.5, "[2.0, 0.5]"
    store.save(Changes(touched=settled))
    store.commit()
    store.begin()
    expect(store.due(4998, _NO_LIMIT), [], f"impressions that are due when all are {OUTCOMES[SETTLED]}")
    store.rollback()
    _check_rows(store, filled)


def _check_deletion(store: Store, filled: _Filled) -> None:
    """Nothing of what is deleted is left, and all else."""
    expect(store.delete("missing"), None, "the id of a query that does not exist")
    for name in ("deleted", "of no use", "in use"):
        row = _lock(store, [name], new=[NewQuery(name, "random", 2, 10, None, 1)]).queries[name]
        row.impressions, row.voided, row.updated = 1, 1, 50 if name != "in use" else 500
        first = replace(filled.impressions[0], id=name, query=row.id, outcome=VOID, user="me")
        event, log = EventRow(name, name, "A", 1, False, None), LogRow(row.id, 1, b"", 1)
        snapshots, histories = [Snapshot(row.id, 1, b"", 1)], [(row.id, b"")]
        store.save(Changes([row], [first], [], [event], [log], snapshots, histories))
        store.commit()
    store.begin()
    expect(set(store.of_user("me", 10)), {"deleted", "of no use", "in use"}, "the impressions of a user")
    expect(len(store.of_user("me", 2)), 2, "two of the impressions of a user")
    store.save(Changes(forgotten=["in use"]))
    store.commit()
    ids = {name: row.id for name, row in _lock(store, ["deleted", "of no use", "in use"]).queries.items()}
    store.rollback()
    expect(store.delete("deleted"), ids["deleted"], "the id of a query that is deleted")
    expect(store.evict(100, _NO_LIMIT), [ids["of no use"]], "queries that make room")
    expect(store.delete("in use"), ids["in use"], "the id of a query that is deleted")
    locked = _lock(store, list(ids), list(ids), events=list(ids))
    expect(locked[:2], ({}, {}), "queries that are deleted, and their impressions")
    expect(set(locked.events), set(), "events of queries that are deleted")
    for id in ids.values():
        expect(
            (list(store.log(id, 0)), store.snapshot(id), store.history(id)),
            ([], None, None),
            "what is left of one",
        )
    store.rollback()
    _check_rows(store, filled)


def _check_reader(reader: Reader, filled: _Filled) -> None:
    rows = filled.queries
    by_clicks = sorted(rows, key=lambda row: row.clicks, reverse=True)
    for listing, expected in (
        (Listing(sort="clicks", descending=True, limit=2, offset=1), (by_clicks[1:3], 5)),
        (Listing(sort="impressions"), (rows, 5)),
        (Listing(search="BOOT", sort="updated"), (rows[:2], 2)),
        (Listing(search='% "new"?'), (rows[2:3], 1)),
        (Listing(state="stuck"), (rows[3:4], 1)),
        (Listing(state="frozen", search="zebra"), ([], 0)),
    ):
        expect(reader.queries(listing), expected, f"the page {listing}")
    expect(reader.query(rows[1].name), (rows[1], filled.histories[rows[1].id]), "a query with its history")
    expect(reader.query(rows[2].name), (rows[2], None), "a query without a history")
    expect(reader.query("missing"), None, "a query that does not exist")
    own = [row for row in filled.impressions[::-1] if row.query == rows[0].id]
    expect(reader.recent(rows[0].id, _NO_LIMIT, 3), own[:3], "a query's last impressions")
    expect(reader.recent(rows[0].id, 4, 3), own[:2], "a query's impressions among the last four")
    sums = [sum(getattr(row, name) for row in rows) for name in Totals._fields[4:]]
    past = sum(row.learned > row.horizon for row in rows)
    expect(reader.totals(), Totals(len(rows), past, 1, 0, *sums), "the totals")
    states = {"frozen": 1, "splitting": 1, "exploring": 2, "stuck": 1}
    expect(reader.states(), states, "how many queries are in each state")
    shown = {row.id: row.at for row in filled.impressions}
    delays = reader.delays(_NO_LIMIT)
    waited = sorted(Delay(event.at - shown[event.impression], event.late) for event in filled.events)
    expect(sorted(delays), waited, "how long events took, and which were late")
    expect(len(reader.delays(2)), 2, "how many of the last two events there are")
    expect(list(reader.log(rows[0].id, 1, 1)), filled.log[1:2], "a row of a log after record 1")
    expect(reader.snapshot(rows[0].id, 4), filled.snapshots[1], "the first snapshot after record 4")
    expect(reader.snapshot(rows[0].id, 9), None, "a snapshot after the last")
    order = sorted((row.id, row.name) for row in rows)
    expect(
        [reader.next_query(id) for id in (-1, order[0][0], order[-1][0])],
        [*order[:2], None],
        "the next query",
    )
    expect(reader.oldest(), filled.impressions[0].at, "when the oldest impression was shown")
    assert reader.size() > 0, f"the store's size: expected more than 0 bytes, found {reader.size()}"


def _check_prune(store: Store, filled: _Filled) -> _Filled:
    """What is settled and old goes, with the log before an old snapshot; what is left."""
    first, second = filled.queries[0].id, filled.queries[1].id

    def based(k: int) -> Snapshot:
        return filled.snapshots[k]._replace(base=True)

    kept: list[Decision] = []
    expect(store.prune(1000, _NO_LIMIT, kept.extend), 0, "rows pruned when nothing is old")
    _check_rows(store, filled)
    _check_learning(store, filled)
    pruned = store.prune(1006, _NO_LIMIT, kept.extend)
    expect(pruned, 4, "rows pruned: two impressions, and two records before a snapshot")
    settled = [row.id for row in filled.impressions[:6] if row.outcome == SETTLED]
    expect(
        [decision.id for decision in kept], settled, "settled impressions that are kept when they are pruned"
    )
    pending = [row for row in filled.impressions if row.outcome == PENDING]
    _check_rows(store, filled._replace(impressions=pending + filled.impressions[6:]))
    store.begin()
    expect(list(store.log(first, 0)), filled.log[2:3], "a query's log after its oldest snapshot")
    expect(store.snapshot(first, 9), based(0), "the snapshot that its log starts from")
    store.rollback()
    expect(
        store.prune(3000, _NO_LIMIT), 11, "rows pruned: four impressions, five events, a record, a snapshot"
    )
    store.begin()
    expect(store.snapshot(first), based(1), "the snapshot that is left")
    expect(store.snapshot(first, 9), None, "a snapshot before that")
    expect(list(store.log(second, 0)), filled.log[3:], "the log of a query without a snapshot")
    store.rollback()
    return filled._replace(impressions=pending, events=[])


def _check_reopened(store: Store, filled: _Filled) -> None:
    _check_rows(store, filled)
    row = _lock(store, [LEARNED]).queries[LEARNED]
    counts = (row.impressions, row.settled, row.learned, row.clicks)
    expect(counts, (VISITS,) * 4, "what a ranker counted, after the store was opened again")
    expect(sum(1 for entry in store.log(row.id, 0) for _ in entry.records) > VISITS, True, "its log")
    store.rollback()
