"""Hostile and slow connections: each is bounded in bytes and time, and none keeps the others from being served."""

import asyncio
import json
import re
import resource
import socket
import struct
import threading
import time
import tracemalloc
from contextlib import ExitStack, closing

import pytest

from clickbandit.live import AsyncRanker
from clickbandit.live.async_ranker import Asked
from clickbandit.live.http import connections, protocol, stream
from clickbandit.live.http import server as server_module
from clickbandit.live.http import service as service_module
from clickbandit.live.http.auth import Keys
from live.serving import serve, until

KEY = "correct-horse-battery"
BODY = json.dumps({"query": "shoes", "items": list("ABCDEF")}).encode()
RANK = b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
WHOLE = RANK + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
LIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """It looks at connections every second: that is long for a test."""
    monkeypatch.setattr(server_module, "_CHECK_INTERVAL", 0.05)


@pytest.fixture
def connect(service):
    """Opens connections that are closed in the end."""
    with ExitStack() as stack:

        def open_(*parts: bytes) -> socket.socket:
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=10))
            for part in parts:
                raw.sendall(part)
            return raw

        yield open_


def read(raw: socket.socket) -> bytes:
    """All that comes until the connection is closed."""
    answer = b""
    try:
        while part := raw.recv(65536):
            answer += part
    except ConnectionResetError:
        pass
    return answer


def taken(raw: socket.socket, part: bytes) -> int:
    """How many bytes can be sent, this part again and again: what the network holds, and what the service reads."""
    for n in range(1, 2**28 // len(part)):
        try:
            raw.sendall(part)
        except OSError:
            return n * len(part)
    return 2**28


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_whoever_leaves_before_the_answer_breaks_nothing(service, connect, monkeypatch):
    left, ended = threading.Event(), []
    answer, serve_one = service.service.answer, protocol.Connection._serve

    async def late(request):
        response = await answer(request)
        while not left.is_set():
            await asyncio.sleep(0.01)
        return response

    async def watched(connection, request):
        ended.append(await asyncio.gather(serve_one(connection, request), return_exceptions=True))

    monkeypatch.setattr(service.service, "answer", late)
    monkeypatch.setattr(protocol.Connection, "_serve", watched)
    leave(service, connect(b"GET /v1/queries HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    left.set()
    until(lambda: ended)
    assert ended == [[None]]
    assert service.get("/livez").status == 200


def leave(service, raw) -> None:
    """Go while the answer is waited for, so that the service knows at once."""
    until(lambda: service.server.connections.answering)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()
    until(lambda: not service.server.connections.open)


def test_whoever_leaves_before_a_list_breaks_nothing(service, connect, monkeypatch):
    ranker, asked = service.service.api.ranker, []
    monkeypatch.setattr(Asked, "add", lambda self, *given: asked.append(given))
    leave(service, connect(WHOLE))
    monkeypatch.undo()
    failures = []
    loop = service.server.connections.loop
    loop.set_exception_handler(lambda loop, context: failures.append(context))
    loop.call_soon_threadsafe(ranker.begin, *asked[0])
    until(lambda: asked[0][1].done())
    assert service.get("/livez").status == 200
    assert not failures


def test_headers_without_end(service, connect):
    raw = connect(b"GET /livez HTTP/1.1\r\n")
    assert taken(raw, b"x-name: %b\r\n" % (b"x" * 1000)) < 100 * protocol.MAX_HEAD
    many = connect(b"GET /livez HTTP/1.1\r\n" + b"a: b\r\n" * (protocol.MAX_HEAD // 6 - 100) + b"\r\n")
    many.shutdown(socket.SHUT_WR)
    assert status(read(many)) == 200  # it fits
    one = connect(b"GET /livez HTTP/1.1\r\na: " + b"b" * protocol.MAX_HEAD)
    assert status(read(one)) == 431
    assert service.get("/livez").status == 200


@pytest.mark.parametrize(
    ("before", "part"),
    [
        (b"0\r\nX-Name: ", b"x" * 1000),
        (b"0\r\n", b"x-name: x\r\n" * 100),
        (b"5;name=", b"x" * 1000),
    ],
)
def test_trailers_without_end(service, connect, before, part):
    """And whatever else comes with chunks, with a key and without."""
    for path in (b"/livez", b"/nothing"):
        head = b"GET %b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % path
        assert taken(connect(head + before), part) < 100 * protocol.MAX_HEAD
    few = connect(
        LIVE.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\na: b\r\n\r\n")
    )
    assert status(few.recv(65536)) == 200
    assert service.get("/livez").status == 200


@pytest.mark.parametrize(
    ("limit", "sent", "says"),
    [
        ("HEAD_SECONDS", b"GET /livez HTTP/1.1\r\nHost: local", b""),
        ("HEAD_SECONDS", b"G", b""),
        ("HEAD_SECONDS", LIVE + b"G", b"HTTP/1.1 200"),
        ("HEAD_SECONDS", WHOLE + LIVE[:30], b"HTTP/1.1 200"),
        ("BODY_SECONDS", RANK + b"Content-Length: 50\r\n\r\n{", b"HTTP/1.1 408"),
        ("BODY_SECONDS", RANK + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", b"HTTP/1.1 408"),
        ("BODY_SECONDS", WHOLE + RANK + b"Content-Length: 50\r\n\r\n{", b"HTTP/1.1 200"),
        ("IDLE_SECONDS", b"", b""),
        ("IDLE_SECONDS", LIVE, b"HTTP/1.1 200"),
    ],
)
def test_what_takes_too_long_is_closed(connect, monkeypatch, limit, sent, says):
    monkeypatch.setattr(protocol, limit, 0.2)
    started = time.monotonic()
    answer = read(connect(sent))
    assert answer.startswith(says) if says else answer == b""
    assert time.monotonic() - started < 5


def test_bodies_that_never_come_keep_nobody_waiting(service, connect, monkeypatch):
    monkeypatch.setattr(service_module, "MAX_REQUESTS", 3)
    waiting = [connect(RANK + b"Content-Length: 100\r\n\r\n") for _ in range(20)]
    until(lambda: len(service.server.connections.open) >= 20)
    assert service.rank()["source"] == "policy"
    assert service.get("/readyz").status == 200
    assert service.get("/v1/queries").status == 200
    assert len(waiting) == 20


def test_to_be_stopped_does_not_wait_for_a_body(folder):
    with ExitStack() as stack:
        with serve(AsyncRanker(f"sqlite:///{folder}/c.db", policy="random")) as served:
            for sent in (RANK + b"Content-Length: 100\r\n\r\n{", b"GET / HT", b"", LIVE):
                raw = stack.enter_context(socket.create_connection(("127.0.0.1", served.port)))
                raw.sendall(sent)
            until(lambda: len(served.server.connections.open) == 4)
            started = time.monotonic()
        assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    ("path", "last", "patience"),
    [(b"/openapi.json", 2.0, 15), (b"/v1/stream?limit=1000", 2.0, 15), (b"/openapi.json", 1000.0, 1)],
)
def test_to_be_stopped_does_not_wait_for_a_reader(folder, path, last, patience, monkeypatch):
    made = protocol.Connection.connection_made

    def with_little_room(connection, transport):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        made(connection, transport)

    monkeypatch.setattr(protocol.Connection, "connection_made", with_little_room)
    monkeypatch.setattr(protocol, "WRITE_SECONDS", 1000.0)
    monkeypatch.setattr(stream, "_MIN_INTERVAL", 0.05)
    monkeypatch.setattr(protocol, "LAST_SECONDS", last)
    monkeypatch.setattr(server_module, "_PATIENCE", patience)
    with ExitStack() as stack:
        with serve(AsyncRanker(f"sqlite:///{folder}/c.db", policy="random")) as served:
            for n in range(200):
                served.rank(f"{n} {'x' * 500}", list("AB"))
            raw = stack.enter_context(socket.socket())
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.connect(("127.0.0.1", served.port))
            raw.sendall(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path * 30)
            until(lambda: any(not one._writable.is_set() for one in served.server.connections.open))
            time.sleep(0.5)  # for a second message of the stream, which has to wait
            started = time.monotonic()
        assert time.monotonic() - started < 10


def test_without_a_key_no_body_is_read(open_service):
    service = open_service(keys=Keys([KEY]))
    with closing(socket.create_connection(("127.0.0.1", service.port), timeout=10)) as raw:
        raw.sendall(RANK + b"Content-Length: 2000000\r\n\r\n")
        assert raw.recv(65536).startswith(b"HTTP/1.1 401")
    with closing(socket.create_connection(("127.0.0.1", service.port), timeout=10)) as raw:
        raw.sendall(RANK + b"Content-Length: 99999999999\r\n\r\n")
        assert taken(raw, b"x" * 2**20) < 3 * protocol.MAX_DISCARDED


@pytest.mark.parametrize("open_files", [8, 1024])
def test_too_many_connections(service, connect, monkeypatch, open_files):
    """The one that has asked for nothing for longest makes room; whoever is being answered stays."""
    if open_files > 8:
        monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (open_files, open_files))
    first, *others = [connect() for _ in range(4)]
    until(lambda: len(service.server.connections.open) == 4)
    others[0].sendall(LIVE)
    assert status(others[0].recv(65536)) == 200
    for n in range(8):
        assert status(connect(LIVE).recv(65536)) == 200, n
        if n == 0:
            assert first.recv(10) == b""
    assert len(service.server.connections.open) <= 5


def test_bodies_together_are_bounded(service, connect, monkeypatch):
    monkeypatch.setattr(connections, "MAX_WAITING", 2**20)
    part = RANK + b"Content-Length: 500000\r\n\r\n" + b" " * 400_000
    raws = [connect(part) for _ in range(6)]
    assert read(raws[0]) == b""
    assert service.server.connections.waiting_bytes <= 2**20
    assert service.rank()["source"] == "policy"
    for raw in raws:
        raw.close()
    until(lambda: service.server.connections.waiting_bytes == 0)


def test_a_body_in_small_chunks_takes_no_more_memory_than_its_bytes(service, connect):
    raw = connect(LIVE.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"))
    until(lambda: service.server.connections.open)
    tracemalloc.start()
    try:
        raw.sendall(b"2\r\nab\r\n" * 200_000)
        until(lambda: service.server.connections.waiting_bytes == 400_000)
        assert tracemalloc.get_traced_memory()[0] < 1_500_000
    finally:
        tracemalloc.stop()


def test_over_the_limit_lists_are_in_the_given_order(service, monkeypatch):
    service.rank(id="x")
    monkeypatch.setattr(service_module, "MAX_REQUESTS", 0)
    answer = service.rank(items=list("FEDCBA"), excluded=["E"])
    assert ([item["id"] for item in answer["items"]], answer["source"]) == (list("FDC"), "fallback")
    assert service.post("/v1/events", {"events": []}).status == 503
    assert service.post("/v1/rank", {"query": "q", "items": ["A", "A"]}).status == 422
    assert service.get("/livez").status == 200
    monkeypatch.undo()
    assert service.get("/v1/stats").json["ranked"] == {"policy": 1, "fallback": 1}


def test_whoever_reads_no_answers_must_wait(service, connect, monkeypatch):
    """Answers are not piled up: after those that the network holds, no more requests are read."""
    many = b"GET /page/app.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000
    raw = connect()
    raw.settimeout(0.5)
    assert taken(raw, many) < 2**24
    (connection,) = service.server.connections.open
    until(lambda: connection.transport.get_write_buffer_size() > 0)
    assert connection.transport.get_write_buffer_size() < 2**19
    assert service.get("/livez").status == 200
    raw.close()
    monkeypatch.setattr(protocol, "WRITE_SECONDS", 0.2)
    another = connect()
    another.settimeout(0.5)
    taken(another, many)
    until(lambda: len(service.server.connections.open) == 1)


def test_requests_sent_at_once_are_answered_in_order(connect):
    last = LIVE.replace(b"Host", b"Connection: close\r\nHost")
    answer = read(connect(WHOLE + LIVE + LIVE.replace(b"livez", b"nothing") + last))
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"200", b"404", b"200"]


NOTHING = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("second", "then"),
    [
        (NOTHING + b"Content-Length: 2\r\n\r\n{}", 404),
        (NOTHING + b"Content-Length: 2\r\n\r\n{}" + NOTHING + b"Content-Length: 2\r\n\r\n{}" + WHOLE, 404),
        (NOTHING + CHUNKED + b"2\r\n{}\r\n" * 100_000 + b"0\r\n\r\n", 404),
        (NOTHING + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", 404),
        (RANK + CHUNKED + b"%x\r\n" % 3_000_000 + b" " * 3_000_000 + b"\r\n0\r\n\r\n" + WHOLE, 413),
    ],
)
def test_refusals_come_after_the_answers_before_them(connect, second, then):
    for before, statuses in ((WHOLE + LIVE, [200, 200]), (WHOLE, [200]), (b"", [])):
        answer = read(connect(before + second))
        assert [int(code) for code in re.findall(rb"HTTP/1.1 (\d+)", answer)] == [*statuses, then]


def test_a_refusal_is_there_before_the_body(connect):
    for before in (b"", WHOLE):
        raw = connect(before + NOTHING + b"Content-Length: 10\r\n\r\n{")
        answer = b""
        while b"HTTP/1.1 404" not in answer:
            answer += raw.recv(65536)
        raw.sendall(b" " * 9)
        assert read(raw).count(b"HTTP") == 0


def test_a_body_is_asked_for_after_the_answers_before_it(connect):
    raw = connect(WHOLE + RANK + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
    answer = b""
    while b"HTTP/1.1 100 Continue\r\n\r\n" not in answer:
        answer += raw.recv(65536)
    raw.sendall(BODY)
    while answer.count(b"HTTP/1.1") < 3:
        answer += raw.recv(65536)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"100", b"200"]


H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMA\r\nHost"


@pytest.mark.parametrize("split", [False, True])
def test_another_protocol_is_proposed_in_vain(connect, split):
    """As Java's client does; the body is read, and what comes after it."""
    chunked = RANK + CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    sent = b"".join(one.replace(b"Host", H2C) for one in (WHOLE, chunked, LIVE, NOTHING + b"\r\n", WHOLE))
    sent += LIVE.replace(b"Host", b"Connection: close\r\nHost")
    parts = [sent[k : k + 1] for k in range(len(sent))] if split else [sent]
    answer = read(connect(*parts))
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"200", b"200", b"404", b"200", b"200"]
    last = H2C.replace(b"Upgrade, ", b"Upgrade, close, ")
    for one, code in ((WHOLE, 200), (LIVE, 200), (NOTHING + b"Content-Length: 2\r\n\r\n{}", 404)):
        assert status(read(connect(one.replace(b"Host", last)))) == code
    assert status(read(connect(b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n" + LIVE))) == 404


def test_what_comes_after_a_request_is_no_reason_not_to_answer_it(connect):
    assert status(read(connect(WHOLE + b"\x00\x01 garbage\r\n\r\n"))) == 200


def test_other_ways_to_ask(connect):
    raw = connect(RANK + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
    assert raw.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
    raw.sendall(BODY)
    assert status(raw.recv(65536)) == 200
    raw = connect(LIVE.replace(b"1.1", b"1.0"))
    assert b"connection: close" in read(raw)
    raw = connect(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    head, _, body = read(raw).partition(b"\r\n\r\n")
    assert (status(head), body) == (200, b"")
    assert b"date: " in head
