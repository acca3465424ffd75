"""What becomes of a list that is asked of another worker."""

import asyncio
from concurrent.futures import Future
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from clickbandit.live.answers import Operation
from clickbandit.live.http import elsewhere
from clickbandit.live.http.lists import list_request, read_list
from clickbandit.live.http.mailbox import Mailbox
from clickbandit.live.http.wire import FAILED, RANK, Away, Unasked
from clickbandit.live.values import Shown, StoreError
from live.serving import until


@pytest.mark.parametrize(("error", "is_void"), [(Away(), True), (Unasked(), False)])
def test_when_a_list_was_asked_for_is_told_however_long_somebody_waited(error, is_void):
    """Should another be shown: what the other worker made since then is void, if it was asked at all."""
    now, disowned, waiting = [100_000], [], Future()
    ranker = SimpleNamespace(
        now=lambda: now[0],
        begin=lambda request, waiting: waiting.set_result(SimpleNamespace(id="another")),
        disown=lambda request, asked: disowned.append((request.id, asked)),
    )
    request = list_request(read_list(b'{"query":"shoes","items":["A"]}')).with_id("x")
    asked = elsewhere.Elsewhere(ranker, request, waiting)
    now[0] += 3000
    asked.set_exception(error)
    assert (disowned, waiting.result().id) == ([("x", 100_000)] * is_void, "another")


@pytest.mark.parametrize("by_another", [False, True])
def test_what_nobody_here_waits_for_may_be_shown_elsewhere(open_ranker, monkeypatch, by_another):
    """What was answered in the given order while it was committed is void, unless another worker asked for it.

    And nobody gets it: whoever gave it up answers, be it a moment later.
    """
    ranker = open_ranker(policy="random")
    engine, done = ranker._core._engine, {}
    commit, request = engine._store.commit, list_request(read_list(b'{"query":"shoes","items":["A"]}'))

    def slow():
        engine._given_up.append(request.id)  # as the watchman does
        commit()

    with monkeypatch.context() as slowly:
        slowly.setattr(engine._store, "commit", slow)
        engine.submit([Operation(request, request.id, done.update, by_another)])
        until(lambda: ranker.query("shoes").summary.impressions)
    ranker.stats()  # after another transaction
    assert ranker.query("shoes").summary.voided == (not by_another)
    assert not done


@pytest.mark.parametrize(("source", "kind"), [("policy", RANK), ("fallback", FAILED)])
def test_only_a_list_that_is_stored_is_sent_to_who_asked(source, kind):
    """Who asked makes one by itself otherwise."""

    async def answer():
        sent = []
        box = Mailbox(lambda shown: {"id": shown.id})
        wire = SimpleNamespace(send=lambda *message: sent.append(message))
        at = datetime.now(UTC)
        box._answer([((wire, 7), Shown("x", "shoes", ("A",), (1.0,), "random", source, at))])
        box.close()
        return sent

    ((number, found, _),) = asyncio.run(answer())
    assert (number, found) == (7, kind)


@pytest.mark.parametrize("by_another", [False, True])
def test_what_was_given_up_before_it_is_committed_is_not_stored(open_ranker, monkeypatch, by_another):
    ranker = open_ranker(policy="random")
    engine, tried = ranker._core._engine, []
    save, request = engine._store.save, list_request(read_list(b'{"query":"shoes","items":["A"]}'))

    def slow(changes):
        tried.append(changes)
        engine._given_up.append(request.id)  # as the watchman does
        save(changes)

    with monkeypatch.context() as slowly:
        slowly.setattr(engine._store, "save", slow)
        engine.submit([Operation(request, request.id, lambda pairs: None, by_another)])
        until(lambda: tried)
    assert ranker.stats().impressions == 0


@pytest.mark.parametrize("retry", [False, True])
def test_a_list_that_was_seen_is_not_void_because_it_is_asked_for_again_in_vain(
    open_ranker, monkeypatch, retry
):
    """Right after the batch that made it, in a transaction that fails before it makes anything."""
    ranker = open_ranker(policy="random")
    engine, request = (
        ranker._core._engine,
        list_request(read_list(b'{"query":"shoes","items":["A"],"id":"x"}')),
    )
    lock, failures = engine._store.lock, [StoreError("somebody else was quicker", retry=retry)]
    ranker.rank("shoes", ["A"], id="x")

    def slow(*args):
        if failures:
            engine._given_up.append("x")  # as the watchman does
            raise failures.pop()
        return lock(*args)

    with monkeypatch.context() as slowly:
        slowly.setattr(engine._store, "lock", slow)
        engine.submit([Operation(request, "x", lambda pairs: None)])
        until(lambda: not failures)
    until(lambda: ranker.rank("others", ["A"]).source == "policy")
    assert ranker.click("x", "A").verdict == "accepted"
    assert ranker.settle("x").outcome == "settled"
