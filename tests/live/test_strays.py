"""A list that another process may have stored for somebody who waits no longer is void, if it is not an older one."""

import pytest

from clickbandit.live.stores.rows import PENDING, VOID

ITEMS = list("ABCDEF")


@pytest.mark.parametrize(("later", "outcome"), [(0, VOID), (3, VOID), (4, PENDING)])
def test_what_was_stored_some_milliseconds_before_may_be_what_was_asked_for(
    open_ranker, clock, sql, later, outcome
):
    """Two processes read their clocks one after the other, and so may differ a little."""
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
