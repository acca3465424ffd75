"""Tuples that kernels are given by reference are what they are in plain Python."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from clickbandit.compiling import by_reference
from clickbandit.compiling import kernel as compiling_kernel
from clickbandit.compiling.by_reference import ByReference
from clickbandit.compiling.kernel import (
    FloatArray,
    callable_kernel,
    interpreted,
    is_compiled,
    kernel,
    slow_path,
)

pytestmark = pytest.mark.skipif(
    not is_compiled(kernel(lambda: None)), reason="compilation is off (NUMBA_DISABLE_JIT)"
)


class Pair(NamedTuple):
    """All of one type."""

    first: FloatArray
    second: FloatArray


class Mixed(NamedTuple):
    flag: bool
    pair: Pair
    number: int
    table: np.ndarray
    share: float


def of_package(decorator: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Compile as kernels of the package are compiled."""

    def compiled(function: Any) -> Any:
        function.__module__ = "clickbandit.policies.mine"
        return decorator(function)

    return compiled


@of_package(kernel)
def of_pair(pair: Pair, i: int) -> float:
    return float(pair.first[i] - 2 * pair.second[i])


@of_package(slow_path)
def total(mixed: Mixed, i: int) -> float:
    """An item of a tuple is a tuple, handed on."""
    _, pair, number, table, share = mixed
    base = of_pair(pair, i) + of_pair(mixed.pair, 0) if mixed.flag else 0.5
    return float(base + number * table[i, 1] + share)


@of_package(slow_path)
def of_either(mixed: Mixed, other: Mixed, i: int) -> float:
    """A name that means one tuple and then another, and a name for what it meant before."""
    sum_ = 0.0
    chosen = mixed
    for step in range(4):
        before = chosen
        chosen = other if step % 2 == 0 else mixed
        sum_ += (step + 1) * (total(chosen, i) + 10 * total(before, i) + 100 * before.share)
    return sum_


@of_package(slow_path)
def of_made(mixed: Mixed, i: int) -> float:
    """A tuple that is made anew in every round."""
    sum_ = 0.0
    for n in range(3):
        made = Mixed(
            not mixed.flag, Pair(mixed.pair.second, mixed.pair.first), n, mixed.table, mixed.share * n
        )
        swapped = Pair(made.pair.second, made.pair.first)
        sum_ += total(made, i) + of_pair(swapped, i)
        made.pair.first[i] += 1.0
    return sum_


def test_they_are_compiled_as_kernels_of_the_package(mixed: Mixed) -> None:
    callable_kernel(total)(mixed, 0)
    [overload] = total.overloads.values()
    assert isinstance(overload.fndesc.argtypes[0], ByReference)


@pytest.fixture
def mixed() -> Mixed:
    pair = Pair(np.array([1.0, 2.0, 4.0]), np.array([0.5, 3.0, 8.0]))
    return Mixed(True, pair, 7, np.arange(6.0).reshape(3, 2), 0.25)


def other_than(mixed: Mixed) -> Mixed:
    pair = Pair(mixed.pair.first + 20, mixed.pair.second * 3)
    return Mixed(False, pair, 11, mixed.table + 5, 0.75)


def copy(mixed: Mixed) -> Mixed:
    return mixed._replace(pair=Pair(mixed.pair.first.copy(), mixed.pair.second.copy()))


@pytest.mark.parametrize("i", range(3))
def test_items_and_tuples_in_tuples(mixed: Mixed, i: int) -> None:
    for one in (mixed, other_than(mixed)):
        assert callable_kernel(total)(one, i) == interpreted(total)(one, i)


def test_a_name_may_come_to_mean_another_tuple(mixed: Mixed) -> None:
    other = other_than(mixed)
    assert callable_kernel(of_either)(mixed, other, 1) == interpreted(of_either)(mixed, other, 1)


def test_tuples_that_kernels_make(mixed: Mixed) -> None:
    compiled, plain = copy(mixed), copy(mixed)
    assert callable_kernel(of_made)(compiled, 2) == interpreted(of_made)(plain, 2)
    assert np.array_equal(compiled.pair.second, plain.pair.second)


def test_a_numba_that_lays_tuples_out_otherwise_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiling_kernel._probe()
    offset, other = by_reference._offset, {1: 2, 2: 1}
    monkeypatch.setattr(
        by_reference, "_offset", lambda context, kind, i: offset(context, kind, other.get(i, i))
    )
    assert not compiling_kernel._probe()
