"""Specialises a template for a policy or a click model, and keeps its machine code from one start to the next.

numba finds a cached function again only when everything it calls stands in its module's globals. So a template (a
short module such as `simulation/loop.py`) is copied with its marked imports replaced,

    from clickbandit.policies.random import rank, update  # policy

becoming an import from the policy at hand, and is imported from a cache folder. The folder's name is a hash of all
sources that a kernel may use, so edited code is never run as it was before.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np

from clickbandit.compiling.kernel import LOADED_AT, interpreted

Part = ModuleType | Mapping[str, Any]
"""Where a marked import takes its names from: a module, or functions that stand in none (a notebook's)."""

_PACKAGE = Path(__file__).parents[1]
KERNEL_SOURCES = (
    "compiling",
    "bounds.py",
    "enumeration.py",
    "policies",
    "click_models",
    "simulation",
    "leaps",
)
_KEEP_UNUSED = 30 * 24 * 3600  # seconds after which the code of older sources is thrown away
_loaded: dict[Path, ModuleType] = {}


def specialise(
    template: str, *, compiled: bool = True, sources: Iterable[ModuleType] = (), **parts: Part
) -> ModuleType:
    """The module `template` with each import marked `# name` taken from `parts[name]`.

    `sources` are further modules whose kernels it comes to run. With `compiled=False`, or parts that are not
    modules of a file, the result lives in memory only.
    """
    text = _source(template)
    if compiled and all(isinstance(part, ModuleType) and _file(part) for part in parts.values()):
        modules = {name: part.__name__ for name, part in parts.items() if isinstance(part, ModuleType)}
        for name, module in modules.items():
            text, n = re.subn(
                rf"from \S+ import (.*?) +# {name}$", rf"from {module} import \1", text, flags=re.M
            )
            if n != 1:
                raise ValueError(f"{template} must have one import marked # {name}, found {n}")
        stem = "__".join([template.rpartition(".")[2], *(m.rpartition(".")[2] for m in modules.values())])
        try:
            return _import_cached(text, stem, [*map(sys.modules.__getitem__, modules.values()), *sources])
        except OSError:  # no folder to write to, or sources that were edited: compile anew each time
            pass
    return _in_memory(template, text, parts, compiled)


def _source(template: str) -> str:
    spec = importlib.util.find_spec(template)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def _file(module: ModuleType) -> Path | None:
    """The source file of a module that can be imported again, in this process, by its name."""
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file and module.__name__ != "__main__" else None


def _in_memory(template: str, text: str, parts: Mapping[str, Part], compiled: bool) -> ModuleType:
    module = ModuleType(template)
    for marked in re.finditer(r"^from \S+ import (.*?) +# (\w+)$", text, flags=re.M):
        part = parts.get(marked[2])
        if part is None:
            continue
        text = text.replace(marked[0], "")
        for name in re.split(r",\s*", marked[1]):
            function = part[name] if isinstance(part, Mapping) else getattr(part, name)
            setattr(module, name, function if compiled else interpreted(function))
    exec(compile(text, f"<{template}>", "exec"), vars(module))
    if not compiled:
        for name, value in list(vars(module).items()):
            setattr(module, name, interpreted(value))
    return module


def _import_cached(text: str, stem: str, parts: list[ModuleType]) -> ModuleType:
    path = (_folder(parts) / f"{stem}.py").resolve()
    if path in _loaded:
        return _loaded[path]
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    spec = importlib.util.spec_from_file_location(f"clickbandit_{path.parent.name}_{stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # numba looks there when it loads the machine code
    spec.loader.exec_module(module)
    _loaded[path] = module
    return module


def _folder(parts: list[ModuleType]) -> Path:
    """The cache folder for these sources, made for this user alone."""
    digest = hashlib.sha256(_package_digest())
    for part in parts:
        file = _file(part)
        if file in _loaded:  # generated too: its folder's name stands for its sources
            digest.update(file.parent.name.encode())
        elif file is not None and _PACKAGE not in file.parents:
            for ingredient in _ingredients(vars(part).values(), set()):
                digest.update(ingredient)
    home = os.environ.get("CLICKBANDIT_CACHE")
    root = (
        Path(home)
        if home
        else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clickbandit"
    )
    folder = root / digest.hexdigest()[:20]
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget_unused(root)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o077:
        raise OSError(f"{folder} is open to others, who could put code there")
    os.utime(folder)
    return folder


@cache
def _package_digest() -> bytes:
    checks = os.environ.get("NUMBA_BOUNDSCHECK", "")
    digest = hashlib.sha256(f"{sys.version} {np.__version__} {numba.__version__} {checks}".encode())
    for name in KERNEL_SOURCES:
        path = _PACKAGE / name
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + _read(file))
    return digest.digest()


def _read(source: Path) -> bytes:
    """The source of a module, unless it was edited since: then what is loaded must not be kept under its hash."""
    if source.stat().st_mtime > LOADED_AT:
        raise OSError(f"{source} was edited after it was imported")
    return source.read_bytes()


def _ingredients(values: Iterable[Any], seen: set[int]) -> Iterator[bytes]:
    """All that machine code of a user's functions is made of: their sources, and those and the numbers they use."""
    for value in values:
        if id(value) in seen:
            continue
        seen.add(id(value))
        function = getattr(value, "py_func", value)
        if isinstance(function, FunctionType):
            file = Path(function.__code__.co_filename)
            if _PACKAGE in file.parents or not file.is_file():
                continue
            yield _read(file)
            names, scope = function.__code__.co_names, function.__globals__
            used = [scope[name] for name in names if name in scope]
            modules = [module for module in used if isinstance(module, ModuleType)]
            used += [getattr(module, name) for module in modules for name in names if hasattr(module, name)]
            yield from _ingredients(used, seen)
        elif isinstance(value, (bool, int, float, str, tuple)):
            yield repr(value).encode()
        elif isinstance(value, np.ndarray):
            yield value.tobytes()


def _forget_unused(root: Path) -> None:
    for folder in root.iterdir():
        if folder.is_dir() and time.time() - folder.stat().st_mtime > _KEEP_UNUSED:
            shutil.rmtree(folder, ignore_errors=True)
