"""Lists, events and impressions over HTTP: as the documentation says, and what is wrong is explained."""

import json
import time
from contextlib import suppress

import pytest

from clickbandit.live import Client
from clickbandit.live.http.events import _UNREADABLE, read_events

ITEMS = list("ABCDEF")
WINDOW = 1800


# --- rank ---------------------------------------------------------------------------------------------------


def test_a_list_to_show(service):
    answer = service.rank(id="x")
    assert set(answer) == {"id", "items", "policy", "source", "expires_at"}
    assert answer["id"] == "x"
    assert answer["policy"] == "random"
    assert answer["source"] == "policy"
    assert answer["expires_at"] == "2023-11-14T22:43:20Z"
    assert [item["position"] for item in answer["items"]] == [1, 2, 3]
    assert len({item["id"] for item in answer["items"]} & set(ITEMS)) == 3
    assert all(set(item) == {"id", "position", "propensity"} for item in answer["items"])


def test_estimated_propensities(open_service):
    """Are marked by their errors, kept with the impression, and known to the client."""
    served = open_service({"policy": "ranked-exp3", "propensity_draws": 40})
    answer = served.rank("shoes", ITEMS, id="one")
    for item in answer["items"]:
        assert 1 / 41 <= item["propensity"] <= 1
        assert 0 < item["propensity_error"] < 0.1
    assert served.rank("shoes", ITEMS, id="one") == answer
    with Client(served.url) as client:
        shown = client.rank("shoes", ITEMS, id="one")
    assert shown.propensities == tuple(item["propensity"] for item in answer["items"])
    assert shown.errors == tuple(item["propensity_error"] for item in answer["items"])


def test_rank_is_idempotent(service):
    first = service.rank(id="x")
    assert service.rank(id="x") == first
    other = service.post("/v1/rank", {"query": "boots", "items": ITEMS, "id": "x"})
    assert other.status == 409
    assert "another request" in other.detail
    assert service.get("/v1/queries/shoes").json["summary"]["impressions"] == 1


def test_pinned_and_excluded(service):
    answer = service.rank(pinned={"F": 1}, excluded=["A", "B"], positions=3)
    shown = [item["id"] for item in answer["items"]]
    assert shown[0] == "F"
    assert set(shown) <= set("CDEF")
    assert answer["source"] == "rules"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "missing required field `query`"),
        ({"query": "q"}, "missing required field `items`"),
        ({"query": "q", "items": ["A"], "colour": 1}, "unknown field `colour`"),
        ({"query": 5, "items": ["A"]}, "Expected `str`, got `int` - at `$.query`"),
        ({"query": "q", "items": "A"}, "Expected `array`"),
        ({"query": "q", "items": ["A", "A"]}, "found 'A' twice"),
        ({"query": "", "items": []}, "from 1 to 1,000 characters"),
        ({"query": "q", "items": [""]}, "an item must have"),
        ({"query": "q", "items": ["a\0b"]}, "without zero characters"),
        ({"query": "q", "items": [str(i) for i in range(1001)]}, "at most 1,000 items, found 1,001"),
        ({"query": "q", "items": ["A"], "positions": 51}, "from 1 to 50, found 51"),
        ({"query": "q", "items": ["A"], "positions": 0}, "from 1 to 50, found 0"),
        ({"query": "q", "items": ["A"], "positions": 10**30}, "from 1 to 50"),
        ({"query": "q", "items": ["A"], "pinned": {"Z": 1}}, "must be one of the items"),
        ({"query": "q", "items": ["A"], "id": ""}, "id must have from 1 to 200"),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_a_wrong_body_is_explained(standing, body, says):
    answer = standing.post("/v1/rank", body)
    assert answer.status == 422
    assert says in answer.detail
    assert standing.get("/v1/queries/q").status == 404


def test_requests_at_the_limits_are_served(service):
    items = ["\N{GRINNING FACE}" * 196 + f"{i:04}" for i in range(1000)]
    body = json.dumps(
        {"query": "x" * 1000, "items": items, "positions": 50, "id": "y" * 200}, ensure_ascii=False
    )
    answer = service.post("/v1/rank", body.encode())
    assert answer.status == 200
    assert len(answer.json["items"]) == 50


def test_there_may_be_no_more_queries(open_service):
    service = open_service({"max_queries": 1})
    service.rank("shoes")
    assert service.rank("boots")["source"] == "fallback"
    answer = service.post("/v1/queries/boots/reset")
    assert answer.status == 403
    assert "as many as there may be" in answer.detail
    assert service.rank("shoes")["source"] == "policy"


# --- events -------------------------------------------------------------------------------------------------


def test_a_verdict_for_each_event(service, clock):
    shown = [item["id"] for item in service.rank(id="x")["items"]]
    service.rank(id="old")
    service.post("/v1/impressions/old/settle")
    late = service.rank(id="old")["items"][0]["id"]
    results = service.events(
        {"id": "x", "item": shown[0], "event_id": "e1", "timestamp": "2024-05-01T12:00:00Z"},
        {"id": "x", "item": shown[0], "event_id": "e1"},
        {"id": "old", "item": late, "event_id": "e2"},
        {"id": "nowhere", "item": "A", "event_id": "e3"},
        {"id": "x", "item": "Z", "event_id": "e4"},
        {"id": "x", "item": shown[1]},
    )
    assert [(result["event_id"], result["verdict"]) for result in results] == [
        ("e1", "accepted"),
        ("e1", "duplicate"),
        ("e2", "late"),
        ("e3", "unknown"),
        ("e4", "invalid"),
        (None, "accepted"),
    ]
    assert "reason" not in results[0]
    assert results[4]["reason"] == "the impression 'x' has no item 'Z'"
    settled = service.post("/v1/impressions/x/settle").json
    assert settled == {"id": "x", "outcome": "settled", "clicked": shown[:2]}


def test_one_bad_event_spoils_nothing(service):
    shown = [item["id"] for item in service.rank(id="x")["items"]]
    bad = [
        5,
        None,
        [],
        "x",
        {},
        {"id": "x"},
        {"id": 5, "item": "A"},
        {"id": "x", "item": shown[0], "colour": 1},
    ]
    bad += [{"id": "x", "item": shown[0], "timestamp": when} for when in ("yesterday", "2024-05-01", 5, {})]
    bad += [{"id": "x", "item": shown[0], "event_id": id} for id in ("", 5, "x" * 201, "\x1f")]
    results = service.events(*bad, {"id": "x", "item": shown[0], "event_id": "good"}, *bad)
    assert [result["verdict"] for result in results] == ["invalid"] * 16 + ["accepted"] + ["invalid"] * 16
    assert all(result["reason"] for result in results if result["verdict"] == "invalid")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "missing required field `events`"),
        ({"events": {}}, "Expected `array`"),
        ({"events": [], "more": 1}, "unknown field `more`"),
        ({"events": [{"id": "x", "item": "A"}] * 10_001}, "at most 10,000 events"),
        (5, "Expected `object`"),
    ],
)
def test_a_wrong_batch_is_explained(standing, body, says):
    answer = standing.post("/v1/events", body)
    assert answer.status == 422
    assert says in answer.detail


def test_no_events(standing):
    assert standing.events() == []
    assert standing.post("/v1/events", []).json == {"results": []}


def ubi(query_id, object_id, action="click", **more):
    """As the reference collector of UBI sends it."""
    return {
        "application": "shop",
        "action_name": action,
        "query_id": query_id,
        "session_id": "s",
        "client_id": "c",
        "user_id": "",
        "timestamp": "2024-05-01T12:00:00.123Z",
        "message_type": "INFO",
        "message": "",
        "event_attributes": {
            "object": {"object_id": object_id, "object_id_field": "sku", "description": None, "price": 5},
            "position": {"ordinal": 1},
        },
        **more,
    }


def test_ubi_events_are_taken_as_they_are(service):
    shown = [item["id"] for item in service.rank(items=["1", "2", "3"], id="x")["items"]]
    sent = [ubi("x", int(shown[0])), ubi("x", shown[1], "click_through"), ubi("x", shown[1])]
    answer = service.post("/v1/events", sent)
    assert answer.json["results"] == [
        {"event_id": None, "verdict": "accepted"},
        {"event_id": None, "verdict": "accepted"},
        {"event_id": None, "verdict": "duplicate"},
    ]
    assert [result["verdict"] for result in service.events(*sent)] == ["duplicate"] * 3
    assert service.post("/v1/impressions/x/settle").json["clicked"] == shown[:2]


@pytest.mark.parametrize("when", [None, 1714564800000, "2024-05-01T12:00:00", "2024-05-01T12:00:00+02:00"])
def test_times_of_ubi_events(standing, when):
    shown = standing.rank()
    assert (
        standing.events(ubi(shown["id"], shown["items"][0]["id"], timestamp=when))[0]["verdict"] == "accepted"
    )


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (ubi("x", "A", "purchase"), "one of the rewards (none are set), found 'purchase'"),
        (ubi("x", "A", 5), "action must be text"),
        (ubi("x", "A", None), "as action_name"),
        (ubi(None, "A"), "as query_id"),
        (ubi(5, "A"), "id must be text"),
        (ubi("x", None), "event_attributes.object.object_id"),
        (ubi("x", 1.5), "item must be text"),
        (ubi("x", True), "item must be text"),
        (ubi("x", "A", event_attributes=5), "event_attributes.object.object_id"),
        (ubi("x", "A", event_attributes={"object": []}), "event_attributes.object.object_id"),
        (ubi("x", "A", timestamp="soon"), "timestamp must be"),
        (ubi("x", "A", timestamp=10**300), "timestamp must be"),
        ({"query_id": "x", "item": "A"}, "as action_name"),
    ],
)
def test_ubi_events_that_are_no_clicks(standing, event, says):
    (result,) = standing.events(event)
    assert result["verdict"] == "invalid"
    assert says in result["reason"]


# --- impressions --------------------------------------------------------------------------------------------


def test_settle_and_void(service):
    service.rank(id="a/b")
    for _ in range(2):
        assert service.post("/v1/impressions/a%2Fb/void").json == {
            "id": "a/b",
            "outcome": "void",
            "clicked": [],
        }
    answer = service.post("/v1/impressions/a%2Fb/settle")
    assert answer.status == 409
    assert "is void already" in answer.detail
    for what in ("settle", "void"):
        answer = service.post(f"/v1/impressions/none/{what}")
        assert answer.status == 404
        assert "there is no impression 'none'" in answer.detail


def test_windows_go_by_the_servers_clock(service, clock):
    item = service.rank(id="x")["items"][0]["id"]
    clock.now += WINDOW
    assert (
        service.events({"id": "x", "item": item, "timestamp": "2020-01-01T00:00:00Z"})[0]["verdict"] == "late"
    )
    assert service.get("/v1/queries/shoes").json["summary"]["late"] == 1


BAD_EVENTS = {
    "a cut emoji": rb'{"id": "x", "item": "\ud83d"}',
    "half of a text": rb'{"id": "x", "item": "\x"}',
    "deep nesting": b"[" * 5000 + b"]" * 5000,
    "deep objects": b'{"id":' * 5000 + b"1" + b"}" * 5000,
    "a huge number": b'{"id": "x", "item": 1e999}',
    "a long number": b'{"id": "x", "item": ' + b"9" * 5000 + b"}",
    "no UTF-8": b'{"id": "x", "item": "\xff"}',
    "a control character": b'{"id": "x", "item": "\x01"}',
    "no number": b'{"id": NaN}',
    "nothing": b"",
    "brackets in a text": rb'{"id": "]}\",[", "item": "\ud83d"}',
    "an unknown field": b'{"id": "x", "item": "A", "colour": 1}',
}


@pytest.mark.parametrize("bad", BAD_EVENTS.values(), ids=BAD_EVENTS)
@pytest.mark.parametrize("around", [b'{"events": [%b]}', b" [%b]\n"])
def test_one_bad_event_spoils_nothing_for_the_others(service, bad, around):
    """Whatever it is: a verdict for each event, always."""
    item = service.rank(id="x")["items"][0]["id"]
    good = [json.dumps({"id": "x", "item": item, "event_id": f"e{k}"}).encode() for k in range(3)]
    answer = service.post("/v1/events", around % b",".join([good[0], bad, good[1], bad, good[2]]))
    assert answer.status == 200, answer.body
    results = answer.json["results"]
    assert [result["verdict"] for result in results] == [
        "accepted",
        "invalid",
        "accepted",
        "invalid",
        "accepted",
    ]
    assert all(result["reason"] for result in results[1::2])


NO_EVENT = [b"{", b"}", b'{"a":[}', b"[1}", b'{"id":"x","item":"A"B"}', rb'{"id":"x","item":"A\"}']
"""Each might end in many places."""
EVENT = b'{"id": "x", "item": "A"}'


@pytest.mark.parametrize(
    "body",
    [
        *(b'{"events": [{"id": "x"', b'{"events": [1}]', b'{"events": [1]} 2', b"[1]]", b'{"x": [NaN]}'),
        *(b'{"events": [%b]}' % b",".join([EVENT, bad, EVENT]) for bad in NO_EVENT),
        *(b"[%b]" % b",".join([EVENT, bad, bad, rb'{"id": "\"x\""}', EVENT]) for bad in NO_EVENT),
    ],
)
def test_where_events_cannot_be_told_apart(standing, body):
    """None is taken, for some would be dropped and nobody told."""
    assert standing.post("/v1/events", body).status in (400, 422)


@pytest.mark.parametrize("event", [b"", b"0", EVENT], ids=["nothing", "a number", "in order"])
@pytest.mark.parametrize("around", [b'{"events": [%b]}', b"[%b]"])
def test_too_many_events_are_not_looked_at(standing, event, around, monkeypatch):
    looked_at = []
    for name in ("click", "_read_event"):
        monkeypatch.setattr(f"clickbandit.live.http.events.{name}", lambda *given: looked_at.append(given))
    answer = standing.post("/v1/events", around % b",".join([event] * 10_001))
    assert (answer.status, looked_at) == (422, [])
    assert "at most 10,000 events can be given at once, found 10,001" in answer.detail


N = 2**18
LONG = {
    "texts without end": b'{"events":["' + rb"\"" * N,
    "marks": b"[" + b'"' * N,
    "backslashes": b'["' + b"\\" * N,
    "brackets": b"[" * N,
    "brackets that close": b"[1,[" + b"[" * N + b"]" * N + b"],x]",
    "commas inside": b"[x,[" + b"," * N + b"]]",
    "spaces before": b" " * N,
    "spaces after": b"[x]" + b" " * N + b"x",
    "spaces after a text": b'[x,"a"' + b" " * N,
}


@pytest.mark.parametrize("body", LONG.values(), ids=LONG)
def test_a_body_is_read_in_time_that_grows_with_its_length(body):
    """A tenth of a second; where it grows with the square of it, minutes."""
    started = time.monotonic()
    with suppress(*_UNREADABLE):
        read_events(body)
    assert time.monotonic() - started < 10


def test_items_over_http_may_bring_what_is_known_of_them(open_service):
    """It is as if it stood beside them; each for all items or for none."""
    service = open_service({"policy": "cts", "prior": "scores"})
    items = [{"id": "A", "score": 0.2}, {"id": "B", "score": 0.9}, {"id": "C", "score": 0.5}]
    brought = service.rank(query="q", id="1", items=items)
    assert brought == service.rank(query="q", id="1", items=["A", "B", "C"], scores=[0.2, 0.9, 0.5])
    featured = [{"id": name, "features": [number]} for number, name in enumerate("ABC")]
    assert (
        service.rank(query="f", id="2", items=featured)["items"]
        == (service.rank(query="f", id="2", items=["A", "B", "C"], features=[[0], [1], [2]])["items"])
    )
    assert service.rank(query="n", items=["A", {"id": "B"}])["items"]
    for wrong, message in (
        ({"items": ["A", {"id": "B", "score": 1}]}, "score must be given for each item"),
        ({"items": [{"id": "A", "score": 1}], "scores": [1]}, "found them and scores too"),
        ({"items": [{"id": "A", "score": "x"}]}, "Expected `float | null`, got `str`"),
        ({"items": [{"id": "A", "worth": 1}]}, "unknown field `worth`"),
        ({"items": [{"id": "A", "features": [1]}, {"id": "B", "features": [1, 2]}]}, "found 1 and 2"),
    ):
        answer = service.post("/v1/rank", json.dumps({"query": "w", **wrong}).encode())
        assert (answer.status, message in answer.body.decode()) == (422, True), answer.body
