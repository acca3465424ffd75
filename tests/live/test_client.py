"""A client of the service gives what a ranker in this process gives; and when there is no service, the given order."""

import inspect
import socket
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from clickbandit import InputError
from clickbandit.live import AsyncRanker, Client, Conflict, Event, Ranker, StoreError, Unknown
from clickbandit.live.http.auth import Keys
from clickbandit.live.values import LimitReached
from live.serving import serve, until

ITEMS = list("ABCDEF")
KEY = "correct-horse-battery"


@pytest.fixture
def both(folder, clock):
    """A ranker and a client of a service, each with a store of its own and the same seed, for the same settings."""
    with ExitStack() as stack:

        def open_(**settings):
            settings = {
                "policy": "batchrank",
                "positions": 3,
                "horizon": 20,
                "seed": 5,
                "clock": clock,
                **settings,
            }
            ranker = stack.enter_context(Ranker(f"sqlite:///{folder}/ranker.db", **settings))
            served = stack.enter_context(serve(AsyncRanker(f"sqlite:///{folder}/service.db", **settings)))
            return ranker, stack.enter_context(Client(served.url, timeout=20))

        yield open_


def public(kind: type) -> dict[str, list[str]]:
    return {
        name: list(inspect.signature(method).parameters)
        for name, method in vars(kind).items()
        if not name.startswith("_") and callable(method)
    }


def test_the_methods_are_those_of_a_ranker():
    rankers = public(Ranker)
    for name in ("history", "stats"):
        rankers[name].remove("flush")
    assert public(Client) == rankers


def outcome(function, *args, **kwargs):
    """What it returns or raises."""
    try:
        return function(*args, **kwargs)
    except (InputError, StoreError) as error:
        return type(error), str(error)


def visits():
    """Lists, clicks and settlements of three queries."""
    calls = []
    for k in range(200):
        query = ("red shoes", "a/b?c#%", "..")[k % 3]
        calls.append(("rank", (query, ITEMS), {"id": f"i{k}"}))
        if k % 4 != 2:
            calls.append(("click", (f"i{k}", ITEMS[k % 6]), {}))
            calls.append(
                ("events", ([Event(f"i{k}", ITEMS[k % 5], f"e{k}", "2024-05-01T12:00:00Z")] * 2,), {})
            )
        if k % 4:
            calls.append(("settle", (f"i{k}",), {}))
    return calls


OTHER_CALLS = [
    ("rank", ("red shoes", ITEMS), {"id": "i0"}),
    ("rank", ("red shoes", ITEMS), {"id": "i1"}),
    ("rank", ("red shoes", ITEMS), {"id": "p", "pinned": {"F": 1}, "excluded": ["A"], "positions": 3}),
    ("rank", ("red shoes", ITEMS), {"positions": 4}),
    ("rank", ("red shoes", ["A", "A"]), {}),
    ("rank", ("x" * 1001, ITEMS), {}),
    ("rank", ("\ud800", ITEMS), {}),
    ("rank", ("none", []), {"id": "none"}),
    ("void", ("i0",), {}),
    ("void", ("i0",), {}),
    ("settle", ("i0",), {}),
    ("settle", ("nothing",), {}),
    ("settle", ("",), {}),
    ("click", ("i4", "Z"), {}),
    ("click", ("nothing", "A"), {"event_id": "e"}),
    ("click", ("i1", "A"), {"event_id": "late"}),
    ("click", ("i1", "A"), {"event_id": ""}),
    ("events", ([],), {}),
    (
        "events",
        ([5, {"id": "i4", "item": "A", "colour": 1}, {"id": "i4", "item": ITEMS[4], "timestamp": 5}],),
        {},
    ),
    (
        "events",
        ([{"id": "i8", "item": item, "timestamp": datetime(2024, 5, 1, tzinfo=UTC)} for item in ITEMS],),
        {},
    ),
    ("freeze", ("red shoes",), {}),
    ("rank", ("red shoes", ITEMS), {"id": "frozen"}),
    ("unfreeze", ("red shoes",), {}),
    ("freeze", ("nowhere",), {}),
    ("query", ("red shoes",), {}),
    ("query", ("a/b?c#%",), {}),
    ("query", ("..",), {}),
    ("query", ("nowhere",), {}),
    ("queries", (), {}),
    ("queries", (), {"search": "b?c#", "sort": "clicks", "descending": True, "limit": 1}),
    ("queries", (), {"offset": 3}),
    ("reset", ("red shoes",), {"policy": "random", "positions": 2, "horizon": 100, "window": "1h"}),
    ("reset", ("red shoes",), {"policy": "batchrak"}),
    ("reset", ("new",), {"window": 5.5}),
    ("rank", ("red shoes", ITEMS), {"id": "reset"}),
    ("query", ("red shoes",), {}),
    ("verify", ("..",), {}),
    ("verify", ("nowhere",), {}),
    ("rank", ("red shoes", ITEMS), {"id": "of a user", "user": "u 1/2"}),
    ("forget", ("u 1/2",), {}),
    ("forget", ("u 1/2",), {}),
    ("forget", ("",), {}),
    ("delete", ("a/b?c#%",), {}),
    ("delete", ("a/b?c#%",), {}),
    ("queries", (), {}),
    ("ping", (), {}),
]


def test_a_client_is_a_ranker_elsewhere(both, clock):
    ranker, client = both(holdout=0.5)
    for name, args, kwargs in [*visits(), *OTHER_CALLS]:
        there, here = (outcome(getattr(one, name), *args, **kwargs) for one in (client, ranker))
        assert there == here, (name, args, kwargs)
        assert type(there) is type(here)
    here, there = ranker.stats(), client.stats()
    for name in (
        "queries",
        "impressions",
        "learned",
        "settled",
        "voided",
        "clicks",
        "late",
        "holdout",
        "frozen",
    ):
        assert getattr(there, name) == getattr(here, name), name
    assert here.holdout is not None


def test_ids_are_made_up_for_whoever_gives_none(both):
    _, client = both()
    ids = {client.rank("shoes", ITEMS).id for _ in range(10)}
    assert len(ids) == 10
    assert client.query("shoes").summary.impressions == 10


def test_many_events_go_in_parts(both):
    _, client = both()
    id = "\N{GRINNING FACE}" * 200
    shown = client.rank("shoes", ["\N{GRINNING FACE}" * 199 + item for item in "ABC"], id=id)
    events = [Event(id, shown.items[k % 3], f"{k:03}" + "\N{GRINNING FACE}" * 197) for k in range(900)]
    found = client.events([*events[:500], {"id": 5}, *events[500:], Event("nowhere", "A")])
    assert [verdict.verdict for verdict in found] == ["accepted"] * 500 + ["invalid"] + ["accepted"] * 400 + [
        "unknown"
    ]
    assert [verdict.event_id for verdict in found[:500]] == [event.event_id for event in events[:500]]


def test_errors_are_those_of_a_ranker(both):
    _, client = both(max_queries=1)
    client.rank("shoes", ITEMS, id="x")
    for error, call in [
        (Conflict, lambda: client.rank("shoes", ITEMS[::-1], id="x")),
        (Unknown, lambda: client.settle("y")),
        (LimitReached, lambda: client.reset("boots")),
        (InputError, lambda: client.reset("shoes", policy="nothing")),
        (InputError, lambda: client.queries(limit=0)),
    ]:
        with pytest.raises(error):
            call()
    assert client.rank("boots", ITEMS).source == "fallback"


def test_keys(folder, clock):
    with serve(AsyncRanker(f"sqlite:///{folder}/c.db", policy="random"), keys=Keys([KEY])) as served:
        with Client(served.url, key=KEY) as client:
            assert client.rank("shoes", ITEMS).source == "policy"
        with Client(served.url) as client, pytest.raises(InputError, match="an API key is needed"):
            client.rank("shoes", ITEMS)


def test_threads_share_a_client(both):
    _, client = both(policy="random")
    found = []

    def work(number):
        for k in range(20):
            shown = client.rank("shoes", ITEMS, id=f"{number}-{k}")
            found.append((shown.id, client.click(shown.id, shown.items[0]).verdict))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 160
    assert {verdict for _, verdict in found} == {"accepted"}
    assert client.query("shoes").summary.impressions == 160


# --- when the service is not there --------------------------------------------------------------------------


@contextmanager
def impostor(*answers: bytes | None):
    """Something that listens, reads a request on each connection, answers it with the next of these, and hangs up."""
    requests = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)

        def work():
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    request = b""
                    while b"\r\n\r\n" not in request:
                        request += connection.recv(65536)
                    length = int(request.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
                    while len(request.partition(b"\r\n\r\n")[2]) < length:
                        request += connection.recv(65536)
                    requests.append(request)
                    if answer is not None:
                        connection.sendall(answer)

        thread = threading.Thread(target=work)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        thread.join()


def http(status: int, body: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body)


LIST = (
    b'{"id":"x","items":[{"id":"B","position":1,"propensity":null}],"policy":"random","source":"policy",'
    b'"expires_at":"2024-05-01T12:00:00Z"}'
)


def test_what_failed_is_tried_again_under_the_same_id():
    with (
        impostor(None, http(503), http(502, b"<html>"), http(200, LIST)) as (url, requests),
        Client(url) as client,
    ):
        shown = client.rank("shoes", ["A", "B"])
    assert shown.items == ("B",)
    assert len(requests) == 4
    assert len({request.partition(b"\r\n\r\n")[2] for request in requests}) == 1
    assert b'"id":"' in requests[0]


def test_a_reset_is_sent_once():
    with (
        impostor(None) as (url, requests),
        Client(url) as client,
        pytest.raises(StoreError, match="did not answer"),
    ):
        client.reset("shoes")
    assert len(requests) == 1
    with (
        impostor(http(503)) as (url, requests),
        Client(url) as client,
        pytest.raises(StoreError, match="503"),
    ):
        client.reset("shoes")
    assert len(requests) == 1


def test_too_many_requests_are_not_made_more():
    with impostor(http(429)) as (url, requests), Client(url) as client:
        assert client.rank("shoes", ITEMS).source == "fallback"
    assert len(requests) == 1


def test_the_given_order_when_there_is_no_service():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Client(url, timeout=0.3) as client:  # it listens, and never answers
            started = time.monotonic()
            shown = client.rank("shoes", ITEMS, positions=3, pinned={"F": 2}, excluded=["A"], id="x")
            assert time.monotonic() - started < 5
    assert shown.items == ("B", "F", "C")
    assert shown.propensities == (1.0, 1.0, 1.0)
    assert shown.source == "fallback"
    assert shown.id != "x"
    with Client(url, timeout=0.3) as client:  # nobody listens
        assert client.rank("shoes", ITEMS).items == tuple(ITEMS)
        with pytest.raises(StoreError, match="did not answer: ConnectionRefusedError"):
            client.click("x", "A")
        with pytest.raises(InputError, match="found 'A' twice"):
            client.rank("shoes", ["A", "A"])


@contextmanager
def lossy(service):
    """Passes requests on, and swallows the lists that they are answered with."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            with closing(HTTPConnection("127.0.0.1", service.port)) as connection:
                connection.request("POST", self.path, body, {"content-type": "application/json"})
                answer = connection.getresponse().read()
            self.close_connection = True
            if self.path != "/v1/rank":
                self.wfile.write(http(200, answer))

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_click_on_a_list_that_was_not_shown_is_not_learned(open_service):
    """The answer is lost after the commit: what was shown is the given order, and what is stored is another list."""
    service = open_service()
    with lossy(service) as url:
        for k in range(3):
            with Client(url, timeout=0.5) as client:
                shown = client.rank("shoes", ITEMS, id=f"i{k}")
                assert shown.source == "fallback"
                assert shown.items == tuple(ITEMS)
            with Client(service.url) as client:
                assert client.click(shown.id, "A").verdict == "unknown"
                assert {client.click(f"i{k}", item).verdict for item in ITEMS} == {"late", "invalid"}
    summary = service.get("/v1/queries/shoes").json["summary"]
    assert (summary["impressions"], summary["voided"], summary["clicks"]) == (3, 3, 0)


def test_a_list_that_arrives_after_the_client_gave_up_is_voided(open_service):
    """The void comes first: it is sent again until there is something to void."""
    service = open_service()
    with Client(service.url) as client:
        client._voids.add("x")
        time.sleep(0.2)
        assert client.rank("shoes", ITEMS, id="x").source == "policy"
        until(lambda: client._voids.thread is None)
        assert client.click("x", "A").verdict in ("late", "invalid")
        assert client.query("shoes").summary.voided == 1


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://", ""])
def test_urls_that_cannot_be(url):
    with pytest.raises(InputError, match="a service must be http://HOST:PORT"):
        Client(url)


def test_a_path_before_the_services_own():
    with impostor(http(200, b'{"status":"ok"}')) as (url, requests), Client(f"{url}/ranker/") as client:
        client.ping()
    assert requests[0].startswith(b"GET /ranker/readyz ")


def test_what_is_no_answer_of_the_service():
    with (
        impostor(http(200, b"<html>")) as (url, _),
        Client(url) as client,
        pytest.raises(StoreError, match="not as the service does"),
    ):
        client.stats()
