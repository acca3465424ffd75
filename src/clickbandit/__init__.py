"""clickbandit learns the best ranked list from clicks, without knowing how users click.

The public names are imported when they are first used, so that `clickbandit --help` need not wait for numba.
"""

import ast
import importlib
from pathlib import Path

__version__ = "0.2.0"


def _public_names() -> dict[str, str]:
    """The module of each public name, as the stub next to this file says; that of a package is this one."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [statement for statement in stub.body if isinstance(statement, ast.ImportFrom)]
    return {name.name: str(line.module) for line in imports for name in line.names}


_MODULES = _public_names()
__all__ = [*(name for name, module in _MODULES.items() if module != __name__), "__version__"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _MODULES[name] == __name__:
        return importlib.import_module(f"{__name__}.{name}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*_MODULES, "__version__"])
