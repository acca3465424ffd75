"""What machine code is made of: a hash that names it, the same in every process and every folder.

It follows kernels, the numbers that they use, and the fields of the tuples that they are given; nothing else. So edited
code is never run as it was before, and an edit elsewhere costs nothing.
"""

import hashlib
import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np

Part = Mapping[str, Any]
"""What marked lines of a template are replaced by: a function for each imported name, a flag for each constant, in
lower case."""

_LIBRARIES = {"numpy", "numba", "math", "builtins"}


def digest_function(function: Any) -> str:
    """Of a function that is no part of a template."""
    digest = hashlib.sha256(_toolchain())
    for ingredient in _ingredients([function], "", {}, {}):
        digest.update(ingredient + b"\0")
    return digest.hexdigest()[:20]


def digest_template(template: str, text: str, chosen: Part, sources: Iterable[Any]) -> str:
    """Of the template's specialised text, and of all code and numbers that become machine code."""
    digest = hashlib.sha256(_toolchain())
    digest.update(text.encode())
    own = importlib.import_module(template)
    kernels = [value for name, value in vars(own).items() if name not in chosen and _is_own(value, template)]
    for ingredient in _ingredients([*chosen.values(), *sources, *kernels], template, chosen, {}):
        digest.update(ingredient + b"\0")
    for fields in sorted(fields for source in sources for fields in _tuples(source, set())):
        digest.update(fields.encode())
    return digest.hexdigest()[:20]


@cache
def _toolchain() -> bytes:
    python, checks = sys.implementation.cache_tag, os.environ.get("NUMBA_BOUNDSCHECK", "")
    digest = hashlib.sha256(f"{python} {np.__version__} {numba.__version__} {checks}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()


def _is_kernel(value: Any) -> bool:
    return hasattr(value, "py_func")


def _is_own(value: Any, module: str) -> bool:
    return _is_kernel(value) and value.py_func.__module__ == module


def _ingredients(values: Iterable[Any], template: str, chosen: Part, seen: dict[int, int]) -> Iterator[bytes]:
    """Code and numbers of kernels, and of all that they use; the template uses what was chosen for it.

    `seen` numbers the kernels on the way, so that one that comes again is told from another.
    """
    for value in values:
        if isinstance(value, (bool, int, float, str, np.generic)):
            yield repr(value).encode()
        elif isinstance(value, np.ndarray):
            yield f"{value.dtype.str} {value.shape}".encode() + value.tobytes()
        elif id(value) in seen:
            yield f"#{seen[id(value)]}".encode()
        elif _is_tuple_type(value):
            yield _fields(value).encode()
        elif isinstance(value, tuple):
            yield from _ingredients(value, template, chosen, seen)
        elif _is_kernel(value):
            seen[id(value)] = len(seen)
            yield from _kernel(value, template, chosen, seen)


def _kernel(value: Any, template: str, chosen: Part, seen: dict[int, int]) -> Iterator[bytes]:
    yield repr(sorted(value.targetoptions.items(), key=lambda option: option[0])).encode()
    function = value.py_func
    yield from _code(function.__code__)
    scope = {**function.__globals__, **(chosen if function.__module__ == template else {})}
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    given = function.__annotations__.values()
    used = [*_used(function.__code__, scope), *cells, *(function.__defaults__ or ()), *given]
    yield from _ingredients(used, template, chosen, seen)


def _code(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield repr(constant).encode()


def _used(code: CodeType, scope: Mapping[str, Any]) -> list[Any]:
    """What a function may use of its globals, also as `module.name`."""
    used = [scope[name] for name in code.co_names if name in scope]
    modules = [module for module in used if isinstance(module, ModuleType) and not _is_library(module)]
    used += [getattr(module, name) for module in modules for name in code.co_names if hasattr(module, name)]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            used += _used(constant, scope)
    return used


def _is_library(module: ModuleType) -> bool:
    return module.__name__.partition(".")[0] in _LIBRARIES


def _tuples(function: Any, seen: set[Any]) -> Iterator[str]:
    """The fields of the tuples that a plain function, such as `init`, may make with the functions of its package."""
    if not isinstance(function, FunctionType) or function in seen:
        return
    seen.add(function)
    package = function.__module__.partition(".")[0]
    for value in _used(function.__code__, function.__globals__):
        if _is_tuple_type(value):
            yield _fields(value)
        elif isinstance(value, FunctionType) and value.__module__.partition(".")[0] == package:
            yield from _tuples(value, seen)


def _is_tuple_type(value: Any) -> bool:
    return isinstance(value, type) and hasattr(value, "_fields")


def _fields(kind: Any) -> str:
    return f"{kind.__qualname__} {kind._fields}"
