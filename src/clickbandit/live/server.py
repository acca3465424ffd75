"""Running the service: a socket to listen on, one process or several, and an orderly end."""

import asyncio
import math
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import cast
from urllib.parse import urlsplit

import uvicorn

from clickbandit.errors import InputError
from clickbandit.live import log, metrics
from clickbandit.live.auth import VARIABLE, is_loopback, read_keys
from clickbandit.live.ranker import AsyncRanker
from clickbandit.live.service import Service

_PATIENCE = 30
"""Seconds that requests have to finish when the service is stopped."""
_LOOK = 0.5
"""Seconds between two looks at the workers."""
_IDLE = 65
"""Seconds that a connection may be idle; a little more than load balancers allow theirs."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `clickbandit serve` was told."""

    store: str
    host: str
    port: int
    workers: int = 1
    policy: str = "batchrank"
    positions: int = 5
    horizon: int = 1_000_000
    window: str = "30m"
    holdout: float = 0.0
    retention: str = "7d"
    patience: str = "2s"
    seed: int = 0
    max_queries: int = 1_000_000
    rate: float | None = None
    api_keys_file: str | None = None
    insecure: bool = False
    log_requests: bool = True
    log_queries: bool = False

    def ranker(self) -> AsyncRanker:
        return AsyncRanker(
            self.store,
            policy=self.policy,
            positions=self.positions,
            horizon=self.horizon,
            window=self.window,
            holdout=self.holdout,
            retention=self.retention,
            patience=self.patience,
            seed=self.seed,
            most_queries=self.max_queries,
        )

    def service(self) -> Service:
        """The application of one process."""
        keys = read_keys(Path(self.api_keys_file) if self.api_keys_file else None, os.environ)
        local = is_loopback(self.host)
        if not local and not keys and not self.insecure:
            raise InputError(
                f"{self.host} may be reached from other machines, so API keys are needed: name them in {VARIABLE} or "
                "in --api-keys-file, listen on 127.0.0.1, or say --insecure if whoever reaches it may do everything"
            )
        return Service(
            self.ranker(),
            keys=keys,
            rate=self.rate,
            only_loopback=local,
            log_requests=self.log_requests,
            log_queries=self.log_queries,
        )


def serve(options: Options) -> None:
    """Serve until told to stop."""
    if options.workers < 1:
        raise InputError(f"--workers must be at least 1, found {options.workers}")
    if options.rate is not None and not 0 < options.rate < math.inf:
        raise InputError(f"--rate must be more than 0 requests a second, found {options.rate}")
    if options.workers > 1 and options.store.startswith("sqlite:"):
        raise InputError(
            f"a SQLite store serves one worker, found --workers {options.workers}: leave --workers out, or use "
            "--store postgresql://... for many"
        )
    with listen(options.host, options.port) as listener:
        service = (
            options.service()
        )  # with several workers too, so that what is wrong with the options is said here
        if options.workers == 1:
            server = make_server(service)
            _announce(options, listener)
            server.run(sockets=[listener])
            return
        asyncio.run(service.api.ranker.close())
        with tempfile.TemporaryDirectory() as shared:
            os.environ[metrics.SHARED] = shared
            _supervise(options, listener)


def make_server(service: Service) -> "_Server":
    """What runs a service. From now on to be stopped is no failure."""
    server = _Server(_config(service))

    def stop(sig: int, frame: FrameType | None) -> None:
        # comes before uvicorn listens to signals, or when it raises one again after all is done
        server.should_exit = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    return server


def _supervise(options: Options, listener: socket.socket) -> None:
    """Keep as many workers as there should be, until told to stop; then stop them all."""
    stopping = False

    def stop(sig: int, frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    def start() -> SpawnProcess:
        process = context.Process(target=_work, args=(options, listener))
        process.start()
        return process

    context = get_context("spawn")
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    _announce(options, listener)
    workers = [start() for _ in range(options.workers)]
    while not stopping:
        wait([worker.sentinel for worker in workers], timeout=_LOOK)
        for k, worker in enumerate(workers):
            if not worker.is_alive() and not stopping:
                log.write("error", event="worker died", pid=worker.pid, exit_code=worker.exitcode)
                time.sleep(_LOOK)
                workers[k] = start()
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join()


def _work(options: Options, listener: socket.socket) -> None:
    """One of several workers. It ends with the process that started it, however that ended."""
    log.set_up()
    service = options.service()
    threading.Thread(target=_follow_parent, daemon=True).start()
    make_server(service).run(sockets=[listener])


def _follow_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _config(service: Service) -> uvicorn.Config:
    return uvicorn.Config(
        service,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=2048,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=_PATIENCE,
    )


class _Server(uvicorn.Server):
    """Says that it is not ready any more as soon as it is told to stop."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        cast(Service, self.config.app).stop()
        super().handle_exit(sig, frame)


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"{host} port {port} cannot be listened on: {error}: choose another --port or --host"
        ) from None


def _announce(options: Options, listener: socket.socket) -> None:
    host = f"[{options.host}]" if ":" in options.host else options.host
    url = f"http://{host}:{listener.getsockname()[1]}"
    print(
        f"clickbandit serves {url} from {_without_secrets(options.store)} with {options.policy}; for example:"
    )
    key = " -H 'Authorization: Bearer KEY'" if os.environ.get(VARIABLE) or options.api_keys_file else ""
    print(f'  curl {url}/v1/rank{key} --json \'{{"query": "red shoes", "items": ["A", "B", "C"]}}\'')
    print(f"  curl {url}/v1/queries{key}")
    print(f"{url}/ is a page that shows what is learned.")
    sys.stdout.flush()


def _without_secrets(store: str) -> str:
    """A store's URL as it may be shown.

    >>> _without_secrets("postgresql://shop:secret@db:5432/clicks?password=secret")
    'postgresql://db:5432/clicks'
    """
    parts = urlsplit(store)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
