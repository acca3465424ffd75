"""The whole service under `tests.live.kill`: `clickbandit serve` with workers, asked over HTTP."""

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.live import kill
from tests.live.kill import Worker
from tests.live.kill_client import Client
from tests.live.kill_serve import EXPIRING, POSITIONS, WINDOW

COUNTING = f"{Path(kill.__file__).with_name('counting.py')}:Counting"
_STATUSES = {404: "Unknown", 409: "Conflict", 503: "StoreError"}
_START = 60.0
"""Seconds that the service may take to be ready."""


class Service(Worker):
    """A service of two workers, whose parent can be killed, or one of the workers."""

    def __init__(self, store: str, path: str, workers: int = 2) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        Path(path).write_text(str(self.port))
        options = {
            "--store": store,
            "--port": str(self.port),
            "--workers": str(workers),
            "--policy": COUNTING,
            "--positions": str(POSITIONS),
            "--window": "1d",
        }
        serve = [sys.executable, "-m", "clickbandit", "serve", "--no-log-requests"]
        self.command = [*serve, *(word for option in options.items() for word in option)]
        self.start()
        ask(self.port, "POST", f"/v1/queries/{quote(EXPIRING)}/reset", {"window": WINDOW})

    def start(self) -> None:
        nowhere = subprocess.DEVNULL
        self.process = subprocess.Popen(self.command, stdout=nowhere, stderr=nowhere)
        end = time.monotonic() + _START
        while not self.is_ready():
            assert self.process.poll() is None, "the service did not start"
            assert time.monotonic() < end, "the service is not ready"
            time.sleep(0.1)

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return ask(self.port, "GET", "/readyz")[0] == 200
        return False

    def workers(self) -> list[int]:
        """The processes that it has started to serve."""
        found = []
        pid = self.process.pid
        for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            with contextlib.suppress(OSError):
                if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                    found.append(child)
        return found

    def kill(self) -> None:
        """The parent alone: its workers must end by themselves."""
        workers = self.workers() if self.process.poll() is None else []
        self.process.kill()
        self.process.wait()
        end = time.monotonic() + _START
        for pid in workers:
            while Path(f"/proc/{pid}").exists():
                assert time.monotonic() < end, "a worker outlives the process that started it"
                time.sleep(0.02)


def kill_one_worker(worker: Worker, chance: random.Random) -> None:
    """The parent starts another in its place."""
    assert isinstance(worker, Service)
    os.kill(chance.choice(worker.workers()), signal.SIGKILL)


def ask(port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or "null")


class HttpClient(Client):
    """The same user over HTTP."""

    def ask(self, method: str, **arguments: Any) -> tuple[Any, bool]:
        again = False
        while True:
            started = time.monotonic()
            try:
                port = int(Path(self.chance.choice(self.paths)).read_text())
                status, answer = ask(port, *_request(method, arguments))
            except (OSError, http.client.HTTPException, ValueError):
                status, answer = 503, None
            if status != 503:
                self.replies += 1
                if method == "rank" and not again:
                    self.slowest = max(self.slowest, time.monotonic() - started)
                assert status < 500, answer
                return (_reply(method, answer) if status == 200 else {"error": _STATUSES[status]}), again
            again = True
            self.unanswered += 1
            time.sleep(0.05)


def _request(method: str, arguments: dict[str, Any]) -> tuple[Any, ...]:
    match method:
        case "rank":
            return "POST", "/v1/rank", arguments
        case "events":
            return "POST", "/v1/events", arguments
        case "click":
            return "POST", "/v1/events", {"events": [arguments]}
        case "settle" | "void":
            return "POST", f"/v1/impressions/{quote(arguments['id'])}/{method}"
        case "query":
            return "GET", f"/v1/queries/{quote(arguments['query'])}"
        case "verify":
            return "POST", f"/v1/queries/{quote(arguments['query'])}/verify"
    raise AssertionError(method)


def _reply(method: str, answer: Any) -> Any:
    """As the ranker itself answers."""
    match method:
        case "rank":
            shown = [item["id"] for item in answer["items"]]
            return [answer["id"], None, shown, None, answer["policy"], answer["source"]]
        case "events":
            return [[result["verdict"]] for result in answer["results"]]
        case "click":
            return [answer["results"][0]["verdict"]]
        case "verify":
            return answer["verified"]
    return answer
