"""A client whose service is away or answers late or not at all: the given order, and what nobody saw is not learned."""

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from clickbandit import InputError
from clickbandit.live import Client, Conflict, StoreError
from clickbandit.live.http.voids import Voids
from live.serving import until

ITEMS = list("ABCDEF")


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
        shown = client.rank("shoes", ["A", "B"], id="x")
        assert client._voids.thread is None
    assert shown.items == ("B",)
    assert len(requests) == 4
    assert len({request.partition(b"\r\n\r\n")[2] for request in requests}) == 1
    assert b'"id":"x"' in requests[0]


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


FALLBACK = LIST.replace(b'"id":"x"', b'"id":"another"').replace(b'"policy",', b'"fallback",')
VOIDED = b'{"id":"x","outcome":"void","clicked":[]}'


def problem(status: int) -> bytes:
    """An error as the service says it."""
    return http(status, b'{"title":"X","status":%d,"detail":"that was wrong"}' % status)


@pytest.mark.parametrize("second", [http(200, FALLBACK), *map(problem, (401, 404, 422, 429))])
def test_a_list_that_got_lost_is_voided_whatever_comes_after_it(second):
    """The first attempt may have made a list, and what is shown is another or none."""
    with impostor(None, second, http(200, VOIDED)) as (url, requests), Client(url, timeout=20) as client:
        with suppress(InputError):
            assert client.rank("shoes", ["A", "B"], id="x").source == "fallback"
        until(lambda: len(requests) == 3)
        until(lambda: client._voids.thread is None)
    assert requests[2].startswith(b"POST /v1/impressions/x/void ")


def test_the_answer_to_another_request_is_not_shown():
    with impostor(http(200, LIST), http(200, VOIDED)) as (url, requests), Client(url, timeout=10) as client:
        shown = client.rank("shoes", ["A", "B"], id="y")
        until(lambda: len(requests) == 2)
        until(lambda: client._voids.thread is None)
    assert (shown.source, shown.items) == ("fallback", ("A", "B"))
    assert requests[1].startswith(b"POST /v1/impressions/y/void ")


def test_the_list_of_another_request_is_not_voided():
    """The id was used before, so that the attempt without an answer was refused too."""
    with impostor(None, problem(409)) as (url, _), Client(url, timeout=20) as client:
        with pytest.raises(Conflict):
            client.rank("shoes", ["A", "B"], id="x")
        assert client._voids.thread is None


def test_while_the_service_is_away_it_is_not_asked_to_void_each_of_many():
    """Each would wait for as long, and so would the end."""
    tried = []

    def void(id):
        tried.append(id)
        raise StoreError("away")

    voids = Voids(void)
    for n in range(1000):
        voids.add(f"{n}")
    until(lambda: tried)
    voids.close()
    assert len(tried) < 100


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


def test_a_path_before_the_services_own():
    with impostor(http(200, b'{"status":"ok"}')) as (url, requests), Client(f"{url}/ranker/") as client:
        client.ping()
    assert requests[0].startswith(b"GET /ranker/readyz ")


@pytest.mark.parametrize("answer", [b"<html>", b'"\xff"', b"[" * 100_000], ids=["HTML", "no UTF-8", "deep"])
def test_what_is_no_answer_of_the_service(answer):
    with (
        impostor(http(200, answer)) as (url, _),
        Client(url) as client,
        pytest.raises(StoreError, match="not as the service does"),
    ):
        client.stats()


@pytest.mark.parametrize("body", [b"hello", b'{"message":"no"}'])
@pytest.mark.parametrize("status", [302, 401, 403, 404, 408, 413, 422])
def test_what_is_before_the_service_may_answer_instead(status, body):
    """It is not asked again, and nothing is voided, for the service was not asked at all."""
    with impostor(http(status, body), http(status, body)) as (url, _), Client(url, timeout=20) as client:
        shown = client.rank("shoes", ["A", "B"])
        assert (shown.items, shown.source) == (("A", "B"), "fallback")
        assert client._voids.thread is None
        with pytest.raises(StoreError, match=f"HTTP status {status}"):
            client.click("x", "A")


@pytest.mark.parametrize("status", [204, 500, 503])
def test_what_is_before_the_service_may_have_passed_it_on(status):
    """A proxy's 503 is not the service's: it may have lost the answer."""
    with (
        impostor(http(status), http(200, FALLBACK), http(200, VOIDED)) as (url, requests),
        Client(url, timeout=20) as client,
    ):
        assert client.rank("shoes", ["A", "B"], id="x").source == "fallback"
        until(lambda: len(requests) == 3)
        until(lambda: client._voids.thread is None)
    assert requests[2].startswith(b"POST /v1/impressions/x/void ")


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 X\r\nContent-Length: 1000\r\n\r\n"])
def test_an_answer_that_trickles_takes_no_longer_than_a_call_may(begun):
    """Each piece of it comes soon, and the whole never."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle():
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(begun)
                for _ in range(300):
                    connection.sendall(b"H")
                    time.sleep(0.1)

        thread = threading.Thread(target=trickle)
        thread.start()
        client = Client(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.5)
        started = time.monotonic()
        assert client.rank("shoes", ITEMS).source == "fallback"
        assert time.monotonic() - started < 15
        thread.join()
    client.close()


FORKS = """
import os, sys, warnings
from clickbandit.live import Client
from live.serving import until

warnings.simplefilter("ignore")  # of a fork of several threads
client = Client(sys.argv[1], timeout=20)
client.rank("warm", ["A", "B"])
client._voids.add("nothing")
children = []
for child in ("a", "b"):
    if not (pid := os.fork()):
        assert client._voids.thread is None and not client._voids._waiting
        for n in range(100):
            shown = client.rank(child, [child + "1", child + "2"], id=f"{child}{n}")
            assert (shown.id, shown.source) == (f"{child}{n}", "policy")
            assert set(shown.items) == {child + "1", child + "2"}
        client._voids.add(shown.id)
        until(lambda: client.query(child).summary.voided == 1, 30)
        client.close()
        os._exit(0)
    children.append(pid)
assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
assert client._voids.thread is not None
client.close()
"""


def test_processes_share_nothing(open_service):
    """Of a client that was made before they were forked, as servers do that load a program once."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS, open_service().url],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
