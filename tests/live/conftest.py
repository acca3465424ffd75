"""A store and a service for each test, and a clock that goes only when told to."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from clickbandit.compiling.specialise import specialise
from clickbandit.live import AsyncRanker, Ranker, algorithm
from clickbandit.live.algorithm import Algorithms
from clickbandit.policies.base import parse_policy
from live import postgres
from live.serving import Served, serve

MEMORY = "/dev/shm"
USUAL = {"policy": "random", "positions": 3, "patience": "1m"}
"""Of rankers. On a busy machine a store may take seconds, and only tests of outages want the given order then."""


class Clock:
    """Seconds since 1970."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@contextlib.contextmanager
def new_folder() -> Iterator[Path]:
    """In memory where that is possible: what these tests are about is not the speed of a disk."""
    path = tempfile.mkdtemp(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
    yield Path(path)
    shutil.rmtree(path)


@pytest.fixture
def folder() -> Iterator[Path]:
    with new_folder() as path:
        yield path


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """One for all tests of a process. It need not outlive a crash of the machine, so it may forgo the disk."""
    if postgres.binaries() is None:
        if os.environ.get("CLICKBANDIT_NO_SKIPS"):
            pytest.fail("PostgreSQL's binaries are not there: install Debian's package postgresql")
        pytest.skip("PostgreSQL's binaries are not there: install Debian's package postgresql")
    with postgres.server("fsync=off") as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, folder: Path) -> str:
    """A store for one test."""
    if request.param == "sqlite":
        return f"sqlite:///{folder}/clicks.db"
    return new_schema(request.getfixturevalue("postgres_server"))


@pytest.fixture
def sql(url: str) -> Callable[[str], list[tuple[Any, ...]]]:
    """Asks the store itself."""

    def ask(query: str) -> list[tuple[Any, ...]]:
        if url.startswith("sqlite:///"):
            with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
                return file.execute(query).fetchall()
        with psycopg.connect(url, autocommit=True) as connection:
            return connection.execute(query).fetchall()

    return ask


only_sqlite = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
only_postgres = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


def new_schema(server: str) -> str:
    """The URL of an empty store on a PostgreSQL server."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"create schema {name}")
    return f"{server}&options=-csearch_path%3D{name}"


def specialise_plainly(template: str, *, compiled: bool, **parts: Any) -> Any:
    return specialise(template, compiled=False, **parts)


class PlainAlgorithms(Algorithms):
    """Policies as plain Python: for those that are not worth the time to compile."""

    def add(self, policy: Any) -> algorithm.LiveAlgorithm:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(algorithm, "specialise", specialise_plainly)
            return super().add(policy)


@pytest.fixture(scope="session")
def plain() -> Algorithms:
    return PlainAlgorithms()


COMPILED = ("random", "batchrank", "cascade-kl-ucb", "ranked-exp3", "click-ts")


@pytest.fixture(autouse=True)
def few_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other policies of this package are asked for a few lists once or twice, and not worth the time to compile.

    Which lists they show does not depend on it: `tests/policies/test_compiled.py`.
    """
    compiled = [parse_policy(name).algorithm for name in COMPILED]

    def chosen(template: str, *, policy: dict[str, Any], **parts: Any) -> Any:
        own = policy["rank"].__module__.startswith("clickbandit.")
        worth = not own or any(policy == vars(algorithm) for algorithm in compiled)
        return (specialise if worth else specialise_plainly)(template, policy=policy, **parts)

    monkeypatch.setattr(algorithm, "specialise", chosen)


@pytest.fixture
def open_ranker(url: str, clock: Clock) -> Iterator[Callable[..., Ranker]]:
    """Opens rankers on the test's store, and closes what the test leaves open."""
    opened: list[Ranker] = []

    def open_(**settings: Any) -> Ranker:
        ranker = Ranker(url, **{**USUAL, "clock": clock, **settings})
        opened.append(ranker)
        return ranker

    yield open_
    for ranker in opened:
        ranker.close()


@pytest.fixture
def open_service(folder: Path, clock: Clock) -> Iterator[Callable[..., Served]]:
    """Opens services on the test's store, and closes what the test leaves open."""
    with contextlib.ExitStack() as stack:

        def open_(ranker: dict[str, Any] | None = None, **settings: Any) -> Served:
            given = {**USUAL, "clock": clock, **(ranker or {})}
            store = given.pop("store", f"sqlite:///{folder}/clicks.db")
            return stack.enter_context(serve(AsyncRanker(store, **given), **settings))

        yield open_


@pytest.fixture
def service(open_service: Callable[..., Served]) -> Served:
    return open_service()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service for tests that leave nothing behind."""
    url = f"sqlite:///{tmp_path_factory.mktemp('standing')}/clicks.db"
    with serve(AsyncRanker(url, **USUAL)) as served:
        yield served
