"""Queries and users that are to be forgotten, and queries that make room: all about them goes, and nothing else."""

import pytest

from clickbandit.live import Unknown, pruning
from clickbandit.live import engine as engine_module
from live.serving import until

ITEMS = list("ABCDEF")
TABLES = ("impressions", "events", "log", "snapshots", "histories")


def visit(ranker, query, n=1, **more):
    """Lists that are clicked and settled."""
    for _ in range(n):
        shown = ranker.rank(query, ITEMS, **more)
        ranker.click(shown.id, shown.items[0])
        ranker.settle(shown.id)
    return shown


def test_a_query_is_deleted_with_all_about_it(open_ranker, sql):
    ranker = open_ranker(policy="batchrank", horizon=10)
    visit(ranker, "hats", 3)
    expected = ranker.query("hats"), [sql(f"select * from {table}") for table in TABLES]
    shown = visit(ranker, "shoes", 150)
    pending = ranker.rank("shoes", ITEMS)
    assert ranker.delete("shoes") == 151
    assert (ranker.query("hats"), [sql(f"select * from {table}") for table in TABLES]) == expected
    assert ranker.click(pending.id, pending.items[0]).verdict == "unknown"
    for call in (ranker.delete, ranker.query, ranker.verify, ranker.history):
        with pytest.raises(Unknown):
            call("shoes")
    with pytest.raises(Unknown):
        ranker.settle(shown.id)
    visit(ranker, "shoes", 3)  # another query of the same name, which knows nothing
    detail = ranker.query("shoes")
    assert (detail.summary.impressions, detail.summary.learned, detail.generation) == (3, 3, 1)
    assert ranker.verify("shoes")
    ranker.close()
    again = open_ranker(policy="batchrank", horizon=10)
    assert again.query("shoes") == detail
    assert again.verify("shoes")
    assert again.verify("hats")


def test_a_user_is_forgotten_and_what_was_learned_stays(open_ranker, sql):
    ranker = open_ranker(policy="batchrank", horizon=10)
    for k in range(5):
        visit(ranker, "shoes", 3, user=f"user {k}")
    visit(ranker, "hats", 2)
    pending = ranker.rank("shoes", ITEMS, user="user 1")
    before = ranker.query("shoes")
    assert ranker.forget("user 1") == 4
    assert ranker.forget("user 1") == 0
    after = ranker.query("shoes")
    assert after.learned["items"] == before.learned["items"]
    assert (after.summary.learned, after.summary.voided) == (15, 1)
    assert ranker.click(pending.id, pending.items[0]).verdict == "unknown"
    users = [user for (user,) in sql('select "user" from impressions order by number')]
    assert users == [f"user {k}" for k in (0, 2, 3, 4) for _ in range(3)] + [None] * 2
    assert len(sql("select * from events")) == 14
    hats = sql("select id from queries where name = 'hats'")[0][0]
    assert {query for (query,) in sql("select query from log")} == {hats}  # it has lists and clicks of theirs
    assert ranker.verify("shoes")
    visit(ranker, "shoes", 5)
    assert ranker.verify("shoes")
    ranker.close()
    again = open_ranker(policy="batchrank", horizon=10)
    assert again.verify("shoes")
    assert again.query("shoes").summary.learned == 20


def test_a_user_with_more_than_is_forgotten_at_once(open_ranker, sql, monkeypatch):
    monkeypatch.setattr(engine_module, "MAX_FORGOTTEN", 3)
    ranker = open_ranker()
    visit(ranker, "shoes", 8, user="me")
    assert ranker.forget("me") == 8
    assert sql("select * from events") == []


def test_queries_of_no_use_make_room(open_ranker, clock, monkeypatch):
    """Those that nobody asked for since an hour, and that learned nothing; what someone set or learned stays."""
    monkeypatch.setattr(pruning, "PAUSE", 0.0)
    ranker = open_ranker(max_queries=5)
    ranker.void(ranker.rank("junk", ITEMS).id)
    visit(ranker, "learned")
    ranker.reset("set up", positions=2)
    ranker.void(ranker.rank("frozen", ITEMS).id)
    ranker.freeze("frozen")
    clock.now += 3700
    ranker.void(ranker.rank("new junk", ITEMS).id)
    assert ranker.rank("sixth", ITEMS).source == "fallback"
    until(lambda: ranker.rank("sixth", ITEMS).source == "policy")
    names = [summary.query for summary in ranker.queries().queries]
    assert names == ["frozen", "learned", "new junk", "set up", "sixth"]
    assert ranker.rank("seventh", ITEMS).source == "fallback"
