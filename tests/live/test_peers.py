"""Workers of one service: each query's lists are made by one of them, and whoever is asked answers for all."""

import json
import time
from contextlib import ExitStack

import psycopg
import pytest

from clickbandit.live import AsyncRanker
from clickbandit.live import engine as engine_module
from clickbandit.live.answers import Operation
from clickbandit.live.http import mailbox
from clickbandit.live.http import peers as peers_module
from clickbandit.live.http.lists import list_request, read_list
from clickbandit.live.http.peers import Peers
from clickbandit.live.stores.contract import LATE, Part
from clickbandit.live.stores.rows import PENDING, VOID
from clickbandit.live.values import StoreError
from live.conftest import only_postgres
from live.serving import metrics, serve, until

pytestmark = only_postgres
N = 2
OWN, OTHERS = ([f"query {k}" for k in range(40) if Part(of=N).owner(f"query {k}") == n] for n in range(N))

PLAIN = json.dumps({"query": OTHERS[1], "items": list("ABCDEF")}).encode()


@pytest.fixture
def workers(url, clock, folder, monkeypatch):
    """Two, with the means to end the second; neither gives up on the other, however busy the machine is."""
    monkeypatch.setattr(peers_module, "PATIENCE", 30.0)
    with ExitStack() as stack:
        services, ends = [], []
        for number in range(N):
            ranker = AsyncRanker(url, policy="random", positions=3, clock=clock)
            end = stack.enter_context(ExitStack())
            services.append(end.enter_context(serve(ranker, peers=Peers(folder, Part(number, N)))))
            ends.append(end.close)
        for service in services:
            peers = service.service.api.peers
            for other in (*peers.others.values(), *peers.rankers.values()):
                until(lambda other=other: other._answers)
        yield services, ends


def ranked(service):
    return service.service.api.ranker.counts()["ranked"].get("policy", 0)


def test_a_query_is_one_workers_own(workers):
    (first, second), _ = workers
    for service in (first, second):
        for query in OWN[:3] + OTHERS[:3]:
            answer = service.rank(query)
            assert (len(answer["items"]), answer["source"]) == (3, "policy")
    assert (ranked(first), ranked(second)) == (6, 6)
    assert [service.service.api.ranker.counts()["loaded"] for service in (first, second)] == [3, 3]


def test_the_same_id_gives_the_same_list_whoever_is_asked(workers):
    (first, second), ends = workers
    asked = {"query": OTHERS[0], "id": "x"}
    answer = first.rank(**asked)
    assert second.rank(**asked) == answer
    refused = first.post("/v1/rank", {**asked, "items": ["A"]})
    assert (refused.status, "another request" in refused.detail) == (409, True)
    assert first.post("/v1/rank", {"query": OTHERS[0], "items": ["A", "A"]}).status == 422
    ends[1]()  # its owner is gone
    assert first.rank(**asked) == answer
    assert first.rank(OTHERS[1])["source"] == "policy"
    assert first.events({"id": "x", "item": answer["items"][0]["id"]})[0]["verdict"] == "accepted"


def test_an_owner_is_asked_for_all_that_was_said(workers):
    (first, second), _ = workers
    said = {
        "id": "x",
        "pinned": {"B": 1},
        "excluded": ["C"],
        "user": "Ada",
        "scores": [6, 5, 4, 3, 2, 1],
        "features": [[k] for k in range(6)],
        "context": [0.5],
    }
    answer = first.rank(OTHERS[0], **said)
    assert (answer["items"][0]["id"], "C" in json.dumps(answer)) == ("B", False)
    assert second.rank(OTHERS[0], **said) == answer
    for name in set(said) - {"id", "user"}:  # which no other request for it may leave out
        less = {key: value for key, value in said.items() if key != name}
        for service in (first, second):
            refused = service.post("/v1/rank", {"query": OTHERS[0], "items": list("ABCDEF"), **less})
            assert (refused.status, "another request" in refused.detail) == (409, True), name
    assert second.send("DELETE", "/v1/users/Ada").json == {"impressions": 1}


def test_an_owner_that_hangs_is_left_alone(workers, monkeypatch):
    (first, second), _ = workers
    monkeypatch.setattr(peers_module, "PATIENCE", 0.1)
    with monkeypatch.context() as hung:
        hung.setattr(second.service.api._mailbox, "collect", list)
        started = time.monotonic()
        assert first.rank(OTHERS[0])["source"] == "policy"
        assert time.monotonic() - started < 5
        assert (ranked(first), ranked(second)) == (1, 0)
        assert first.rank(OTHERS[0])["source"] == "policy"  # nobody waits for it again
    until(lambda: next(iter(first.service.api.peers.rankers.values()))._answers)
    assert first.rank(OTHERS[1])["source"] == "policy"
    until(lambda: ranked(second) >= 1)


def test_an_owner_that_fails_is_not_needed(workers, monkeypatch, caplog):
    (first, second), _ = workers
    with monkeypatch.context() as broken:
        broken.setattr(mailbox, "read_request", lambda content: 1 / 0)
        assert first.rank(OTHERS[0])["source"] == "policy"
        broken.undo()
        broken.setattr(second.service.api._mailbox, "_listed", lambda shown: 1 / 0)
        assert first.rank(OTHERS[1])["source"] == "policy"
    assert (ranked(first), "cannot be read" in caplog.text, "cannot be sent" in caplog.text) == (
        2,
        True,
        True,
    )
    assert first.rank(OTHERS[0])["source"] == "policy"
    assert ranked(first) == 2


def test_a_list_that_comes_too_late_is_the_one_that_was_made_instead(workers, monkeypatch):
    """Its id was new when the owner was asked, which then finds it taken; what is in the same batch is unharmed."""
    (first, second), _ = workers
    box, held = second.service.api._mailbox, []
    collect = box.collect
    with monkeypatch.context() as slow:
        slow.setattr(peers_module, "PATIENCE", 0.1)
        slow.setattr(box, "collect", lambda: held.extend(collect()) or [])
        made = first.rank(OTHERS[0])
    assert [operation.request.id for operation in held] == [made["id"]]
    results = {}
    requests = [held[0].request, list_request(read_list(PLAIN))]
    second.service.api.ranker._engine.submit([Operation(one, one.id, results.update) for one in requests])
    until(lambda: len(results) == 2)
    late, new = (results[one.id] for one in requests)
    assert [late.id, *late.items] == [made["id"], *(item["id"] for item in made["items"])]
    assert new.source == "policy"
    counts = second.service.api.ranker.counts()
    assert (counts["failures"], counts["ranked"]) == (0, {"policy": 2})
    assert first.events({"id": made["id"], "item": late.items[0]})[0]["verdict"] == "accepted"


@pytest.mark.parametrize("again", [False, True])
def test_what_an_owner_makes_too_late_is_void_if_another_list_was_shown(
    workers, monkeypatch, clock, sql, again
):
    """Unless it was made long before, and may have been seen."""
    (first, second), _ = workers
    given_up, seconds = {"query": OTHERS[0], "id": "given up"}, second.service.api.ranker._engine
    strays = first.service.api.ranker._engine.strays
    if again:
        strays._look_for = 0.2
        second.rank(**given_up)
        clock.now += 10
    box, held = second.service.api._mailbox, []
    collect, store = box.collect, first.service.api.ranker._engine._store
    with monkeypatch.context() as slow:
        slow.setattr(peers_module, "PATIENCE", 0.1)
        slow.setattr(box, "collect", lambda: held.extend(collect()) or [])
        for name in ("begin", "probe"):
            slow.setattr(store, name, raising(StoreError("away")))
        answer = first.rank(**given_up)
    assert (answer["source"], answer["id"] == "given up") == ("fallback", False)
    # it is looked for first when it is not there yet
    until(lambda: not strays._new and all(one.until < float("inf") for one in strays._known))
    results = {}
    seconds.submit([Operation(one.request, one.request.id, results.update) for one in held])
    until(lambda: results)
    assert results["given up"].source == "policy"
    outcome = "select outcome from impressions where id = 'given up'"
    until(lambda: not strays._known or sql(outcome) == [(VOID,)])
    assert sql(outcome) == [(PENDING if again else VOID,)]


def raising(error):
    def fail(*given):
        raise error

    return fail


def test_while_its_store_is_away_nobody_waits_for_an_owner(workers, monkeypatch):
    """It turns the others away, and looks for its store now and then; when that is there it is asked again."""
    (first, second), _ = workers
    store = second.service.api.ranker._engine._store
    (peer,) = first.service.api.peers.rankers.values()
    probes = []

    def fail():
        probes.append(time.monotonic())
        raise StoreError("away")

    with monkeypatch.context() as away:
        away.setattr(store, "probe", fail)
        away.setattr(store, "begin", fail)
        assert second.rank(OTHERS[0])["source"] == "fallback"
        until(lambda: not peer._answers)
        started, before = time.monotonic(), len(probes)
        while time.monotonic() < started + 1:  # in which it connects again
            assert first.rank(OTHERS[0])["source"] == "policy"
        assert len(probes) - before <= (time.monotonic() - started) / engine_module._PROBE_PAUSE + 2
        assert (ranked(first) > 10, ranked(second)) == (True, 0)
    until(lambda: peer._answers)
    assert first.rank(OTHERS[0])["source"] == "policy"
    assert ranked(second) == 1


def test_a_worker_that_cannot_tell_its_figures_is_left_out(workers, monkeypatch):
    (first, second), _ = workers
    with monkeypatch.context() as broken:
        broken.setattr(second.service.api.ranker, "counts", lambda: 1 / 0)
        assert [worker["number"] for worker in first.get("/v1/health").json["workers"]] == [0]
    assert [worker["number"] for worker in first.get("/v1/health").json["workers"]] == [0, 1]


def test_a_mistake_in_collecting_does_not_end_the_ranker(workers, monkeypatch, caplog):
    (_, second), _ = workers
    with monkeypatch.context() as broken:
        broken.setattr(second.service.api._mailbox, "collect", lambda: 1 / 0)
        assert second.rank(OTHERS[0])["source"] == "policy"
    assert "cannot be collected" in caplog.text


def test_whoever_is_asked_answers_for_all(workers):
    (first, second), ends = workers
    for query in OWN[:2] + OTHERS[:3]:
        first.rank(query)
    second.get("/nowhere")
    for service in (first, second):
        health = service.get("/v1/health").json
        assert [(worker["number"], worker["learners"]) for worker in health["workers"]] == [(0, 2), (1, 3)]
        assert health["expected_workers"] == 2
        latency = {entry["endpoint"]: entry["requests"] for entry in health["latency"]}
        assert (latency["/v1/rank"], latency["none"], health["refused"]) == (5, 1, 1)
        stats = service.get("/v1/stats").json
        assert (stats["ranked"], stats["learners"], stats["impressions"]) == ({"policy": 5}, 5, 5)
        found = metrics(service)
        assert (found["clickbandit_workers",], found["clickbandit_learners",]) == (2, 5)
    ends[1]()
    until(lambda: len(first.get("/v1/health").json["workers"]) == 1)
    assert metrics(first)["clickbandit_workers",] == 1


def settled(service, query):
    return service.get(f"/v1/queries/{query.replace(' ', '%20')}").json["summary"]["settled"]


def test_what_is_due_is_settled_by_its_owner_or_late_by_another(workers, clock):
    (first, second), ends = workers
    for query in (OWN[0], OTHERS[0]):
        first.rank(query)
    ends[1]()
    clock.now += 1801
    until(lambda: settled(first, OWN[0]) == 1)
    assert settled(first, OTHERS[0]) == 0  # it may still be on its way
    clock.now += LATE / 1000
    until(lambda: settled(first, OTHERS[0]) == 1)
    assert second is not None


def test_nobody_waits_for_what_is_due_and_held_by_another(workers, clock, sql, url):
    """As long as someone holds its query, it is left for the next time."""
    (first, _), _ = workers
    for query in OWN[:2]:
        first.rank(query)
    with psycopg.connect(url) as other:
        other.execute(f"select * from queries where name = '{OWN[0]}' for update")
        clock.now += 1801
        until(lambda: sql("select count(*) from impressions where outcome = 1") == [(1,)])
        assert first.rank(OWN[1])["source"] == "policy"
    until(lambda: sql("select count(*) from impressions where outcome = 1") == [(2,)])
