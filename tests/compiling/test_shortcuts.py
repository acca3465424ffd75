"""What is an instruction in kernels of the package means what Python says, and costs no function to compile."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import errors, event

from clickbandit.compiling.kernel import callable_kernel, entry_point, is_compiled, kernel

pytestmark = pytest.mark.skipif(
    not is_compiled(kernel(lambda: None)), reason="compilation is off (NUMBA_DISABLE_JIT)"
)


def of_package(function: Callable[..., Any]) -> Any:
    function.__module__ = "clickbandit.policies.mine"
    return kernel(function)


def bits(number: float) -> tuple[type, str]:
    return type(number), repr(number)  # which tells -0.0 from 0.0, and is the same for nan


NUMBERS = (0, 3, -4, 2**40, 0.0, -0.0, 2.5, -1e300, math.inf, math.nan)


@pytest.mark.parametrize("choose", [min, max])
def test_the_lesser_and_the_greater_are_those_of_python(choose: Callable[..., Any]) -> None:
    compiled = callable_kernel(of_package(lambda a, b: choose(a, b)))
    for a, b in itertools.product(NUMBERS, repeat=2):
        kind = (
            float if isinstance(a, float) or isinstance(b, float) else int
        )  # a kernel has one type for either
        assert bits(compiled(a, b)) == bits(kind(choose(a, b)))


def test_constants_are_numbers_too() -> None:
    assert callable_kernel(of_package(lambda a: (max(1, a), min(a, 7), max(0.5, a))))(-3) == (1, -3, 0.5)


@pytest.mark.parametrize("number", [3, -3, 2.9, -2.9, True, 1e15])
def test_whole_numbers_are_those_of_python(number: float) -> None:
    assert callable_kernel(of_package(lambda a: int(a)))(number) == int(number)


def test_min_and_max_of_other_things_are_left_to_numba() -> None:
    compiled = callable_kernel(of_package(lambda a, b, c: min(a, b, c) + max((a, b))))
    assert compiled(3, 1, 2) == 1 + 3


def test_draws_are_those_of_numpy() -> None:
    compiled = callable_kernel(of_package(lambda rng: (rng.random(), rng.random())))
    for made in (np.random.SFC64, np.random.PCG64):
        rng, same = np.random.Generator(made(1)), np.random.Generator(made(1))
        assert compiled(rng) == (same.random(), same.random())
        assert rng.integers(100) == same.integers(100)


def test_nothing_else_is_compiled() -> None:
    compiled = callable_kernel(of_package(lambda rng, a: int(max(a, 1.5) + min(a, 2) + rng.random())))
    with event.install_recorder("numba:compile") as recorded:
        compiled(np.random.default_rng(1), 2.5)
    names = {one.data["dispatcher"].py_func.__name__ for _, one in recorded.buffer}
    assert names == {"<lambda>"}  # itself, and the function that Python calls


def test_a_constant_costs_no_kernel_of_its_own() -> None:
    half = of_package(lambda n: n // 2)
    assert callable_kernel(of_package(lambda n: half(8) + half(n)))(2) == 5
    assert len(half.signatures) == 1


def test_events_and_colours_are_numbas_own_again() -> None:
    before = event.start_event, event.end_event, errors.termcolor().errmsg("text")
    entry = entry_point(lambda x: x + 1)
    assert entry(1) == 2
    failing = entry_point(lambda x: x + "1")
    with pytest.raises(numba.TypingError) as raised:
        failing(1)
    assert "\x1b" not in str(raised.value)
    assert (event.start_event, event.end_event, errors.termcolor().errmsg("text")) == before
