"""Statements that go to PostgreSQL together are what they would be one by one, and an error spoils nothing after it."""

import math
from enum import StrEnum

import numpy as np
import psycopg
import pytest

from clickbandit.live.stores import postgres_pipeline
from clickbandit.live.stores.postgres_pipeline import ARRAY_OF, Pipeline, Statement, array, write
from live.conftest import only_postgres

pytestmark = only_postgres
VALUES = {
    postgres_pipeline.BOOL: [True, False],
    postgres_pipeline.BYTES: [b"", b"\0\\'\xff", bytearray(b"x"), memoryview(b"y")],
    postgres_pipeline.INT: [0, 1, -1, 2**63 - 1, -(2**63)],
    postgres_pipeline.TEXT: ["", "a'b\\\"{},", "ü\n\t€😀", "null"],
    postgres_pipeline.FLOAT: [0.0, -1.5, 1e300, math.inf, 5e-324],
}


@pytest.fixture
def connection(url):
    with psycopg.connect(url, autocommit=True) as opened:
        yield opened


@pytest.fixture
def pipeline(connection):
    return Pipeline(connection)


def ask(text, *values):
    return Statement(text.encode(), *write(values))


def rows(pipeline, *statements):
    return [result.fetchall() for result in pipeline.run(statements)]


@pytest.mark.parametrize("kind", VALUES)
def test_values_come_back_as_they_were(pipeline, kind):
    values = [None, *VALUES[kind], None]
    plain = [bytes(v) if kind == postgres_pipeline.BYTES and v is not None else v for v in values]
    given = Statement(b"select unnest($1)", (ARRAY_OF[kind],), [array(values, kind)])
    assert rows(pipeline, given) == [[(value,) for value in plain]]
    assert rows(pipeline, *(ask("select $1", value) for value in plain if value is not None)) == [
        [(value,)] for value in plain if value is not None
    ]
    assert rows(pipeline, Statement(b"select unnest($1)", (ARRAY_OF[kind],), [array([], kind)])) == [[]]


def test_values_of_other_types_are_taken_for_what_they_are(pipeline):
    class Name(StrEnum):
        RED = "red"

    given = [np.str_("ü"), Name.RED, np.float64(0.5), True]
    assert rows(pipeline, *(ask("select $1", value) for value in given)) == [[(value,)] for value in given]
    assert rows(pipeline, ask("select unnest($1)", [Name.RED, "x"])) == [[("red",), ("x",)]]
    for wrong in (2**63, object(), [2**63]):
        with pytest.raises(psycopg.DataError):
            ask("select $1", wrong)


def test_lists_are_arrays(pipeline):
    for values in (["a", 'b"\\'], [1, -2]):
        assert rows(pipeline, ask("select unnest($1)", values)) == [[(value,) for value in values]]
    assert rows(pipeline, ask("select 'a' = any($1)", [])) == [[(False,)]]
    assert rows(pipeline, ask("select $1::text", None)) == [[(None,)]]


def test_many_statements_at_once_and_again(pipeline):
    for _ in range(3):
        asked = [ask("select $1 + 1", k) for k in range(100)] + [ask("select $1 || 'x'", "y")]
        assert rows(pipeline, *asked) == [[(k + 1,)] for k in range(100)] + [[("yx",)]]
        assert pipeline.run([]) == []
    assert len(pipeline._names) == 2


def test_they_count_the_rows_that_they_change(pipeline):
    pipeline.run([ask("create temporary table numbers (number bigint)")])
    added, changed, none = pipeline.run(
        [
            ask("insert into numbers select unnest($1)", [1, 2, 3]),
            ask("update numbers set number = 0 where number > $1", 1),
            ask("delete from numbers where number = $1", 9),
        ]
    )
    assert (added.rowcount, changed.rowcount, none.rowcount) == (3, 2, 0)


def test_more_than_a_socket_holds_goes_both_ways(pipeline):
    """Neither waits for the other to read."""
    large = b"x" * 5_000_000
    asked = [ask("select $1", large), ask("select $1 || $2", large, b"y")] * 3
    found = rows(pipeline, *asked)
    assert [len(one[0][0]) for one in found] == [5_000_000, 5_000_001] * 3


def test_after_one_that_fails_none_is_run_and_the_next_are(pipeline):
    pipeline.run([ask("create temporary table numbers (number bigint unique)")])
    for failing in ("insert into numbers values ($1), ($1)", "select nonsense($1)", "select 1 / ($1 - $1)"):
        for _ in range(3):
            with pytest.raises(psycopg.Error) as caught:
                pipeline.run(
                    [
                        ask("insert into numbers values ($1)", 7),
                        ask(failing, 1),
                        ask("insert into numbers values ($1 + 1)", 8),
                        ask("select $1 + 2", 9),
                    ]
                )
            assert caught.value.sqlstate is not None
            assert rows(pipeline, ask("select count(*) from numbers"), ask("select $1 + 2", 9)) == [
                [(0,)],  # together they are a transaction
                [(11,)],
            ]
    assert isinstance(caught.value, psycopg.errors.DivisionByZero)


def test_a_transaction_that_failed_is_ended_by_the_next(pipeline):
    pipeline.run([ask("begin"), ask("create table if not exists numbers (number bigint)")])
    with pytest.raises(psycopg.errors.UndefinedTable):
        pipeline.run([ask("select * from nowhere")])
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        pipeline.run([ask("select 1")])
    pipeline.run([ask("rollback")])
    assert rows(pipeline, ask("select to_regclass('numbers')::text")) == [[(None,)]]


def test_an_error_at_the_end_of_them_all_is_theirs(pipeline):
    """What was put off until then, in a transaction that nobody began."""
    pipeline.run([ask("create temporary table numbers (number bigint unique deferrable initially deferred)")])
    for _ in range(3):
        with pytest.raises(psycopg.errors.UniqueViolation):
            pipeline.run([ask("insert into numbers select unnest($1)", [1, 1]), ask("select 1")])
        assert rows(pipeline, ask("select 42"), ask("select count(*) from numbers")) == [[(42,)], [(0,)]]


def test_only_so_many_are_prepared(pipeline, monkeypatch):
    monkeypatch.setattr(postgres_pipeline, "MAX_PREPARED", 5)
    for _ in range(2):
        found = rows(pipeline, *(ask(f"select $1 + {k}", k) for k in range(20)))
        assert found == [[(2 * k,)] for k in range(20)]
    assert rows(pipeline, ask("select count(*) from pg_prepared_statements"))[0] == [(5,)]


def test_what_failed_is_not_taken_for_prepared_nor_left_behind(pipeline):
    for _ in range(20):
        with pytest.raises(psycopg.Error):
            pipeline.run([ask("select $1 + 1", 1), ask("select 1 / $1", 0), ask("select $1 + 3", 1)])
    (found,) = rows(pipeline, ask("select statement from pg_prepared_statements"))
    assert len(found) <= 4
    assert rows(pipeline, ask("select $1 + 3", 1), ask("select 1 / $1", 1)) == [[(4,)], [(1,)]]


def test_a_connection_that_is_lost_is_an_error(connection, pipeline, url):
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))

    def go_on():
        for _ in range(100):
            pipeline.run([ask("select pg_sleep($1)", 0.05)])

    with pytest.raises(psycopg.OperationalError):
        go_on()
    assert connection.closed


def test_a_connection_that_was_interrupted_is_closed(connection, pipeline, monkeypatch):
    """The answers may come later, and would be taken for those of other statements."""
    with monkeypatch.context() as interrupted:
        interrupted.setattr(pipeline, "_next", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pipeline.run([ask("select 1")])
    assert connection.closed


def test_a_connection_that_is_lost_meanwhile_says_why(connection, pipeline):
    end = ask("select pg_terminate_backend($1::int)", connection.info.backend_pid)
    with pytest.raises(psycopg.errors.AdminShutdown):
        pipeline.run([ask("select 1"), end, ask("select 2")])
    assert connection.closed
