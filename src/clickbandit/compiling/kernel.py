"""What kernels are written with: the one place that owns the compiler's options, and the arrays they work on.

A kernel is a plain Python function over arrays that numba can compile. Every kernel takes its randomness as an
argument, uses `math` rather than NumPy for scalars, and draws an index as `int(rng.random() * n)`, so that it
gives the same numbers compiled and interpreted (`NUMBA_DISABLE_JIT=1`).
"""

import os
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

import numba
import numpy as np
import numpy.typing as npt
from numba.core.registry import CPUDispatcher

from clickbandit.compiling.folder import remembered
from clickbandit.compiling.undisturbed import undisturbed

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

Function = TypeVar("Function", bound=Callable[..., Any])


# --- the compiler's options ---------------------------------------------------------------------------------

_PLAIN: dict[str, Any] = {"error_model": "numpy"}
_QUICK: dict[str, Any] = {**_PLAIN, "_nrt": False, "no_cfunc_wrapper": True}
_INNER: dict[str, Any] = {"no_cpython_wrapper": True}
"""Kernels are called by kernels, and nothing by C: without wrappers for others kernels compile in 0.6 of the time."""


def _probe() -> bool:
    """Whether numba still takes the options that it does not promise: tried on one function, compiled and called."""
    try:
        from clickbandit.compiling.compiler import Compiler
        from clickbandit.compiling.machine_code import rebuild, reduce

        class ProbeArguments(NamedTuple):
            flag: bool
            others: FloatArray
            values: FloatArray

        def third(given: ProbeArguments, i: int) -> float:
            return float(given.values[max(i, int(0.5)) + 1] if given.flag else given.others[min(i, 1)])

        inner = numba.njit(**_QUICK, **_INNER, pipeline_class=Compiler)(third)
        outer = numba.njit(**_QUICK)(lambda others, values, i: inner(ProbeArguments(True, others, values), i))
        right = bool(outer(np.zeros(3), np.array([1.0, 2.0, 3.0]), 1) == 3.0)
        (compiled,) = outer.overloads.values()
        return right and rebuild(outer.targetctx, reduce(compiled)).signature == compiled.signature
    except Exception:  # whatever another version of numba does
        return False


def _choose_options() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Options of all compiled code, further ones of kernels, and those of kernels in this package.

    `_nrt=False`: kernels make no arrays, so numba need not count references to those in a state at every use, which
    would take most of a step's time. The compiler: see `compiling.compiler`.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return _PLAIN, {}, {}
    if not remembered(f"shortcuts-numba-{numba.__version__}-numpy-{np.__version__}", _probe):
        warnings.warn(
            f"numba {numba.__version__} does not take the options that make kernels fast: they run several times "
            "slower, with the same results; install a version that clickbandit was tested with",
            RuntimeWarning,
            stacklevel=2,
        )
        return _PLAIN, {}, {}
    from clickbandit.compiling.compiler import Compiler

    return _QUICK, _INNER, {"pipeline_class": Compiler}


_OPTIONS, _INNER_OPTIONS, _OWN_OPTIONS = _choose_options()
_COUNTED = {name: value for name, value in _OPTIONS.items() if name != "_nrt"}


class _Kernel(CPUDispatcher):
    """A kernel, which runs as plain Python where Python calls it, since it has no wrapper for such callers."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return interpreted(self)(*arguments, **named)


def _compile(function: Function, **options: Any) -> Function:
    # kernels of this package, also where they stand in a specialised template: see `compiling.compiler`
    own = _OWN_OPTIONS if function.__module__.startswith(("clickbandit.", "clickbandit_")) else {}
    compiled = numba.njit(**_OPTIONS, **_INNER_OPTIONS, **own, **options)(function)
    if is_compiled(compiled):
        compiled.__class__ = _Kernel
    return cast(Function, compiled)


# --- decorators ---------------------------------------------------------------------------------------------


def kernel(function: Function) -> Function:
    """Compile a function into the compiled loop that calls it; called from Python it runs as it is written.

    Never cached by itself: numba does not notice when a function that a cached kernel calls is edited. What is
    cached is the loop around the kernels, under a hash of all their code (see `compiling.specialise`).
    """
    return _compile(function, forceinline=True)


def slow_path(function: Function) -> Function:
    """A kernel that is seldom called: compiled by itself, so that what is around it stays small and quick."""
    return _compile(function)


def entry_point(function: Function) -> Function:
    """Compile a function that Python calls: its machine code is kept, unless it has no file, and runs without the GIL,
    so that runs share the machine's cores."""
    return cast(Function, _for_python(function, _OPTIONS))


def counted_entry_point(function: Function) -> Function:
    """An entry point that is called without end, and leaves the work to kernels.

    It counts references, since numba would otherwise not release a generator that it is handed: 64 bytes a call.
    """
    return cast(Function, _for_python(function, _COUNTED))


def quick_entry_point(function: Function) -> Function:
    """An entry point for so little work that it keeps the GIL: releasing and reacquiring it would take as long as the
    work, and another thread may hold it for milliseconds meanwhile."""
    return cast(Function, _for_python(function, _OPTIONS, nogil=False))


def counted_quick_entry_point(function: Function) -> Function:
    """An entry point that is counted, and keeps the GIL too."""
    return cast(Function, _for_python(function, _COUNTED, nogil=False))


class _EntryPoint(CPUDispatcher):
    """Compiled with nothing in the way."""

    def compile(self, signature: Any) -> Any:
        with undisturbed():
            return super().compile(signature)


def _for_python(function: Any, options: dict[str, Any], *, nogil: bool = True) -> Any:
    compiled = numba.njit(**options, nogil=nogil)(function)
    if not is_compiled(compiled):
        return compiled
    compiled.__class__ = _EntryPoint
    if os.path.exists(compiled.py_func.__code__.co_filename):
        if _OWN_OPTIONS:
            from clickbandit.compiling.machine_code import MachineCode

            compiled._cache = MachineCode(compiled)
        else:
            compiled.enable_caching()
    return compiled


# --- without numba's look at the arguments ------------------------------------------------------------------


def for_types_of(function: Any, *arguments: Any) -> Any:
    """The machine code of an entry point for arguments of the same types as these, and for no others.

    To be called again and again with the same state: numba would look at every array of it each time, which takes
    longer than what is done with it. A plain function is given back as it is.
    """
    if not is_compiled(function):
        return function
    key = function, tuple(map(_type_of, arguments))
    if key not in _for_types:
        _for_types[key] = function.compile(tuple(map(numba.typeof, arguments)))
    return _for_types[key]


def _type_of(value: Any) -> Any:
    """What numba tells types by, found sooner."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    return (type(value), *map(_type_of, value)) if isinstance(value, tuple) else type(value)


_for_types: dict[Any, Any] = {}


# --- and back -----------------------------------------------------------------------------------------------


def is_compiled(function: object) -> bool:
    """Whether this is a kernel, rather than a plain Python function."""
    return hasattr(function, "py_func")


def callable_kernel(function: Any) -> Any:
    """A kernel as compiled code that Python can call, for tests; a plain function as it is."""
    if not is_compiled(function):
        return function
    if function not in _callable:
        _callable[function] = numba.njit(**_PLAIN)(lambda *arguments: function(*arguments))
    return _callable[function]


_callable: dict[Any, Any] = {}


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
