"""A machine whose clock is set forward and back: nothing settles early or late for that, and nothing is forgotten."""

import threading
from itertools import pairwise

import pytest

from clickbandit.live import Ranker, pruning
from clickbandit.live import engine as engine_module
from clickbandit.live.clock import Clock
from live.serving import until

ITEMS = list("ABCDEF")
DAY = 86400.0


class Machine:
    """Two clocks: the one that people set, and the one that only passes."""

    def __init__(self):
        self.wall, self.elapsed = 1_700_000_000.0, 50.0

    def pass_(self, seconds):
        self.wall += seconds
        self.elapsed += seconds


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(pruning, "PAUSE", 0.0)
    monkeypatch.setattr(
        engine_module, "machine_clock", lambda: Clock(lambda: machine.wall, lambda: machine.elapsed)
    )
    return machine


@pytest.fixture
def ranker(folder, machine):
    with Ranker(f"sqlite:///{folder}/clicks.db", policy="random", positions=3) as ranker:
        yield ranker


def test_what_passes_while_two_threads_ask_counts_once():
    """The first is held up when it knows how much passed, and the other asks meanwhile."""
    held, go_on = threading.Event(), threading.Event()

    class Slow(float):
        def __sub__(self, last):
            passed = float(self) - last
            held.set()
            go_on.wait(0.2)
            return passed

    times = iter([0.0, Slow(60.0), 60.0, 60.0])
    clock = Clock(lambda: 1060.0, lambda: next(times), ahead=1000.0)
    slow = threading.Thread(target=clock.now)
    slow.start()
    held.wait()
    clock.now()
    go_on.set()
    slow.join()
    assert clock.now() == 1_060_000


def test_a_jump_forward_and_back(ranker, machine):
    before = ranker.rank("shoes", ITEMS)
    machine.wall += 9 * DAY
    during = ranker.rank("shoes", ITEMS)
    assert (during.expires_at - before.expires_at).total_seconds() < 1
    assert ranker.stats().settled == 0
    assert ranker.stats().clock_skew == pytest.approx(9 * DAY, abs=1)
    machine.wall -= 9 * DAY
    machine.pass_(1000)
    after = ranker.rank("shoes", ITEMS)
    assert ranker.click(after.id, after.items[0]).verdict == "accepted"
    assert ranker.stats().settled == 0
    machine.pass_(810)
    assert ranker.stats().settled == 2  # as if nothing had been
    machine.pass_(1000)
    assert ranker.stats().settled == 3


def test_a_jump_back(ranker, machine):
    shown = ranker.rank("shoes", ITEMS)
    machine.wall -= 9 * DAY
    machine.pass_(1830)
    assert ranker.stats().settled == 1
    assert ranker.click(shown.id, shown.items[0]).verdict == "late"


@pytest.mark.parametrize("restart", [False, True])
def test_nothing_is_pruned_after_a_jump(ranker, machine, folder, restart):
    for k in range(20):
        ranker.settle(ranker.rank("shoes", ITEMS, id=str(k)).id)
    machine.wall += 9 * DAY
    if restart:
        ranker.close()
        ranker = Ranker(f"sqlite:///{folder}/clicks.db", policy="random", positions=3)
    for _ in range(20):
        ranker.settle(ranker.rank("hats", ITEMS).id)
    assert ranker.operations().pruned == 0
    assert ranker.rank("shoes", ITEMS, id="0").source == "policy"
    assert ranker.query("shoes").summary.impressions == 20
    machine.pass_(8 * DAY)
    for _ in range(3):
        ranker.rank("hats", ITEMS)
    until(lambda: ranker.operations().pruned >= 20)  # seven days of time have passed
    ranker.close()


def test_a_small_correction_is_made(machine):
    clock = Clock(lambda: machine.wall, lambda: machine.elapsed)
    machine.wall += 2
    times = []
    for _ in range(300):
        machine.pass_(1)
        times.append(clock.now())
    assert abs(clock.skew) < 0.001
    steps = [b - a for a, b in pairwise(times)]
    assert 985 <= min(steps) <= max(steps) <= 1015
    machine.elapsed -= 10
    assert clock.now() == times[-1]
