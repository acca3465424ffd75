"""Many rows that are written together are what they would be one by one, in both databases."""

import random

import psycopg
import pytest

from clickbandit.live.stores import open_store
from clickbandit.live.stores.contract import Changes, Part
from clickbandit.live.stores.postgres_database import PostgresDatabase, _own
from clickbandit.live.stores.rows import POLICY, SETTLED, ImpressionRow, OfferRow
from clickbandit.live.stores.sqlite_database import SqliteDatabase
from clickbandit.live.values import StoreError
from live.conftest import only_postgres

TABLE = "create table boxes (id text primary key, number bigint, weight double precision, what {bytes}, note text)"
NAMES = ("id", "number", "weight", "what", "note")
ADD = 'insert into boxes ("id", "number", "weight", "what", "note") values (?, ?, ?, ?, ?)'


@pytest.fixture
def database(url):
    opened = (
        SqliteDatabase(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else PostgresDatabase(url)
    )
    opened.run(TABLE.format(bytes="blob" if url.startswith("sqlite") else "bytea"))
    yield opened
    opened.close()


def row(k, nulls):
    """Nothing in columns as these bits say."""
    values = (f"box '{k}\\", (-1) ** k * 3**k % 2**63, k / 3, bytes([0, k, 39, 92, 255]), f"ü\n{k}")
    return (values[0], *(None if nulls >> j & 1 else value for j, value in enumerate(values[1:])))


def kept(database):
    return [
        tuple(bytes(value) if isinstance(value, memoryview) else value for value in one)
        for one in database.rows(f"select {', '.join(NAMES)} from boxes")
    ]


@pytest.mark.parametrize("nulls", ["none", "some", "all"])
def test_any_number_of_rows(database, nulls):
    for n in range(1, 71):
        rows = [row(k, {"none": 0, "some": k * 7 % 16, "all": 15}[nulls]) for k in range(n)]
        database.run_many(ADD, rows)
        assert sorted(kept(database), key=str) == sorted(rows, key=str), f"{n} rows"
        changed = [(*row(k + 1, k % 16)[1:], rows[k][0]) for k in range(0, n, 2)]
        database.update("boxes", NAMES[1:], changed)
        expected = {one[0]: one for one in rows} | {one[-1]: (one[-1], *one[:-1]) for one in changed}
        assert sorted(kept(database), key=str) == sorted(expected.values(), key=str), f"{n} rows, changed"
        database.run("delete from boxes")


def test_rows_that_are_there_are_added_to(database):
    add = f"{ADD} on conflict (id) do update set number = boxes.number + excluded.number"
    for _ in range(3):
        database.run_many(add, [(f"{k}", k, None, None, None) for k in range(70)])
    assert database.rows("select sum(number), count(*) from boxes") == [(3 * 69 * 70 / 2, 70)]


def test_a_row_that_is_there_fails_all(database):
    database.run_many(ADD, [row(1, 0)])
    database.begin()
    with pytest.raises(StoreError):
        database.run_many(ADD, [row(k, 0) for k in range(5)])
    database.roll_back()
    assert kept(database) == [row(1, 0)]


def test_what_a_transaction_settles_has_one_mark(url):
    """However many statements that takes."""
    store = open_store(url)
    for first in range(2):
        store.begin()
        store.lock([], [], [], 1)
        rows = [
            ImpressionRow(f"{first} {k}", 1, 0, 1, POLICY, "[]", b"", None, None, SETTLED, offer=1)
            for k in range(70)
        ]
        for one in rows[::2]:
            one.reward = 0.5
        store.save(
            Changes(impressions=rows, touched=rows, offers=[OfferRow(1, 1, "[]", "random", 1, 1, 1, 1)])
        )
        store.commit()
    marks = dict(store.database.rows("select id, mark from impressions"))
    assert len(marks) == 140
    assert [len({marks[f"{first} {k}"] for k in range(70)}) for first in range(2)] == [1, 1]
    assert marks["0 0"] < marks["1 0"]
    assert store.database.last_mark() == marks["1 0"]
    store.close()


@only_postgres
def test_after_a_failure_the_next_transaction_works(url):
    """psycopg takes what it sent after a statement that failed for prepared, and it is not."""
    store = open_store(url)
    new = [ImpressionRow(f"{k}", 1, 0, 1, POLICY, "[]", b"", None, None) for k in range(40)]
    for _ in range(10):
        store.begin()
        with pytest.raises(StoreError):
            store.save(Changes(impressions=[new[0], new[0]], touched=new, lessons=[(1, b"")]))
        store.rollback()
        store.begin()
        store.save(Changes(impressions=new, touched=new, lessons=[(1, b"")]))
        store.rollback()
    assert store.database.rows("select count(*) from impressions") == [(0,)]
    store.close()


@only_postgres
def test_text_is_text_whatever_the_connection_was_to_speak(url):
    database = PostgresDatabase(f"{url}&client_encoding=LATIN1")
    database.run("create table words (word text)")
    database.run("insert into words values (?)", ("größe €",))
    assert database.rows("select word, length(word) from words") == [("größe €", 7)]
    database.close()


@only_postgres
def test_what_the_server_says_of_columns_is_a_failure_like_any_other(database, url):
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
    database.begin()
    with pytest.raises(StoreError) as caught:
        database.update("boxes", ("number",), [(1, "x")])
    assert caught.value.retry
    database.begin()
    with database.together():
        database.update("boxes", ("number",), [(1, "x")])
    database.roll_back()


@only_postgres
def test_statements_do_not_become_ever_more(url):
    """Each is written out, and read and planned by the server, once for all times, ids, and nulls in rows."""
    store, chance = open_store(url), random.Random(1)
    planned = "select max(substring(name from '[0-9]+$')::int), count(*) from pg_prepared_statements"
    found = []
    for k in range(300):
        store.begin()
        locked = store.lock([], [f"{k}"], [], 1)
        store.take_due(k, 10, Part(0, 2), locked)
        learning = chance.choices((None, b"", b"x"), k=1 + k % 70)
        new = [
            ImpressionRow(f"{k} {j}", 1, k, k + 1, POLICY, "[]", b"", None, one)
            for j, one in enumerate(learning)
        ]
        store.save(Changes(impressions=new, touched=new))
        store.commit()
        if k in (200, 299):
            found.append((store.database.rows(planned), _own.cache_info().currsize))
    assert found[0] == found[1], "statements planned, and written"
    store.close()
