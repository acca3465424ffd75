"""A list that another process may have stored for somebody who waits no longer is void, if it is not an older one."""

import pytest

from clickbandit.live.answers import Operation
from clickbandit.live.http.lists import list_request, read_list
from clickbandit.live.stores.rows import PENDING, SETTLED, VOID
from live.serving import until

ITEMS = list("ABCDEF")


@pytest.mark.parametrize(("later", "outcome"), [(-1, VOID), (0, VOID), (1, PENDING)])
def test_what_was_stored_before_it_was_asked_for_may_have_been_seen(open_ranker, clock, sql, later, outcome):
    """To commit a list and to answer takes more than a millisecond; some who ask again do so at once."""
    ranker = open_ranker()
    shown = ranker.rank("shoes", ITEMS)
    ranker._core._engine.strays.add(shown.id, int(clock.now * 1000) + later)
    ranker.stats()  # settles, so it looks for them
    assert sql("select outcome from impressions") == [(outcome,)]


def test_a_list_that_comes_late_is_found_for_some_seconds(open_ranker, clock, monkeypatch):
    ranker = open_ranker()
    strays = ranker._core._engine.strays
    monkeypatch.setattr(strays, "_look_for", 60.0)
    strays.add("late", int(clock.now * 1000))
    ranker.stats()
    ranker.rank("shoes", ITEMS, id="late")
    clock.now += 1
    ranker.stats()
    assert ranker.query("shoes").summary.pending == 0


@pytest.mark.parametrize("seconds", [0.2, 2.5])
def test_who_may_have_gone_on_without_a_list_can_void_it_although_its_window_is_over(
    open_ranker, clock, sql, monkeypatch, seconds
):
    """A list for another process that took long to be committed, while the store was stopped, say."""
    ranker = open_ranker(window=0.1)
    engine, request = (
        ranker._core._engine,
        list_request(read_list(b'{"query":"shoes","items":["A"],"id":"x"}')),
    )
    commit, done = engine._store.commit, []

    def slow():
        clock.now += seconds
        commit()

    def outcome_after(passed):
        clock.now += passed
        ranker.stats()
        return sql("select outcome from impressions")[0][0]

    with monkeypatch.context() as slowly:
        slowly.setattr(engine._store, "commit", slow)
        engine.submit([Operation(request, "x", done.append, True)])
        until(lambda: done)
    if seconds < 1:
        assert outcome_after(0) == SETTLED
    else:
        assert outcome_after(0) == PENDING
        assert outcome_after(2.9) == PENDING
        assert outcome_after(0.1) == SETTLED
