"""Many workers on one PostgreSQL database: any of them serves any query, and only the database keeps them apart."""

import random
import threading
import time
from collections import Counter

import psycopg
import pytest

from clickbandit import InputError
from clickbandit.live import Conflict, Event, Ranker
from clickbandit.live.stores import open_store
from clickbandit.live.stores.contract import LATE, SLOTS, Changes, Locked, Part
from clickbandit.live.stores.rows import POLICY, ImpressionRow, NewQuery
from live.conftest import only_postgres
from live.serving import until

ITEMS = list("ABCDEF")
pytestmark = only_postgres


@pytest.fixture
def two(open_ranker):
    settings = {"policy": "batchrank", "horizon": 20}
    return open_ranker(**settings), open_ranker(**settings)


def test_any_worker_serves_any_query(two, open_ranker, tmp_path):
    """What two workers do in turns is what one does alone."""
    alone = Ranker(f"sqlite:///{tmp_path}/alone.db", policy="batchrank", positions=3, horizon=20)
    chance = random.Random(1)
    with alone:
        for step in range(100):
            worker, other = chance.sample(two, 2)
            shown, expected = (
                worker.rank("shoes", ITEMS, id=f"{step}"),
                alone.rank("shoes", ITEMS, id=f"{step}"),
            )
            assert (shown.items, shown.propensities) == (expected.items, expected.propensities)
            assert other.rank("shoes", ITEMS, id=f"{step}").items == shown.items
            for ranker in (other, alone):
                assert ranker.click(shown.id, shown.items[0]).verdict == "accepted"
                assert ranker.settle(shown.id).clicked == shown.items[:1]
            assert worker.settle(shown.id).clicked == shown.items[:1]
        assert two[0].query("shoes").learned == alone.query("shoes").learned
    assert all(worker.verify("shoes") for worker in two)


def test_workers_at_once(two):
    """Eight threads over the same queries, in any order and in batches that touch many: all is counted once."""
    failed: list[BaseException] = []
    n = 20

    def work(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for step in range(n):
                worker, other = chance.sample(two, 2)
                shown = [
                    worker.rank(f"query {chance.randrange(6)}", ITEMS, id=f"{seed}-{step}-{i}")
                    for i in range(3)
                ]
                events = [Event(s.id, s.items[0], f"{s.id}-click") for s in shown]
                chance.shuffle(events)
                assert [v.verdict for v in other.events(events)] == ["accepted"] * 3
                assert [v.verdict for v in worker.events(events)] == ["duplicate"] * 3
                for s in shown:
                    chance.choice(two).settle(s.id)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]
    stats = two[0].stats()
    assert (stats.impressions, stats.settled, stats.clicks) == (8 * n * 3,) * 3
    assert stats.failures == two[1].stats().failures == 0
    for worker in two:
        assert all(worker.verify(f"query {i}") for i in range(6))


def test_the_same_id_at_two_workers_at_once(two):
    """Whoever comes second finds what the first has done, though neither saw the other begin."""
    for step in range(20):
        found: list[object] = []
        barrier = threading.Barrier(2)

        def ask(worker, query, id=f"same {step}", barrier=barrier, found=found):
            barrier.wait()
            try:
                found.append(worker.rank(query, ITEMS, id=id).items)
            except Conflict as conflict:
                found.append(conflict)

        same = step % 2 == 0
        threads = [
            threading.Thread(target=ask, args=(two[0], f"query {step}")),
            threading.Thread(target=ask, args=(two[1], f"query {step if same else -step}")),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if same:
            assert found[0] == found[1]
        else:
            assert sum(isinstance(one, Conflict) for one in found) == 1


def test_names_that_cross_do_not_lock_each_other_out(two, sql):
    """Two workers are given the same names for different things, the other way round, at the same time."""
    names = [f"{k:03}" for k in range(200)]
    for step in range(10):
        ids = [worker.rank(f"query {k}", ITEMS, id=f"{step} {k}") for k, worker in enumerate(two)]
        barrier = threading.Barrier(2)
        found = []

        def report(worker, shown, order, step=step, barrier=barrier, found=found):
            events = [Event(shown.id, shown.items[0], f"{step} {name}") for name in names[::order]]
            barrier.wait()
            found.extend(verdict.verdict for verdict in worker.events(events))

        threads = [
            threading.Thread(target=report, args=(worker, shown, order))
            for worker, shown, order in zip(two, ids, (1, -1), strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Counter(found) == {"accepted": 200, "duplicate": 200}
    assert sql("select deadlocks from pg_stat_database where datname = current_database()") == [(0,)]


def test_a_connection_that_is_lost_is_made_again(open_ranker, sql):
    ranker = open_ranker()
    first = ranker.rank("shoes", ITEMS, id="first")
    end = (
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where application_name = 'clickbandit' and pid != pg_backend_pid()"
    )
    assert (True,) in sql(end)
    assert ranker.rank("shoes", ITEMS, id="first").items == first.items
    assert ranker.stats().impressions == 1
    assert ranker.queries().total == 1


def test_a_worker_that_dies_leaves_nothing_locked(open_ranker, url):
    """Its connection ends, and with it the transaction."""
    ranker = open_ranker()
    ranker.rank("shoes", ITEMS)
    dying = psycopg.connect(url)
    dying.execute("select * from queries for update")
    threading.Timer(0.3, dying.close).start()
    started = time.monotonic()
    assert ranker.rank("shoes", ITEMS).source == "policy"
    assert time.monotonic() - started >= 0.2


def test_workers_that_start_at_once_make_the_tables_once(url):
    rankers: list[Ranker] = []
    threads = [
        threading.Thread(target=lambda: rankers.append(Ranker(url, policy="random"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rankers) == 4
    for ranker in rankers:
        ranker.close()


def test_tables_of_something_else_are_refused(url, sql, open_ranker):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table queries (name text)")
    with pytest.raises(InputError, match="found other tables"):
        open_ranker()


def test_a_database_that_is_not_there(url):
    with pytest.raises(InputError, match="cannot be used as a store"):
        Ranker("postgresql://nobody@/nothing?host=/nowhere", policy="random")


def test_clicks_do_not_wait_for_whoever_makes_the_lists(two, url):
    first, second = two
    shown = [first.rank("shoes", ITEMS) for _ in range(2)]
    with psycopg.connect(url) as other:
        other.execute("select * from queries where name = 'shoes' for update")
        for one in shown:
            assert second.click(one.id, one.items[0]).verdict == "accepted"
    assert first.settle(shown[0].id).clicked == shown[0].items[:1]
    assert second.click(shown[0].id, shown[0].items[1]).verdict == "late"
    assert first.query("shoes").summary.late == 1


def test_what_is_being_clicked_is_settled_with_its_click(two, url, clock):
    """It is left for the next time, and that nobody loses the click shows what is learned."""
    first, second = two
    shown, other = first.rank("shoes", ITEMS), first.rank("hats", ITEMS)
    with psycopg.connect(url) as clicking:
        clicking.execute(f"update impressions set clicks = 1 where id = '{shown.id}'")
        clock.now += 1801
        until(lambda: second.query("hats").summary.settled == 1)
        assert second.query("shoes").summary.settled == 0
    until(lambda: second.query("shoes").summary.settled == 1)
    assert (second.query("shoes").summary.clicks, second.query("hats").summary.clicks, other.source) == (
        1,
        0,
        "policy",
    )


def test_whoever_settles_waits_for_clicks_under_way(two, url):
    first, second = two
    shown = first.rank("shoes", ITEMS)
    settled = []
    thread = threading.Thread(target=lambda: settled.append(second.settle(shown.id)))
    with psycopg.connect(url) as clicking:
        clicking.execute(f"update impressions set clicks = 1 where id = '{shown.id}'")
        thread.start()
        time.sleep(0.3)
        assert not settled
    thread.join()
    assert settled[0].clicked == shown.items[:1]


def test_a_query_is_deleted_in_the_order_in_which_clicks_lock(two, url):
    """Else whoever clicks two of its impressions and whoever deletes them may wait for each other."""
    first, second = two
    for id in ("b", "a"):  # as they lie in the table
        first.rank("shoes", ITEMS, id=id)
    deleted = []
    thread = threading.Thread(target=lambda: deleted.append(second.delete("shoes")))
    with psycopg.connect(url) as clicking:
        clicking.execute("set local lock_timeout = '2s'")
        clicking.execute("update impressions set clicks = 1 where id = 'a'")
        thread.start()
        time.sleep(0.3)
        clicking.execute("update impressions set clicks = 1 where id = 'b'")
    thread.join()
    assert deleted == [2]


def test_clicks_while_others_settle(two):
    """Each is counted in its impression, or is late."""
    shown = [two[0].rank(f"query {k % 4}", ITEMS) for k in range(160)]
    verdicts: Counter[str] = Counter()
    lock = threading.Lock()

    def click(worker, chosen):
        for start in range(0, len(chosen), 5):
            events = [Event(one.id, one.items[0]) for one in chosen[start : start + 5]]
            found = [verdict.verdict for verdict in worker.events(events)]
            with lock:
                verdicts.update(found)

    def settle(worker, chosen):
        for one in chosen:
            worker.settle(one.id)

    mixed = random.Random(1).sample(shown, len(shown))
    threads = [
        threading.Thread(target=work, args=(worker, chosen))
        for worker, half in zip(two, (slice(0, 80), slice(80, 160)), strict=True)
        for work, chosen in ((click, mixed[half]), (settle, shown[half]), (click, mixed[half][::-1]))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = two[0].stats()
    assert verdicts["accepted"] + verdicts["late"] == verdicts["duplicate"] == 160
    assert (stats.settled, stats.clicks, stats.late) == (160, verdicts["accepted"], verdicts["late"])
    assert stats.failures == 0


def test_each_worker_takes_its_own_of_what_is_due_and_others_once_it_is_late(url):
    store = open_store(url)
    store.begin()
    store.lock(["shoes"], [], [NewQuery("shoes", "random", 3, 100, None, 0)], 1)
    offers = [None, *range(-300, 300, 7), -(2**63), 2**63 - 1]
    new = [ImpressionRow(f"{offer}", 1, 0, 1, POLICY, "[]", b"", None, None, offer=offer) for offer in offers]
    store.save(Changes(impressions=new))
    store.commit()
    for number in range(3):
        for now, takes_all in ((LATE, False), (1 + LATE, True)):
            store.begin()
            taken = store.take_due(now, 1000, Part(number, 3), Locked({}, {}))
            mine = [f"{offer}" for offer in offers if takes_all or (offer or 0) % SLOTS % 3 == number]
            assert sorted(taken) == sorted(mine)
            store.rollback()
    store.close()


def test_no_batch_reads_all_of_a_table(open_ranker, sql):
    """Plans are made while the tables are empty, when to read all of them costs least, and then they are kept."""
    with open_ranker(policy="random") as ranker:
        for step in range(100):
            shown = ranker.rank(f"query {step % 10}", ITEMS)
            assert ranker.click(shown.id, shown.items[0]).verdict == "accepted"
            ranker.settle(shown.id)
    of_tables = "from pg_stat_user_tables where schemaname = current_schema() and relname"
    one_by_one = f"select sum(idx_tup_fetch) {of_tables} in ('queries', 'impressions')"
    until(lambda: (sql(one_by_one)[0][0] or 0) >= 300)  # the process of the connection says it at its end
    assert sql(f"select sum(seq_tup_read) {of_tables} in ('impressions', 'events', 'log')") == [(0,)]
