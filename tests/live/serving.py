"""A service on a port of its own, in a thread of the test, and a client that hides nothing of HTTP."""

import http.client
import json
import threading
import time
from contextlib import contextmanager

from prometheus_client.parser import text_string_to_metric_families

from clickbandit.live import AsyncRanker
from clickbandit.live.http.server import Server, listen
from clickbandit.live.http.service import Service


class Answer:
    """Of the service."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        """What an error says, if it has the shape that errors have."""
        assert self.headers["content-type"] == "application/problem+json"
        assert set(self.json) == {"title", "status", "detail"}
        assert self.json["status"] == self.status >= 400
        return self.json["detail"]


class Served:
    """A service that runs."""

    def __init__(self, port: int, service: Service, server: Server) -> None:
        self.port = port
        self.service = service
        self.server = server
        self.url = f"http://127.0.0.1:{port}"
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._used = time.monotonic()

    def send(self, method: str, path: str, body=None, **headers: str) -> Answer:
        """Send a request as it is; underscores in the names of headers are dashes."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        if time.monotonic() - self._used > 5:  # the service closes what is idle
            self._connection.close()
        self._used = time.monotonic()
        self._connection.request(method, path, body, names)
        return Answer(self._connection.getresponse())

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, **headers)

    def post(self, path: str, body=None, **headers: str) -> Answer:
        if body is None:
            return self.send("POST", path, **headers)
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        return self.send("POST", path, body, **{"content_type": "application/json", **headers})

    def rank(self, query="shoes", items=tuple("ABCDEF"), **more):
        answer = self.post("/v1/rank", {"query": query, "items": list(items), **more})
        assert answer.status == 200, answer.body
        return answer.json

    def events(self, *events):
        answer = self.post("/v1/events", {"events": list(events)})
        assert answer.status == 200, answer.body
        return answer.json["results"]

    def close(self) -> None:
        self._connection.close()


@contextmanager
def serve(ranker: AsyncRanker, port: int = 0, peers=None, **settings):
    """Run a service, on any port unless one is named, until the block ends."""
    service = Service(ranker, **{"log_requests": False, **settings})
    if peers is not None:
        service.api.peers = peers
        ranker.settle_part(peers.part)
    listener = listen("127.0.0.1", port)
    server = Server(service)
    thread = threading.Thread(target=server.run, args=(listener,))
    thread.start()
    while not server.started.wait(0.1):
        assert thread.is_alive()
    served = Served(listener.getsockname()[1], service, server)
    try:
        yield served
    finally:
        served.close()
        server.stop()
        thread.join()
        listener.close()


def until(condition, seconds: float = 10.0) -> None:
    """Wait for something to come true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)


def metrics(service: Served) -> dict[tuple[str, ...], float]:
    """By name and the values of labels."""
    text = service.get("/metrics").body.decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
