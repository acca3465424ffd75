"""Kernels of the package index arrays from the start, and those of others as Python does."""

import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

from clickbandit.compiling.kernel import callable_kernel, is_compiled, kernel, slow_path
from clickbandit.compiling.linked import LinkedLibrary

pytestmark = pytest.mark.skipif(
    not is_compiled(kernel(lambda: None)), reason="compilation is off (NUMBA_DISABLE_JIT)"
)


def read(array, i):
    return array[i]


def within_package(function):
    copy = FunctionType(function.__code__, function.__globals__, function.__name__)
    copy.__module__ = "clickbandit.policies.mine"
    return copy


def questions(compiled, *arguments):
    """How often a kernel asks whether a number is negative."""
    callable_kernel(compiled)(*arguments)
    return sum(text.count("icmp slt") + text.count("icmp sgt") for text in compiled.inspect_llvm().values())


@pytest.mark.skipif("NUMBA_BOUNDSCHECK" in os.environ, reason="then every index is looked at")
@pytest.mark.parametrize("decorator", [kernel, slow_path])
def test_a_kernel_of_the_package_does_not_ask_for_the_sign(decorator):
    array = np.arange(3)
    assert questions(decorator(within_package(read)), array, 1) == 0
    assert questions(decorator(read), array, 1) > 0


def test_a_kernel_of_the_package_is_only_linked_into_what_calls_it():
    for function, linked in ((within_package(read), True), (read, False)):
        compiled = kernel(function)
        assert callable_kernel(compiled)(np.arange(3), 1) == 1
        [overload] = compiled.overloads.values()
        assert isinstance(overload.library, LinkedLibrary) == linked
        assert (overload.library._compiled_object is None) == linked


def test_others_count_from_the_end_as_python_does():
    assert callable_kernel(kernel(read))(np.arange(3), -1) == 2


def every_way(array, square, pair, i, j):
    array[i] += 1
    array[j], array[i] = array[i], array[j]
    square[i, j] = array[-1]
    square[j][i] += array[i:][0]
    square[i, j:][0] *= 2
    array[-2] = pair[j] + square[-1, i] + len(array[:-1])
    return array[i] + square[i, j] + square[j, i] + square[:, i][j]


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, int])
def test_every_way_to_index_means_what_it_says(kind):
    def run(function):
        array, square = np.arange(10, 15), np.arange(20, 45).reshape(5, 5)
        return function(array, square, (7, 9), kind(2), kind(1)), array.tolist(), square.tolist()

    assert run(callable_kernel(kernel(within_package(every_way)))) == run(every_way)


def test_numba_can_check_that_no_kernel_counts_from_the_end():
    script = (
        "from test_unsigned_index import *; callable_kernel(kernel(within_package(read)))(np.arange(3), -1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parent,
        env={**os.environ, "NUMBA_BOUNDSCHECK": "1"},
        capture_output=True,
        text=True,
    )
    assert "IndexError" in done.stderr
