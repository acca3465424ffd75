"""Specialises a template for a policy or a click model, and keeps its machine code from one start to the next.

numba finds a cached function again only when everything it calls stands in its module's globals. So a template (a
short module such as `leaps/leap.py`) is copied with its marked lines replaced,

    from clickbandit.policies.batchrank.leaps import absorb, member  # policy
    IN_ROUNDS = True  # policy

becoming imports of the functions and values at hand, and is imported from a cache folder. The folder's name is a hash
of all code that it may run, so edited code is never run as it was before, and an edit elsewhere costs nothing.
"""

import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from clickbandit.compiling.digest import Part, digest_template
from clickbandit.compiling.folder import PREBUILT, folder
from clickbandit.compiling.kernel import interpreted
from clickbandit.compiling.machine_code import DIGEST

_MARKED = re.compile(r"^(from \S+ import (?P<names>.*?)|(?P<flag>\w+) = \w+) +# (?P<part>\w+)$", flags=re.M)
_GENERATED = "clickbandit_"
_made: dict[tuple[Any, ...], tuple[ModuleType, Any]] = {}


def specialise(
    template: str, *, compiled: bool = True, sources: Iterable[Any] = (), **parts: Part
) -> ModuleType:
    """The module `template` with each import marked `# name` taken from `parts[name]`.

    `sources` are further functions that it may run, found by the types of its arguments. With `compiled=False`,
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
            digest = digest_template(template, specialised, chosen, sources)
            return _import_cached(specialised, stem, digest)
        except OSError:  # no folder to write to: compile each time
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
    name = f"{_GENERATED}{digest}_{stem}"
    if name in sys.modules:
        return sys.modules[name]
    path = PREBUILT / digest / f"{stem}.py"
    if not _is_there(path, text):
        path = (folder(digest) / path.name).resolve()
    if not _is_there(path, text):
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # numba looks there when it loads the machine code
    vars(module)[DIGEST] = digest
    spec.loader.exec_module(module)
    return module


def _is_there(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text
