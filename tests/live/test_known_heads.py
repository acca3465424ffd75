"""Requests whose head came before, word for word, are not parsed again, and are answered all the same."""

import json
import socket
from contextlib import closing

import httptools
import pytest

from clickbandit.live import AsyncRanker
from clickbandit.live.http import connections, protocol
from clickbandit.live.http.auth import Keys
from live.serving import serve

KEY = "correct-horse-battery"
HEAD = b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def whole(query: str, head: bytes = HEAD) -> bytes:
    body = json.dumps({"query": query, "items": list("ABC")}).encode()
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class Wire:
    """A connection, and what comes back."""

    def __init__(self, port: int) -> None:
        self._raw = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._file = self._raw.makefile("rb")

    def send(self, data: bytes) -> None:
        self._raw.sendall(data)

    def answer(self) -> tuple[int, dict[str, str], dict]:
        status = int(self._file.readline().split()[1])
        headers = {}
        while line := self._file.readline().strip().decode():
            name, _, value = line.partition(": ")
            headers[name] = value
        return status, headers, json.loads(self._file.read(int(headers["content-length"])))

    def ask(self, data: bytes) -> tuple[int, dict[str, str], dict]:
        self.send(data)
        return self.answer()

    def close(self) -> None:
        self._file.close()
        self._raw.close()


@pytest.fixture
def parsed(monkeypatch):
    """What httptools was given."""
    given = []

    class Parser:
        def __init__(self, protocol):
            self._parser = httptools.HttpRequestParser(protocol)

        def feed_data(self, data):
            given.append(data)
            self._parser.feed_data(data)

        def __getattr__(self, name):
            return getattr(self._parser, name)

    class Tools:
        HttpRequestParser = Parser
        HttpParserError, HttpParserUpgrade = httptools.HttpParserError, httptools.HttpParserUpgrade

    monkeypatch.setattr(protocol, "httptools", Tools)
    return given


@pytest.fixture
def wire(parsed, service):
    with closing(Wire(service.port)) as opened:
        yield opened


def test_the_same_head_is_parsed_once_and_answered_the_same(wire, parsed):
    answers = [wire.ask(whole(query)) for query in ("boots", "shoes", "scarf")]
    assert len(parsed) == 1
    statuses, headers, bodies = zip(*answers, strict=True)
    assert set(statuses) == {200}
    assert len({body["id"] for body in bodies}) == len({one["x-request-id"] for one in headers}) == 3
    for one in headers:
        assert one.keys() == headers[0].keys()
        assert one["content-type"] == "application/json"


def test_what_is_not_one_whole_request_is_parsed(wire, parsed):
    request = whole("boots")
    wire.ask(request)
    wire.send(request[:-5])
    wire.send(request[-5:])
    assert wire.answer()[0] == 200
    wire.send(request + whole("shoes"))
    assert [wire.answer()[0], wire.answer()[0]] == [200, 200]
    wire.send(request + request[:10])
    assert wire.answer()[0] == 200
    wire.send(request[10:])
    assert wire.answer()[0] == 200
    assert wire.ask(request)[0] == 200
    n = len(parsed)
    assert wire.ask(request)[0] == 200
    assert len(parsed) == n


def test_a_known_request_behind_half_a_head_is_a_part_of_that(service, wire):
    wire.ask(whole("boots"))
    wire.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /livez HTTP/1.1\r\nX-Name: ")
    assert wire.answer()[0] == 200
    status, _, body = wire.ask(whole("shoes"))  # its first line is a value, and the rest are headers and body
    assert (status, body.keys()) == (200, {"status"})
    assert [one["query"] for one in service.get("/v1/queries").json["queries"]] == ["boots"]


def test_what_is_wrong_with_a_body_is_said_all_the_same(wire):
    wire.ask(whole("boots"))
    for wrong, status in ((b"{", 400), (b'{"query": 1}', 422)):
        bad = HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(wrong), wrong)
        first, again = wire.ask(bad), wire.ask(bad)
        assert first[0] == again[0] == status
        assert first[2] == again[2]


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"Connection: close\r\n",
        HEAD.replace(b"/v1/rank", b"/v1/rank?a=1"),
        HEAD.replace(b"/v1/rank", b"/v1/no"),
        HEAD.replace(b"application/json", b"text/plain"),
        HEAD + b"X-Long: %b\r\n" % (b"x" * connections.MAX_KNOWN),
        HEAD + b"Expect: 100-continue\r\n",
    ],
)
def test_other_heads_are_not_remembered(service, head):
    with closing(Wire(service.port)) as wire:
        wire.send(whole("boots", head))
        wire.answer() if b"Expect" not in head else None
    with closing(Wire(service.port)) as wire:
        assert wire.ask(whole("boots"))[0] == 200
    assert len(service.server.connections.known) == 1


def test_only_so_many_are_remembered(service, monkeypatch):
    monkeypatch.setattr(connections, "MAX_HEADS", 3)
    with closing(Wire(service.port)) as wire:
        for k in range(10):
            assert wire.ask(whole("boots", HEAD + b"X-Number: %d\r\n" % k))[0] == 200
            assert len(service.server.connections.known) <= 3


def test_a_known_head_is_refused_when_its_key_is_gone_or_asks_too_often(tmp_path):
    ranker = AsyncRanker(f"sqlite:///{tmp_path}/clicks.db", policy="random")
    request = whole("boots", HEAD + b"Authorization: Bearer %b\r\n" % KEY.encode())
    with serve(ranker, keys=Keys([f"shop:{KEY}"]), rate=4.0) as served, closing(Wire(served.port)) as wire:
        statuses = [wire.ask(request)[0] for _ in range(5)]
        assert statuses[:4] == [200] * 4
        assert statuses[4] == 429
    ranker = AsyncRanker(f"sqlite:///{tmp_path}/clicks.db", policy="random")
    with serve(ranker, keys=Keys([f"shop:{KEY}"])) as served, closing(Wire(served.port)) as wire:
        assert [wire.ask(request)[0] for _ in range(2)] == [200, 200]
        served.service._keys = Keys(["shop:another-horse-battery"])
        assert wire.ask(request)[0] == 401
