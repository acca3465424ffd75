"""Specialises a template for a policy or a click model, and keeps its machine code from one start to the next.

numba finds a cached function again only when everything it calls stands in its module's globals. So a template (a
short module such as `leaps/leap.py`) is copied with its marked lines replaced,

    from clickbandit.policies.batchrank.leaps import absorb, member  # policy
    IN_ROUNDS = True  # policy

becoming imports of the functions and values at hand, and is imported from a cache folder. The folder's name is a hash
of all code that it comes to run, so edited code is never run as it was before, and an edit elsewhere costs nothing.
"""

import hashlib
import importlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np

from clickbandit.compiling.folder import folder
from clickbandit.compiling.kernel import interpreted, is_compiled

Part = Mapping[str, Any]
"""What marked lines are replaced by: a function for each imported name, a flag for each constant, in lower case."""

_MARKED = re.compile(r"^(from \S+ import (?P<names>.*?)|(?P<flag>\w+) = \w+) +# (?P<part>\w+)$", flags=re.M)
_GENERATED = "clickbandit_"
_LIBRARIES = {"numpy", "numba", "math", "builtins"}
_made: dict[tuple[Any, ...], tuple[ModuleType, Any]] = {}


def specialise(
    template: str, *, compiled: bool = True, sources: Iterable[Any] = (), **parts: Part
) -> ModuleType:
    """The module `template` with each import marked `# name` taken from `parts[name]`.

    `sources` are further functions that it comes to run, found by the types of its arguments. With `compiled=False`,
    or functions that cannot be imported (a notebook's), the result lives in memory only.
    """
    text, marked = _read(template)
    marked = [found for found in marked if found["part"] in parts]
    for part in parts:
        if not any(found["part"] == part for found in marked):
            raise ValueError(f"{template} must have a line marked # {part}, found none")
    chosen = {name: parts[found["part"]][name.lower()] for found in marked for name in _names(found)}
    sources = tuple(sources)
    key = (template, compiled, *map(id, chosen.values()), *map(id, sources))
    if key not in _made:
        module = _make(template, compiled, chosen, sources, (text, marked))
        _made[key] = module, (chosen, sources)  # kept, so that no other value gets one of their ids
    return _made[key][0]


def _make(
    template: str,
    compiled: bool,
    chosen: Part,
    sources: Iterable[Any],
    source: tuple[str, list[re.Match[str]]],
) -> ModuleType:
    text, marked = source
    if compiled and all(_home(value) for value in chosen.values()):
        specialised = text
        for found in marked:
            lines = [_line(name, chosen[name]) for name in _names(found)]
            specialised = specialised.replace(found[0], "\n".join(lines))
        homes = dict.fromkeys(_home(chosen[_names(found)[0]]) for found in marked if found["names"])
        stem = "__".join([template.rpartition(".")[2], *(_short(home) for home in homes if home)])
        try:
            return _import_cached(specialised, stem, _digest(template, specialised, chosen, sources))
        except OSError:  # no folder to write to: compile anew each time
            pass
    for found in marked:
        text = text.replace(found[0], "")
    return _in_memory(template, text, chosen, compiled)


@cache
def _read(template: str) -> tuple[str, list[re.Match[str]]]:
    """The text of a template, and its marked lines."""
    spec = importlib.util.find_spec(template)
    assert spec is not None
    assert spec.origin is not None
    text = Path(spec.origin).read_text(encoding="utf-8")
    return text, [*_MARKED.finditer(text)]


def _names(marked: re.Match[str]) -> list[str]:
    """The names that a marked line defines."""
    return re.split(r",\s*", marked["names"]) if marked["names"] else [marked["flag"]]


def _home(value: Any) -> str | None:
    """The name of the module that a function or class can be imported from again; of a plain value, `builtins`."""
    if isinstance(value, (bool, int, float, str)):
        return "builtins"
    function = getattr(value, "py_func", value)
    module = sys.modules.get(function.__module__)
    importable = (
        module is not None
        and module.__name__ != "__main__"
        and getattr(module, "__file__", None) is not None
        and getattr(module, function.__qualname__, None) is value
    )
    return function.__module__ if importable else None


def _line(name: str, value: Any) -> str:
    if isinstance(value, (bool, int, float, str)):
        return f"{name} = {value!r}"
    function = getattr(value, "py_func", value)
    return f"from {function.__module__} import {function.__qualname__} as {name}"


def _short(module: str) -> str:
    """A module's name within its package: `clickbandit.policies.batchrank.leaps` is batchrank_leaps."""
    if module.startswith(_GENERATED):
        return module.removeprefix(_GENERATED).partition("_")[2]
    parts = module.split(".")
    return "_".join(parts[2:] if parts[0] == "clickbandit" else parts)


def _in_memory(template: str, text: str, chosen: Part, compiled: bool) -> ModuleType:
    module = ModuleType(template)
    for name, value in chosen.items():
        setattr(module, name, value if compiled else interpreted(value))
    exec(compile(text, f"<{template}>", "exec"), vars(module))
    if not compiled:
        for name, value in list(vars(module).items()):
            setattr(module, name, interpreted(value))
    return module


def _import_cached(text: str, stem: str, digest: str) -> ModuleType:
    path = (folder(digest) / f"{stem}.py").resolve()
    name = f"{_GENERATED}{digest}_{stem}"
    if name in sys.modules:
        return sys.modules[name]
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # numba looks there when it loads the machine code
    spec.loader.exec_module(module)
    return module


# --- what machine code is made of ---------------------------------------------------------------------------


def _digest(template: str, text: str, chosen: Part, sources: Iterable[Any]) -> str:
    """A hash of the specialised text and of all code and numbers that come to be machine code.

    These are kernels, the numbers that they use, and the fields of the tuples that they are given; nothing else, for
    the same code must have the same hash in every process and every folder.
    """
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
    checks = os.environ.get("NUMBA_BOUNDSCHECK", "")
    digest = hashlib.sha256(f"{sys.version} {np.__version__} {numba.__version__} {checks}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()


def _is_own(value: Any, module: str) -> bool:
    return is_compiled(value) and value.py_func.__module__ == module


def _ingredients(values: Iterable[Any], template: str, chosen: Part, seen: dict[int, int]) -> Iterator[bytes]:
    """Code and numbers of kernels, and of all that they use; the template uses what was chosen for it.

    `seen` numbers the kernels on the way, so that one that comes again is told from another.
    """
    for value in values:
        if isinstance(value, (bool, int, float, str)):
            yield repr(value).encode()
        elif isinstance(value, np.ndarray):
            yield value.tobytes()
        elif id(value) in seen:
            yield f"#{seen[id(value)]}".encode()
        elif _is_tuple_type(value):
            yield _fields(value).encode()
        elif isinstance(value, tuple):
            yield from _ingredients(value, template, chosen, seen)
        elif is_compiled(value):
            seen[id(value)] = len(seen)
            yield from _kernel(value, template, chosen, seen)


def _kernel(value: Any, template: str, chosen: Part, seen: dict[int, int]) -> Iterator[bytes]:
    yield repr(sorted(value.targetoptions.items(), key=lambda option: option[0])).encode()
    function = value.py_func
    yield from _code(function.__code__)
    scope = {**function.__globals__, **(chosen if function.__module__ == template else {})}
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    used = [*_used(function.__code__, scope), *cells, *(function.__defaults__ or ())]
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
