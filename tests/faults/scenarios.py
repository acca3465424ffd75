"""The faults, one function each. What is not as it must be is an AssertionError."""

import contextlib
import http.client
import logging
import os
import random
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.live import kill
from tests.live.kill import Report, Worker
from tests.live.postgres import database, new_store

from clickbandit.live import Client, Ranker
from clickbandit.live.values import QueryDetail

ITEMS = list("ABCDEF")
_LEARNED = 400
"""Impressions before bits are flipped."""
_PAUSE = 1.0
"""Seconds that a fault lasts."""


class Outcome(NamedTuple):
    """What came of it."""

    acknowledged: int
    slowest: float | None
    """Seconds for a list that was answered at the first attempt."""
    note: str = ""


def _outcome(report: Report) -> Outcome:
    note = (
        f"{report.fallbacks:,} of {report.impressions:,} lists in the given order" if report.fallbacks else ""
    )
    return Outcome(report.replies, report.slowest, note)


def _quietly(*args: object) -> None:
    """For `kill.run`, which says how far it is."""


# --- processes ----------------------------------------------------------------------------------------------


def kill_workers(store: str, times: int, seed: int) -> Outcome:
    with new_store(store) as url:
        return _outcome(kill.run(url, times, workers=1 if store == "sqlite" else 3, seed=seed, say=_quietly))


def pause_workers(store: str, times: int, seed: int) -> Outcome:
    def pause(worker: Worker, chance: random.Random) -> None:
        worker.process.send_signal(signal.SIGSTOP)
        time.sleep(chance.uniform(0, _PAUSE))
        worker.process.send_signal(signal.SIGCONT)

    with new_store(store) as url:
        workers = 1 if store == "sqlite" else 2
        return _outcome(kill.run(url, times, workers=workers, seed=seed, say=_quietly, disturb=pause))


def lose_replies(store: str, times: int, seed: int) -> Outcome:
    with new_store(store) as url:
        report = kill.run(
            url, times, seed=seed, say=_quietly, disturb=lambda worker, chance: time.sleep(0.5), lost=0.1
        )
        return _outcome(report)._replace(note=f"{report.unanswered:,} requests sent again")


# --- stores -------------------------------------------------------------------------------------------------


def kill_database(store: str, times: int, seed: int) -> Outcome:
    with database() as running:

        def disturb(worker: Worker, chance: random.Random) -> None:
            running.kill()
            running.start()

        return _outcome(kill.run(running.url, times, workers=2, seed=seed, say=_quietly, disturb=disturb))


def stop_database(store: str, times: int, seed: int) -> Outcome:
    with database() as running:

        def disturb(worker: Worker, chance: random.Random) -> None:
            running.stop()
            time.sleep(_PAUSE)
            running.start()

        return _outcome(kill.run(running.url, times, workers=2, seed=seed, say=_quietly, disturb=disturb))


def _disturb_file(times: int, seed: int, disturb: Callable[[Path, Worker], None]) -> Outcome:
    with new_store("sqlite") as url:
        path = Path(url.removeprefix("sqlite:///"))
        return _outcome(
            kill.run(
                url, times, seed=seed, say=_quietly, disturb=lambda worker, chance: disturb(path, worker)
            )
        )


def fill_disk(store: str, times: int, seed: int) -> Outcome:
    """The process may write no file beyond its first page."""

    def disturb(path: Path, worker: Worker) -> None:
        before = resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        time.sleep(_PAUSE)
        resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, before)

    return _disturb_file(times, seed, disturb)


def lock_file(store: str, times: int, seed: int) -> Outcome:
    def disturb(path: Path, worker: Worker) -> None:
        with contextlib.closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as other:
            other.execute("begin immediate")
            time.sleep(_PAUSE)
            other.execute("rollback")

    return _disturb_file(times, seed, disturb)


def move_file(store: str, times: int, seed: int) -> Outcome:
    def disturb(path: Path, worker: Worker) -> None:
        path.rename(path.with_suffix(".away"))
        time.sleep(_PAUSE)
        path.with_suffix(".away").rename(path)

    return _disturb_file(times, seed, disturb)


# --- bits ---------------------------------------------------------------------------------------------------


def flip_snapshots(store: str, times: int, seed: int) -> Outcome:
    """What is in use afterwards is what was in use before, and `verify` says what happened."""

    def check(ranker: Ranker, expected: QueryDetail) -> None:
        assert ranker.query("shoes") == expected, "another state is in use than was learned"
        assert not ranker.verify("shoes"), "a flipped bit was not found"

    _flip(times, seed, "snapshots", "state", check)
    return Outcome(times * _LEARNED, None, "all found; what was learned is the same")


def flip_log(store: str, times: int, seed: int) -> Outcome:
    """It is found, and learning goes on; after the last snapshot what was learned from there on is lost."""
    shortened = 0

    def check(ranker: Ranker, expected: QueryDetail) -> None:
        nonlocal shortened
        assert not ranker.verify("shoes"), "a flipped bit was not found"
        detail = ranker.query("shoes")
        assert detail.summary == expected.summary, "an impression or a click was lost"
        shortened += detail.learned != expected.learned
        assert ranker.rank("shoes", ITEMS).source == "policy", "learning does not go on"

    _flip(times, seed, "log", "records", check)
    note = f"all found; {shortened:,} times what the policy learned after the flip was lost, the impressions were not"
    return Outcome(times * _LEARNED, None, note)


def _flip(
    times: int, seed: int, table: str, column: str, check: Callable[[Ranker, QueryDetail], None]
) -> None:
    chance = random.Random(seed)
    logging.getLogger("clickbandit.live").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "clicks.db")
        settings = {"policy": "batchrank", "positions": 3, "horizon": 50}
        with Ranker(f"sqlite:///{path}", **settings) as ranker:  # type: ignore[arg-type]
            for _ in range(_LEARNED):
                shown = ranker.rank("shoes", ITEMS)
                ranker.click(shown.id, shown.items[0])
                ranker.settle(shown.id)
            expected = ranker.query("shoes")
        with contextlib.closing(sqlite3.connect(path)) as file:
            file.execute("pragma journal_mode = delete")
        whole = path.read_bytes()
        for _ in range(times):
            path.write_bytes(whole)
            with contextlib.closing(sqlite3.connect(path)) as file, file:
                rows = file.execute(f"select number, {column} from {table} order by number desc").fetchall()
                number, written = rows[0] if table == "snapshots" else chance.choice(rows)
                changed = bytearray(written)
                bit = chance.randrange(8 * len(changed))
                changed[bit // 8] ^= 1 << bit % 8
                file.execute(f"update {table} set {column} = ? where number = ?", (bytes(changed), number))
            with Ranker(f"sqlite:///{path}", **settings) as ranker:  # type: ignore[arg-type]
                check(ranker, expected)


# --- connections --------------------------------------------------------------------------------------------


def hostile_connections(store: str, times: int, seed: int) -> Outcome:
    """Headers and bodies that never end or never come, while a client asks for lists; then SIGTERM."""
    sent = (
        b"",
        b"GET /livez HTTP/1.1\r\nHost: local",
        b"GET /livez HTTP/1.1\r\nx: " + b"x" * 100_000,
        b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
        b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
        b"\x16\x03\x01",
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "clickbandit", "serve", "--port", str(port), "--policy", "random"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [*command, "--no-log-requests"], cwd=folder, stdout=subprocess.PIPE, env=dict(os.environ)
        ) as process,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(process.kill)
        assert process.stdout is not None
        process.stdout.readline()
        slowest, lists = 0.0, 0
        client = stack.enter_context(Client(f"http://127.0.0.1:{port}", timeout=10))
        client.rank("shoes", ITEMS)
        for k in range(times):
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            with contextlib.suppress(OSError):
                raw.sendall(sent[k % len(sent)])
            started = time.monotonic()
            assert client.rank("shoes", ITEMS).source == "policy", "a list was not made"
            slowest = max(slowest, time.monotonic() - started)
            lists += 1
        answer = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        answer.request("GET", "/readyz")
        assert answer.getresponse().status == 200, "it is not ready"
        answer.close()
        started = time.monotonic()
        process.terminate()
        process.wait(60)
        took = time.monotonic() - started
        assert took < 5, f"it took {took:.1f} seconds to stop"
    return Outcome(lists, slowest, f"stopped within {took:.1f} s")
