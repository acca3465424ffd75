"""What is remembered of numba's rules is what numba would find anew; and the collector of garbage goes on after."""

import gc
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.extending import overload

from clickbandit.compiling.kernel import callable_kernel, entry_point, is_compiled, kernel
from clickbandit.compiling.undisturbed import undisturbed

pytestmark = pytest.mark.skipif(
    not is_compiled(kernel(lambda: None)), reason="compilation is off (NUMBA_DISABLE_JIT)"
)


def compiled(function: Callable[..., Any]) -> Any:
    """As kernels of the package are compiled, to be called from Python."""
    function.__module__ = "clickbandit.policies.mine"
    return callable_kernel(kernel(function))


def test_each_type_has_its_own_rule() -> None:
    half = compiled(lambda x: x * 3 // 2)
    for x in (5, 5.5, True, 5, -5):
        assert (half(x), type(half(x))) == (x * 3 // 2, type(x * 3 // 2))


def test_a_function_that_gets_further_rules_is_another_one() -> None:
    def number(x):
        raise NotImplementedError

    @overload(number)
    def of_integer(x):
        return (lambda x: 1) if isinstance(x, numba.types.Integer) else None

    assert compiled(lambda x: number(1) + x)(10) == 11

    @overload(number)
    def of_float(x):
        return (lambda x: 2) if isinstance(x, numba.types.Float) else None

    assert compiled(lambda x: number(1) + number(x))(0.5) == 3


def test_what_no_rule_is_for_is_said_each_time() -> None:
    sum_of = compiled(lambda x, y: x + y)
    for _ in range(2):
        with pytest.raises(numba.TypingError, match="No implementation of function"):
            sum_of(1, (1, 2))
    assert sum_of(1, 2) == 3


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_garbage_is_collected_after_compiling_as_before(
    collects: bool, fails: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLICKBANDIT_CACHE", str(tmp_path))
    seen = []

    def ask():
        raise NotImplementedError

    @overload(ask)
    def asked():
        seen.append(gc.isenabled())
        if fails:
            raise KeyboardInterrupt
        return lambda: None

    try:
        if not collects:
            gc.disable()
        with pytest.raises(KeyboardInterrupt) if fails else nullcontext():
            entry_point(lambda: ask())()
        assert gc.isenabled() == collects
    finally:
        gc.enable()
    assert seen == [False]


def test_garbage_is_collected_after_two_threads_compiled() -> None:
    """The second asks whether it was while the first compiles without."""
    begun, waits = threading.Event(), threading.Event()

    def second() -> None:
        begun.wait()
        waits.set()
        with undisturbed():
            pass

    thread = threading.Thread(target=second)
    thread.start()
    try:
        with undisturbed():
            begun.set()
            waits.wait()
            time.sleep(0.05)
        thread.join()
        assert gc.isenabled()
    finally:
        gc.enable()
