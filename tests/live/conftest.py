"""A store for each test, and a clock that goes only when told to."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clickbandit.compilation import specialise
from clickbandit.live import Ranker, algorithm
from clickbandit.live.algorithm import Algorithms

MEMORY = "/dev/shm"


class Clock:
    """Seconds since 1970."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that is possible: what these tests are about is not the speed of a disk."""
    path = tempfile.mkdtemp(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
    yield Path(path)
    shutil.rmtree(path)


@pytest.fixture
def url(folder: Path) -> str:
    return f"sqlite:///{folder}/clicks.db"


class PlainAlgorithms(Algorithms):
    """Policies as plain Python: for those that are not worth the time to compile."""

    def add(self, policy: Any) -> algorithm.Algorithm:
        def plainly(*args: Any, compiled: bool, **parts: Any) -> Any:
            return specialise(*args, compiled=False, **parts)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(algorithm, "specialise", plainly)
            return super().add(policy)


@pytest.fixture(scope="session")
def plain() -> Algorithms:
    return PlainAlgorithms()


@pytest.fixture
def open_ranker(url: str, clock: Clock) -> Iterator[Callable[..., Ranker]]:
    """Opens rankers on the test's store, and closes what the test leaves open."""
    opened: list[Ranker] = []

    def open_(**settings: Any) -> Ranker:
        ranker = Ranker(url, **{"policy": "random", "positions": 3, "clock": clock, **settings})
        opened.append(ranker)
        return ranker

    yield open_
    for ranker in opened:
        ranker.close()
