"""Running the service: a socket to listen on, one process or several, and an orderly end."""

import asyncio
import gc
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import uvloop

from clickbandit.errors import InputError
from clickbandit.live import clock
from clickbandit.live.async_ranker import AsyncRanker
from clickbandit.live.http import descriptors, log, metrics
from clickbandit.live.http.auth import VARIABLE, KeysFile, is_loopback
from clickbandit.live.http.connections import MAX_CONNECTIONS, Connections
from clickbandit.live.http.peers import Peers
from clickbandit.live.http.protocol import Connection
from clickbandit.live.http.service import Service
from clickbandit.live.http.starting import start_of, warning_of
from clickbandit.live.settings import ServiceSettings
from clickbandit.live.stores.contract import Part
from clickbandit.live.stores.late import open_when_there

_PATIENCE = 30
"""Seconds that requests have to finish when the service is stopped."""
_LOOK = 0.5
"""Seconds between two looks at the workers."""
_CHECK_INTERVAL = 1.0
"""Seconds between two looks at connections and keys."""
_BACKLOG = 2048
_GARBAGE = (50_000, 20, 100)
"""When to look for objects that hold each other: requests leave none, and to look takes time."""


def make_service(settings: ServiceSettings, peers: Peers | None = None) -> Service:
    """The application of one process, which may be one of several."""
    keys = KeysFile(Path(settings.api_keys_file) if settings.api_keys_file else None, os.environ)
    local = is_loopback(settings.host)
    if not local and not keys.keys and not settings.insecure:
        raise InputError(
            f"{settings.host} may be reached from other machines, so API keys are needed: name them in {VARIABLE} or "
            "in --api-keys-file, listen on 127.0.0.1, or say --insecure if anyone who can reach it may do everything"
        )
    store = open_when_there(settings.store)
    try:
        ranker = AsyncRanker(store, **settings.for_ranker())
    except InputError:
        store.close()
        raise
    service = Service(
        ranker,
        keys=keys,
        rate=settings.rate,
        only_loopback=local,
        log_requests=settings.log_requests,
        log_queries=settings.log_queries,
    )
    if peers is not None:
        service.api.peers = peers
        ranker.settle_part(peers.part)
    return service


def serve(settings: ServiceSettings) -> None:
    """Serve until told to stop."""
    with listen(settings.host, settings.port) as listener:
        service = make_service(settings)  # with several workers too, so that what is wrong is said here
        if settings.workers == 1:
            run(service, listener, settings.drain_ms / 1000, lambda: _announce(settings, listener))
            return
        asyncio.run(service.api.ranker.close())
        with tempfile.TemporaryDirectory() as shared:
            for name in ("metrics", "sockets"):
                os.mkdir(os.path.join(shared, name), 0o700)
            sockets = os.path.join(shared, "sockets")
            Peers(sockets, Part(settings.workers - 1, settings.workers)).check()
            os.environ[metrics.SHARED] = os.path.join(shared, "metrics")
            _supervise(settings, listener, sockets)


class Server:
    """Runs a service in this process until it is told to stop."""

    connections: Connections

    def __init__(self, service: Service, drain: float = 0.0) -> None:
        self._service = service
        self._drain = drain
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Event()
        self._stop: asyncio.Event | None = None
        self.started = threading.Event()

    def stop(self) -> None:
        """From any thread, or from a signal's handler: say that this is not ready, and end soon."""
        self._service.stop()
        self._stopping.set()
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)

    def run(self, listener: socket.socket) -> None:
        uvloop.run(self._run(listener))

    async def _run(self, listener: socket.socket) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        if self._stopping.is_set():
            self._stop.set()
        await self._service.api.start()
        connections = self.connections = Connections(self._service)
        connections.look()
        server = await self._loop.create_server(
            lambda: Connection(connections), sock=listener, backlog=_BACKLOG
        )
        self.started.set()
        looking = self._loop.create_task(_again_and_again(connections.look))
        await self._stop.wait()
        if self._drain:  # clients have this long to see that it is not ready
            await asyncio.sleep(self._drain)
        server.close()
        connections.stop()
        end = self._loop.time() + _PATIENCE
        while connections.answering and self._loop.time() < end:
            await asyncio.sleep(0.01)
        connections.end()
        looking.cancel()
        await self._service.close()


async def _again_and_again(function: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(_CHECK_INTERVAL)
        function()


def run(
    service: Service,
    listener: socket.socket,
    drain: float = 0.0,
    announce: Callable[[], None] = lambda: None,
) -> None:
    """Serve in the main thread. From the announcement on to be stopped is no failure."""
    server = Server(service, drain)

    def stop(sig: int, frame: FrameType | None) -> None:
        server.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    gc.collect()
    gc.freeze()  # what is there stays
    gc.set_threshold(*_GARBAGE)
    descriptors.allow(MAX_CONNECTIONS)
    announce()
    server.run(listener)


def _supervise(settings: ServiceSettings, listener: socket.socket, sockets: str) -> None:
    """Keep as many workers as there should be, until told to stop; then stop them all."""
    stopping = False

    def stop(sig: int, frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    def start(number: int) -> SpawnProcess:
        peers = Peers(sockets, Part(number, settings.workers))
        # one that takes the place of another must not see what the machine's clock was set to meanwhile
        process = context.Process(target=_work, args=(settings, listener, peers, time_.ahead))
        process.start()
        return process

    context, time_ = get_context("spawn"), clock.machine_clock()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    _announce(settings, listener)
    workers = [start(number) for number in range(settings.workers)]
    while not stopping:
        wait([worker.sentinel for worker in workers], timeout=_LOOK)
        for k, worker in enumerate(workers):
            if not worker.is_alive() and not stopping:
                log.write("error", event="worker died", pid=worker.pid, exit_code=worker.exitcode)
                time.sleep(_LOOK)
                workers[k] = start(k)
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join()


def _work(settings: ServiceSettings, listener: socket.socket, peers: Peers, ahead: float) -> None:
    """One of several workers. It ends with the process that started it, however that ended."""
    clock.go_on(ahead)
    log.set_up()
    try:
        service = make_service(settings, peers)
    except InputError as error:
        log.write("error", event="worker cannot start", message=str(error))
        sys.exit(1)
    threading.Thread(target=_follow_parent, daemon=True).start()
    run(service, listener, settings.drain_ms / 1000)


def _follow_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"{host} port {port} cannot be listened on: {error}: choose another --port or --host"
        ) from None


def _announce(settings: ServiceSettings, listener: socket.socket) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{listener.getsockname()[1]}"
    store, within = (
        _without_secrets(settings.store),
        f" within {settings.max_loss:g}" if settings.max_loss else "",
    )
    print(
        f"clickbandit serves {url} from {store} with {settings.policy}{within}, {start_of(settings)}; for example:"
    )
    key = " -H 'Authorization: Bearer KEY'" if os.environ.get(VARIABLE) or settings.api_keys_file else ""
    print(f'  curl {url}/v1/rank{key} --json \'{{"query": "red shoes", "items": ["A", "B", "C"]}}\'')
    print(f"  curl {url}/v1/queries{key}")
    print(f"{url}/ is a page that shows what is learned.")
    sys.stdout.flush()
    warning = warning_of(settings)
    if warning is not None:
        print(f"warning: {warning}", file=sys.stderr, flush=True)


def _without_secrets(store: str) -> str:
    """A store's URL as it may be shown.

    >>> _without_secrets("postgresql://shop:secret@db:5432/clicks?password=secret")
    'postgresql://db:5432/clicks'
    """
    parts = urlsplit(store)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
