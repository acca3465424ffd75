"""Entry points that let go of the GIL, and those that keep it."""

import threading
import time

import numba
import pytest

from clickbandit.compiling.kernel import (
    counted_entry_point,
    counted_quick_entry_point,
    entry_point,
    quick_entry_point,
)

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="compilation is off (NUMBA_DISABLE_JIT)"
)


def spin(n):
    total = 0
    for k in range(n):
        total += k * k % 7
    return total


@pytest.mark.parametrize(
    ("decorator", "keeps"),
    [
        (entry_point, False),
        (counted_entry_point, False),
        (quick_entry_point, True),
        (counted_quick_entry_point, True),
    ],
)
def test_another_thread_runs_meanwhile_or_not(decorator, keeps):
    function = decorator(eval("lambda n: spin(n)", {"spin": numba.njit(spin)}))
    function(1)
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    started = time.perf_counter()
    function(10**8)
    ended = time.perf_counter()
    stop.set()
    thread.join()
    within = [at for at in ticks if started + 0.01 < at < ended - 0.01]
    assert bool(within) != keeps, (ended - started, len(within))
