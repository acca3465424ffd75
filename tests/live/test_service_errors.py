"""Whatever is sent, the answer is clear and never a failure of the service."""

import json
import socket
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickbandit.live.http.reading import MAX_BYTES
from live.serving import metrics

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
        ("PUT", "/v1/queries/x", "GET, DELETE"),
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
    @settings(max_examples=150)
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

    @settings(max_examples=150)
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
