"""How long a batch waits for others."""

import pytest

from clickbandit.live import gathering
from clickbandit.live.gathering import Gathering


class Time:
    """A clock that runs while one sleeps; meanwhile others ask, so many in every millisecond."""

    def __init__(self) -> None:
        self.now = 100.0
        self.queue: list[int] = []
        self.come = [0.0] * 20

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        start = round((self.now - 100) * 1000)
        self.now += seconds
        for k in range(start, round((self.now - 100) * 1000)):
            self.queue.extend([0] * int(self.come[k]))


@pytest.fixture
def clock(monkeypatch):
    made = Time()
    monkeypatch.setattr(gathering, "time", made)
    return made


def waited(clock, *come, answered=10):
    """Milliseconds."""
    clock.come[: len(come)] = come
    found = Gathering(lambda: len(clock.queue))
    found.answered(answered)
    found.wait()
    return round((clock.now - 100) * 1000, 3)


def test_whoever_is_alone_waits_for_nobody(clock):
    assert waited(clock, 1, 1, 1, answered=1) == 0


def test_nobody_waits_longer_than_for_those_that_were_answered(clock):
    assert waited(clock, 5, 5, 5, 5) == 2


def test_when_enough_wait_already_the_batch_begins(clock):
    clock.queue = [0] * 10
    assert waited(clock, 1, 1, 1) == 0


def test_it_waits_on_while_others_come(clock):
    assert waited(clock, 1, 2, 3, 4) == 4
    assert len(clock.queue) == 10


def test_it_waits_no_longer_when_nobody_comes(clock):
    assert waited(clock, 1, 1, 0, 9) == 3


def test_it_waits_five_milliseconds_at_most(clock):
    assert waited(clock, *[1] * 20, answered=100) == 5


def test_what_was_done_meanwhile_counts(clock):
    found = Gathering(lambda: len(clock.queue))
    found.answered(10)
    clock.now += 1
    found.wait()
    assert clock.now == 101
