"""A store for each test, and a clock that goes only when told to."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clickbandit.live import Ranker

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
