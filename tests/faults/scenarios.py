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
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from tests.faults.service import HttpClient, Service, kill_one_worker
from tests.faults.straying import Straying
from tests.live import kill
from tests.live.kill import Report, Worker
from tests.live.postgres import database, new_store

from clickbandit import InputError
from clickbandit.live import Client, Ranker, StoreError
from clickbandit.live.values import QueryDetail

ITEMS = list("ABCDEF")
_LEARNED = 400
"""Impressions before bits are flipped."""
_PAUSE = 1.0
"""Seconds that a fault lasts."""


@dataclass
class Outcome:
    """What came of it; of several runs together, the sums and the slowest."""

    acknowledged: int = 0
    slowest: float = 0.0
    """Seconds for a list that was answered at the first attempt; 0 where none was asked for."""
    learned: int = 0
    """Impressions that were learned from, some of them between any two faults."""
    recovery: float = 0.0
    """Seconds from the end of a fault to the next of these, at most."""
    counts: dict[str, int] = field(default_factory=dict)
    """What else is worth saying."""

    def add(self, other: "Outcome") -> "Outcome":
        return Outcome(
            self.acknowledged + other.acknowledged,
            max(self.slowest, other.slowest),
            self.learned + other.learned,
            max(self.recovery, other.recovery),
            dict(Counter(self.counts) + Counter(other.counts)),
        )


def _outcome(report: Report) -> Outcome:
    counts = {"lists in the given order": report.fallbacks, "requests sent again": report.unanswered}
    return Outcome(report.replies, report.slowest, report.learned, report.recovery, counts)


def _quietly(*args: object) -> None:
    """For `kill.run`, which says how far it is."""


# --- processes ----------------------------------------------------------------------------------------------


def kill_workers(store: str, times: int, seed: int) -> Outcome:
    with new_store(store) as url:
        return _outcome(kill.run(url, times, workers=1 if store == "sqlite" else 3, seed=seed, say=_quietly))


def pause_workers(store: str, times: int, seed: int) -> Outcome:
    def pause(worker: Worker, chance: random.Random) -> None:
        os.kill(worker.process.pid, signal.SIGSTOP)
        time.sleep(chance.uniform(0, _PAUSE))
        os.kill(worker.process.pid, signal.SIGCONT)

    with new_store(store) as url:
        workers = 1 if store == "sqlite" else 2
        return _outcome(kill.run(url, times, workers=workers, seed=seed, say=_quietly, disturb=pause))


def lose_replies(store: str, times: int, seed: int) -> Outcome:
    with new_store(store) as url:
        report = kill.run(
            url, times, seed=seed, say=_quietly, disturb=lambda worker, chance: time.sleep(0.5), lost=0.1
        )
        return _outcome(report)


def reorder_replies(store: str, times: int, seed: int) -> Outcome:
    with new_store(store) as url:
        workers = 1 if store == "sqlite" else 2
        report = kill.run(
            url,
            times,
            workers=workers,
            seed=seed,
            say=_quietly,
            disturb=lambda worker, chance: time.sleep(0.5),
            make_client=Straying,
        )
        return _outcome(report)


# --- the whole service --------------------------------------------------------------------------------------


def kill_parent(store: str, times: int, seed: int) -> Outcome:
    return _serve(store, times, seed, kill.kill)


def kill_service_workers(store: str, times: int, seed: int) -> Outcome:
    return _serve(store, times, seed, kill_one_worker)


def _serve(store: str, times: int, seed: int, disturb: Callable[[Worker, random.Random], None]) -> Outcome:
    with new_store(store) as url:
        return _outcome(
            kill.run(
                url,
                times,
                seed=seed,
                say=_quietly,
                disturb=disturb,
                make_worker=Service,
                make_client=HttpClient,
            )
        )


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


def pause_database(store: str, times: int, seed: int) -> Outcome:
    """For about as long as lists wait for their store; then it does all that it was asked meanwhile."""
    with database() as running:

        def disturb(worker: Worker, chance: random.Random) -> None:
            main = running.process.pid
            children = Path(f"/proc/{main}/task/{main}/children").read_text()
            processes = [main, *map(int, children.split())]
            for signal_ in (signal.SIGSTOP, signal.SIGCONT):
                for pid in processes:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal_)
                if signal_ == signal.SIGSTOP:
                    time.sleep(chance.uniform(0.3, 3 * _PAUSE))

        return _serve(running.url, times, seed, disturb)


def make_database_read_only(store: str, times: int, seed: int) -> Outcome:
    """As after a failover to a standby."""
    with database() as running, psycopg.connect(running.url, autocommit=True) as admin:
        admin.execute("set default_transaction_read_only = off")

        def set_to(value: str) -> None:
            admin.execute(f"alter system set default_transaction_read_only = {value}")
            admin.execute("select pg_reload_conf()")

        def disturb(worker: Worker, chance: random.Random) -> None:
            set_to("on")
            time.sleep(_PAUSE)
            set_to("off")

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
    return Outcome(times * _LEARNED, learned=times * _LEARNED, counts={"times it was found": times})


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
    counts = {"times it was found": times, "times what the policy learned after the flip was lost": shortened}
    return Outcome(times * _LEARNED, learned=times * _LEARNED, counts=counts)


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


def truncate_file(store: str, times: int, seed: int) -> Outcome:
    """What was on the lost part is gone: the rest is refused in one sentence, or used, and then what is known is what
    was known at one moment, unless `verify` says that it is damaged. No process may crash."""
    chance = random.Random(seed)
    logging.getLogger("clickbandit.live").setLevel(logging.CRITICAL)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "clicks.db")
        settings: Any = {"policy": "batchrank", "positions": 3, "horizon": 50}
        known = {}
        with Ranker(f"sqlite:///{path}", **settings) as ranker:
            for _ in range(_LEARNED):
                shown = ranker.rank("shoes", ITEMS)
                _remember(ranker, known)
                ranker.click(shown.id, shown.items[0])
                ranker.settle(shown.id)
                _remember(ranker, known)
            saved = {file: file.read_bytes() for file in path.parent.iterdir() if "lock" not in file.name}
        for _ in range(times):
            for file, content in saved.items():
                file.write_bytes(content)
            victim = chance.choice(sorted(saved))
            os.truncate(victim, chance.randrange(len(saved[victim]) + 1))
            try:
                with Ranker(f"sqlite:///{path}", **settings) as ranker:
                    counts[_use(ranker, known)] += 1
            except (InputError, StoreError):
                counts["times it was refused"] += 1
    return Outcome(counts=dict(counts))


def _remember(ranker: Ranker, known: dict[int, Any]) -> None:
    """What is known after which record."""
    detail = ranker.query("shoes")
    known[detail.records] = (detail.learned, detail.best, detail.summary.learned, detail.summary.impressions)


def _use(ranker: Ranker, known: dict[int, Any]) -> str:
    """See what is known, go on from there, and ask whether all that is stored is what was written."""
    with contextlib.suppress(StoreError, InputError):
        left: dict[int, Any] = {}
        _remember(ranker, left)
        shown = ranker.rank("shoes", ITEMS)
        if shown.source == "policy":
            ranker.settle(shown.id)
            if ranker.verify("shoes"):
                assert left.items() <= known.items(), "what is known was never known, and nothing says so"
                return "times it was used"
            assert ranker.stats().damaged > 0, "it is damaged, and that is not counted"
            return "times it was used and said to be damaged"
    raise StoreError("it serves the given order")


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
    return Outcome(lists, slowest)
