"""Finding policies and click models: one file in a package is one algorithm, and its name is the file's name."""

import importlib
import pkgutil
from collections.abc import Iterable
from difflib import get_close_matches
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def module_names(package: ModuleType) -> list[str]:
    """The public modules of a package, in alphabetical order, without importing them."""
    found = pkgutil.iter_modules(package.__path__)
    return sorted(module.name for module in found if not module.name.startswith("_"))


def class_in(package: ModuleType, name: str, base: type[T]) -> type[T]:
    """The one public class of a module that is a kind of `base`."""
    module = importlib.import_module(f"{package.__name__}.{name}")
    (found,) = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
    ]
    return found


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest known one if there is one, else all of them."""
    known = list(known)
    near = get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are {', '.join(known)}"
