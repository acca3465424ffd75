"""Every endpoint answers as the documentation says, and everything that is wrong gets a clear answer."""

import json
import socket
import string
import time
from contextlib import ExitStack
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from clickbandit.live import AsyncRanker
from clickbandit.live.http.auth import Keys
from clickbandit.live.http.reading import MAX_BYTES
from clickbandit.live.stores.sqlite import SqliteStore
from clickbandit.live.values import StoreError
from live.serving import serve

ITEMS = list("ABCDEF")
WINDOW = 1800


@pytest.fixture
def open_service(folder, clock):
    """Opens services on the test's store, and closes what the test leaves open."""
    with ExitStack() as stack:

        def open_(ranker=None, **settings):
            ranker = AsyncRanker(
                **{
                    "store": f"sqlite:///{folder}/clicks.db",
                    "policy": "random",
                    "positions": 3,
                    "clock": clock,
                    **(ranker or {}),
                }
            )
            return stack.enter_context(serve(ranker, **settings))

        yield open_


@pytest.fixture
def service(open_service):
    return open_service()


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """A service for tests that leave nothing behind."""
    url = f"sqlite:///{tmp_path_factory.mktemp('standing')}/clicks.db"
    with serve(AsyncRanker(url, policy="random", positions=3)) as served:
        yield served


def metrics(service) -> dict[tuple[str, ...], float]:
    """By name and the values of labels."""
    text = service.get("/metrics").body.decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


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
    answer = service.post("/v1/rank", {"query": "boots", "items": ITEMS})
    assert answer.status == 403
    assert "as many as there may be" in answer.detail
    service.rank("shoes")


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
        (
            ubi("x", "A", "purchase"),
            "action_name must be click or click_through to be learned from, found 'purchase'",
        ),
        (ubi("x", "A", None), "action_name must be"),
        (ubi(None, "A"), "as query_id"),
        (ubi(5, "A"), "id must be text"),
        (ubi("x", None), "event_attributes.object.object_id"),
        (ubi("x", 1.5), "item must be text"),
        (ubi("x", True), "item must be text"),
        (ubi("x", "A", event_attributes=5), "event_attributes.object.object_id"),
        (ubi("x", "A", event_attributes={"object": []}), "event_attributes.object.object_id"),
        (ubi("x", "A", timestamp="soon"), "timestamp must be"),
        (ubi("x", "A", timestamp=10**300), "timestamp must be"),
        ({"query_id": "x", "item": "A"}, "action_name must be"),
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


# --- queries ------------------------------------------------------------------------------------------------

ODD = [
    "red shoes",
    "a/b",
    "/",
    "freeze",
    "x/freeze",
    "..",
    ".",
    "%2F",
    "100%",
    "a?b=c&d",
    "#",
    "a+b",
    "Schuhe größe 42",
    "\N{GRINNING FACE}",
    "\n\t\x01\x7f",
    '"\\',
    "x" * 1000,
]


@pytest.mark.parametrize("name", ODD)
def test_queries_have_any_names(standing, name):
    standing.rank(name)
    path = f"/v1/queries/{quote(name, safe='')}"
    assert standing.get(path).json["summary"]["query"] == name
    assert standing.post(f"{path}/freeze").json["query"] == name
    assert standing.get(f"/v1/queries?search={quote(name, safe='')}").json["queries"][0]["query"] == name


def test_names_that_cannot_be(standing):
    for path in ("/v1/queries/%FF", "/v1/queries/a%ED%A0%80"):
        answer = standing.get(path)
        assert answer.status == 404
        assert "must be UTF-8" in answer.detail
    assert standing.get("/v1/queries/").status == 422
    assert standing.get("/v1/queries/a%00b").status == 422
    assert standing.get("/v1/queries/" + "x" * 1001).status == 422
    assert standing.get("/v1/queries/none").status == 404


def test_what_was_learned(open_service):
    service = open_service({"policy": "batchrank"})
    service.rank(id="x")
    service.post("/v1/impressions/x/settle")
    detail = service.get("/v1/queries/shoes").json
    assert detail["summary"]["learned"] == 1
    assert detail["summary"]["pending"] == 0
    assert detail["items"] == ITEMS
    assert len(detail["best"]) == 3
    assert detail["generation"] == 1
    assert detail["holdout"] is None
    assert service.post("/v1/queries/shoes/verify").json == {"verified": True}


def test_pages_of_queries(service):
    for k, name in enumerate(["b", "a", "Shoes", "red shoes"]):
        for _ in range(k + 1):
            service.rank(name)
    page = service.get("/v1/queries").json
    assert [query["query"] for query in page["queries"]] == ["Shoes", "a", "b", "red shoes"]
    assert page["total"] == 4
    page = service.get("/v1/queries?sort=impressions&descending=true&limit=2&offset=1").json
    assert [query["query"] for query in page["queries"]] == ["Shoes", "a"]
    assert page["total"] == 4
    assert service.get("/v1/queries?search=SHOES").json["total"] == 2
    assert service.get("/v1/queries?search=&offset=9007199254740992").json == {"queries": [], "total": 4}


@pytest.mark.parametrize(
    "parameters",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=",
        "offset=-1",
        "offset=9007199254740993",
        "sort=colour",
        "descending=maybe",
        "colour=red",
        "search=a&search=b",
        "search=%FF",
        "search=%00",
        "&".join(f"x{i}=1" for i in range(30)),
    ],
)
def test_wrong_parameters_are_explained(standing, parameters):
    answer = standing.get(f"/v1/queries?{parameters}")
    assert answer.status == 422
    assert "parameter" in answer.detail or "must be" in answer.detail


def test_parameters_where_there_are_none(standing):
    answer = standing.post("/v1/rank?positions=3", {"query": "q", "items": ITEMS})
    assert answer.status == 422
    assert "takes no parameters" in answer.detail


def test_freeze_unfreeze_and_reset(service):
    service.rank()
    assert service.post("/v1/queries/shoes/freeze").json["frozen"] is True
    assert service.rank()["source"] == "frozen"
    assert service.post("/v1/queries/shoes/unfreeze").json["frozen"] is False
    assert service.rank()["source"] == "policy"
    reset = service.post(
        "/v1/queries/shoes/reset", {"policy": "batchrank", "positions": 2, "horizon": 5000, "window": "1h"}
    )
    assert reset.json["policy"] == "batchrank"
    assert reset.json["positions"] == 2
    assert reset.json["horizon"] == 5000
    answer = service.rank()
    assert len(answer["items"]) == 2
    assert answer["expires_at"] == "2023-11-14T23:13:20Z"
    assert service.post("/v1/queries/shoes/reset").json["policy"] == "random"
    assert service.post("/v1/queries/new/reset", {}).json["query"] == "new"
    for what in ("freeze", "unfreeze", "verify"):
        assert service.post(f"/v1/queries/none/{what}").status == 404


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"policy": "batchrak"}, "did you mean batchrank?"),
        ({"policy": "batchrank:x=1"}, "there is no setting 'x'"),
        ({"policy": "optimal"}, "which only a simulation knows"),
        ({"policy": "examples/my_policy.py:EpsilonGreedy"}, "over HTTP"),
        ({"positions": 0}, "from 1 to 50"),
        ({"horizon": 1}, "from 5 to"),
        ({"window": "soon"}, "window must be"),
        ({"window": "8d"}, "retention must be at least as long"),
        ({"window": [1]}, "Expected"),
        ({"colour": 1}, "unknown field"),
    ],
)
def test_a_wrong_reset_is_explained(standing, body, says):
    answer = standing.post("/v1/queries/not%20reset/reset", body)
    assert answer.status == 422
    assert says in answer.detail
    assert standing.get("/v1/queries/not%20reset").status == 404


def test_stats(service):
    service.rank(id="x")
    service.events({"id": "x", "item": "Z"})
    stats = service.get("/v1/stats").json
    assert stats["impressions"] == 1
    assert stats["ranked"] == {"policy": 1}
    assert stats["events"] == {"invalid": 1}


# --- errors -------------------------------------------------------------------------------------------------


def test_paths_and_methods(standing):
    for path in (
        "/v1",
        "/v1/rank/",
        "/v1/Rank",
        "/v1/queries/a/b",
        "/v1/queries/a/b/freeze",
        "//",
        "/metrics/x",
    ):
        assert standing.get(path).status == 404, path
        assert standing.get(path).detail
    for method, path, allowed in [
        ("GET", "/v1/rank", "POST"),
        ("DELETE", "/v1/queries/x", "GET"),
        ("PUT", "/v1/queries/x/freeze", "POST"),
        ("POST", "/metrics", "GET"),
        ("OPTIONS", "/v1/events", "POST"),
    ]:
        answer = standing.send(method, path)
        assert answer.status == 405
        assert answer.headers["allow"] == allowed
        assert allowed in answer.detail


@pytest.mark.parametrize("path", ["/v1/rank", "/v1/events", "/v1/queries/x/reset"])
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b'"\\ud800"',
        b"NaN",
        b"\xef\xbb\xbf{}",
        b"[" * 50_000,
        b'{"events":[' + b"[" * 50_000,
        b" ",
        b"{}}",
    ],
)
def test_bodies_that_are_no_json(standing, path, body):
    answer = standing.post(path, body)
    assert answer.status in (400, 422)
    assert answer.detail
    if path != "/v1/queries/x/reset":
        assert standing.post(path, b"").status == 400


def test_content_types(service):
    body = json.dumps({"query": "q", "items": ["A"]}).encode()
    for kind in ("application/json; charset=utf-8", "Application/JSON"):
        assert service.post("/v1/rank", body, content_type=kind).status == 200
    for kind in ("text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"):
        answer = service.post("/v1/rank", body, content_type=kind)
        assert answer.status == 415
        assert "application/json" in answer.detail


def test_bodies_that_are_too_large(service):
    fits = json.dumps({"query": "q", "items": ["A"]}).encode()
    assert service.post("/v1/rank", fits + b" " * (MAX_BYTES - len(fits))).status == 200
    for body in (fits + b" " * (MAX_BYTES - len(fits) + 1), b"x" * (MAX_BYTES * 4)):
        answer = service.post("/v1/rank", body)
        assert answer.status == 413
        assert "at most 2,097,152 bytes" in answer.detail
    chunks = (b" " * 2**16 for _ in range(40))  # of unknown length
    assert service.send("POST", "/v1/rank", chunks, content_type="application/json").status == 413
    chunks = iter([fits[:10], fits[10:]])
    assert service.send("POST", "/v1/rank", chunks, content_type="application/json").status == 200


def test_request_ids(standing):
    assert standing.get("/livez", x_request_id="abc-1.2:3").headers["x-request-id"] == "abc-1.2:3"
    made = {
        standing.get("/livez", x_request_id=bad).headers["x-request-id"]
        for bad in ("", "a b", "x" * 101, '"')
    }
    assert len(made) == 4


# --- fuzz ---------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(), part, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        *(
            "query",
            "items",
            "positions",
            "id",
            "pinned",
            "excluded",
            "events",
            "item",
            "event_id",
            "timestamp",
        ),
        *(
            "policy",
            "horizon",
            "window",
            "query_id",
            "action_name",
            "event_attributes",
            "object",
            "object_id",
        ),
    ]
)
VALUES = st.recursive(
    st.sampled_from(["x", "A", "click", "batchrank", "1h", 1, 0, -1, 2**63, 1e300, None, True, "", "\0"])
    | JSON,
    lambda part: st.lists(part, max_size=4) | st.dictionaries(NAMES, part, max_size=6),
    max_leaves=12,
)
BODIES = (
    st.binary(max_size=60)
    | JSON.map(lambda body: json.dumps(body).encode())
    | VALUES.map(lambda body: json.dumps(body).encode())
)


def test_no_body_gives_a_server_error(service):
    @settings(max_examples=300)
    @given(st.sampled_from(["/v1/rank", "/v1/events", "/v1/queries/x/reset"]), BODIES)
    def check(path, body):
        answer = service.post(path, body)
        assert answer.status in (200, 400, 403, 409, 422), answer.body
        if answer.status != 200:
            assert answer.detail

    check()
    assert service.get("/readyz").status == 200
    assert metrics(service)["clickbandit_failures_total",] == 0


def test_no_address_gives_a_server_error(service):
    letters = st.text(string.ascii_letters + string.digits + "%/.?&=#~+-_:@;,", max_size=30)

    @settings(max_examples=300)
    @given(
        st.sampled_from(["GET", "POST"]),
        st.sampled_from(["/", "/v1/queries", "/v1/queries/", "/v1/impressions/"]),
        letters,
    )
    def check(method, start, rest):
        answer = service.send(method, start + rest)
        assert answer.status in (200, 404, 405, 415, 422), (start + rest, answer.body)
        if answer.status != 200:
            assert answer.detail

    check()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\n" + b"x" * 100_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(standing, garbage):
    with socket.create_connection(("127.0.0.1", standing.port), timeout=10) as raw:
        raw.sendall(garbage)
        raw.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while part := raw.recv(65536):
                answer += part
        except ConnectionResetError:
            pass
    assert not answer or answer.startswith(b"HTTP/1.1 4")
    assert standing.get("/livez").status == 200


# --- keys, rates, browsers ----------------------------------------------------------------------------------

KEY = "correct-horse-battery"


def test_keys(open_service):
    service = open_service(keys=Keys([f"shop:{KEY}", "another-key-of-someone"]))
    for header in (
        {},
        {"authorization": f"Bearer {KEY}x"},
        {"authorization": KEY},
        {"authorization": f"Basic {KEY}"},
    ):
        for method, path in [
            ("POST", "/v1/rank"),
            ("GET", "/v1/queries"),
            ("GET", "/metrics"),
            ("GET", "/v1/stats"),
        ]:
            answer = service.send(method, path, **header)
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "Authorization: Bearer KEY" in answer.detail
    for key in (KEY, "another-key-of-someone"):
        assert service.get("/v1/queries", authorization=f"Bearer {key}").status == 200
        assert service.get("/v1/queries", authorization=f"bearer  {key}").status == 200
    for path in ("/livez", "/readyz", "/openapi.json"):
        assert service.get(path).status == 200
    assert service.get("/v1/queries", authorization=f"Bearer {KEY}", host="shop.example").status == 200


def test_rates(open_service):
    service = open_service(keys=Keys([f"a:{KEY}a", f"b:{KEY}b"]), rate=0.01)
    assert service.get("/v1/queries", authorization=f"Bearer {KEY}a").status == 200
    answer = service.get("/v1/queries", authorization=f"Bearer {KEY}a")
    assert answer.status == 429
    assert 95 <= int(answer.headers["retry-after"]) <= 100
    assert "too many requests" in answer.detail
    assert service.get("/v1/queries", authorization=f"Bearer {KEY}b").status == 200
    assert service.get("/livez").status == 200


def test_without_keys_no_web_page_may_ask(open_service):
    service = open_service()
    own = f"127.0.0.1:{service.port}"
    for host in (own, "localhost", "localhost:80", "[::1]:8000"):
        assert service.get("/v1/queries", host=host).status == 200
    for host in ("evil.example", "127.0.0.1.evil.example:8000", "10.0.0.1", "x:y"):
        assert service.get("/v1/queries", host=host).status == 403
    assert service.get("/v1/queries", origin=f"http://{own}").status == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        answer = service.send("POST", "/v1/queries/x/reset", origin=origin)
        assert answer.status == 403
        assert "another origin" in answer.detail
    assert service.get("/v1/stats").json["queries"] == 0


# --- when the store fails -----------------------------------------------------------------------------------


class Failing(SqliteStore):
    """A store that fails when told to."""

    broken = False

    def begin(self):
        if self.broken:
            raise StoreError("the disk is gone")
        super().begin()


def test_the_given_order_when_the_store_fails(folder, open_service):
    store = Failing(folder / "failing.db")
    service = open_service({"store": store})
    service.rank(id="x")
    assert metrics(service)["clickbandit_store_up",] == 1
    store.broken = True
    answer = service.rank(items=ITEMS[::-1], excluded=["E"])
    assert [item["id"] for item in answer["items"]] == ["F", "D", "C"]
    assert answer["source"] == "fallback"
    for answer in (
        service.post("/v1/events", {"events": [{"id": "x", "item": "A"}]}),
        service.post("/v1/impressions/x/settle"),
        service.get("/v1/queries/shoes"),
        service.get("/v1/queries"),
        service.get("/readyz"),
    ):
        assert answer.status == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.detail == "the disk is gone"
    assert service.get("/livez").status == 200
    found = metrics(service)
    assert found["clickbandit_store_up",] == 0
    assert found["clickbandit_lists_total", "fallback"] == 1
    assert found["clickbandit_requests_total", "/v1/events", "503"] == 1
    store.broken = False
    assert service.get("/readyz").status == 200
    assert service.rank(id="x")["source"] == "policy"
    assert metrics(service)["clickbandit_store_up",] == 1


def test_not_ready_when_stopping(service):
    service.service.stop()
    answer = service.get("/readyz")
    assert answer.status == 503
    assert "stopping" in answer.detail
    assert service.get("/livez").status == 200


# --- metrics and logs ---------------------------------------------------------------------------------------


def test_metrics(open_service):
    service = open_service({"holdout": 0.5})
    for k in range(40):
        item = service.rank(id=str(k))["items"][0]["id"]
        service.events({"id": str(k), "item": item}, {"id": "none", "item": item})
        service.post(f"/v1/impressions/{k}/settle")
    service.get("/nowhere")
    found = metrics(service)
    lists = {key[1]: value for key, value in found.items() if key[0] == "clickbandit_lists_total"}
    assert lists == {
        "policy": lists["policy"],
        "holdout": 40 - lists["policy"],
        "rules": 0,
        "frozen": 0,
        "fallback": 0,
    }
    assert 0 < lists["policy"] < 40
    assert found["clickbandit_events_total", "accepted"] == 40
    assert found["clickbandit_events_total", "unknown"] == 40
    assert found["clickbandit_requests_total", "/v1/rank", "200"] == 40
    assert found["clickbandit_requests_total", "none", "404"] == 1
    assert found["clickbandit_request_seconds_count", "/v1/rank"] == 40
    assert found["clickbandit_impressions_total",] == 40
    assert found["clickbandit_settled_total",] == 40
    assert found["clickbandit_clicks_total",] == 40
    assert found["clickbandit_learned",] == lists["policy"]
    assert found["clickbandit_clicks_per_impression", "held_out"] == 1
    assert found["clickbandit_holdout_difference", "low"] == 0
    assert found["process_resident_memory_bytes",] > 0


def read_log(capfd, lines):
    """A line is written just after its answer."""
    text = ""
    for _ in range(200):
        text += capfd.readouterr().err
        if text.count("\n") >= lines:
            break
        time.sleep(0.05)
    return text


def test_logs_hold_no_keys_and_no_names(open_service, capfd):
    service = open_service(keys=Keys([f"shop:{KEY}"]), log_requests=True)
    key = {"authorization": f"Bearer {KEY}"}
    service.post("/v1/rank", {"query": "red shoes", "items": ["A"], "id": "x"}, **key)
    service.get("/v1/queries/red%20shoes", x_request_id="mine", **key)
    service.get("/v1/queries/red%20shoes", authorization="Bearer wrong-key-wrong-key")
    service.get("/red%20shoes?secret=red")
    text = read_log(capfd, 4)
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("POST", "/v1/rank", 200),
        ("GET", "/v1/queries/{query}", 200),
        ("GET", "/v1/queries/{query}", 401),
        ("GET", "none", 404),
    ]
    assert [line.get("key") for line in lines] == ["shop", "shop", None, None]
    assert lines[1]["request_id"] == "mine"
    assert 0 < lines[0]["seconds"] < 30
    assert "shoes" not in text
    assert KEY not in text
    assert "wrong-key" not in text


def test_logs_hold_names_when_asked(open_service, capfd):
    service = open_service(log_requests=True, log_queries=True)
    service.get("/v1/queries/red%20shoes")
    assert json.loads(read_log(capfd, 1))["name"] == "red shoes"
