"""What kernels are written with: the one place that owns the compiler's options, and the arrays they work on.

A kernel is a plain Python function over arrays that numba can compile. Every kernel takes its randomness as an
argument, uses `math` rather than NumPy for scalars, and draws an index as `int(rng.random() * n)`, so that it
gives the same numbers compiled and interpreted (`NUMBA_DISABLE_JIT=1`).
"""

import os
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numba
import numpy as np
import numpy.typing as npt

from clickbandit.compiling.unsigned_index import Compiler

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

LOADED_AT = time.time()
"""When this process began to import kernels."""

Function = TypeVar("Function", bound=Callable[..., Any])


# `_nrt=False`: kernels make no arrays. They need none, and numba then need not count references to those in a
# state at every use, which would take most of a step's time.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}


def _options(function: Callable[..., Any]) -> dict[str, Any]:
    """Kernels of this package never count from the end of an array, as others may (see `unsigned_index`)."""
    if function.__module__.partition(".")[0] == "clickbandit":
        return {**_OPTIONS, "pipeline_class": Compiler}
    return _OPTIONS


def kernel(function: Function) -> Function:
    """Compile a function into the compiled loop that calls it.

    Never cached by itself: numba does not notice when a function that a cached kernel calls is edited. What is
    cached is the loop around the kernels, under a hash of all their sources (see `compiling.specialise`).
    """
    return cast(Function, numba.njit(**_options(function), forceinline=True)(function))


def slow_path(function: Function) -> Function:
    """A kernel that is seldom called: compiled by itself, so that what is around it stays small and quick."""
    return cast(Function, numba.njit(**_options(function))(function))


def entry_point(function: Function) -> Function:
    """Compile a function of a generated module: cached beside that module unless it has no file, and without the
    GIL so that runs share the machine's cores."""
    cached = os.path.exists(function.__code__.co_filename)
    return cast(Function, numba.njit(**_OPTIONS, cache=cached, nogil=True)(function))


def counted_entry_point(function: Function) -> Function:
    """An entry point that is called without end, and leaves the work to kernels.

    It counts references, for numba would otherwise not let go of a generator that it is handed: 64 bytes a call.
    """
    cached = os.path.exists(function.__code__.co_filename)
    return cast(Function, numba.njit(**{**_OPTIONS, "_nrt": True}, cache=cached, nogil=True)(function))


def is_compiled(function: object) -> bool:
    """Whether this is a kernel, rather than a plain Python function."""
    return hasattr(function, "py_func")


def interpreted(function: Any) -> Any:
    """The plain Python function behind a kernel, which calls only plain Python functions too.

    For a single call that is far quicker than to compile; and it is how compiled code is held to its text.
    """
    if not is_compiled(function):
        return function
    if function not in _interpreted:
        plain = function.py_func
        scope = dict(plain.__globals__)
        copy = FunctionType(plain.__code__, scope, plain.__name__, plain.__defaults__, plain.__closure__)
        _interpreted[function] = copy
        for name in set(plain.__code__.co_names) & scope.keys():
            scope[name] = interpreted(scope[name])
    return _interpreted[function]


_interpreted: WeakKeyDictionary[Any, FunctionType] = WeakKeyDictionary()
