"""Finding policies, click models and log formats: a module of ours is one of them, and other packages bring more.

Another package registers its own by an entry point, in its `pyproject.toml`:

    [project.entry-points."clickbandit.policies"]
    epsilon-greedy = "their_package.their_module:EpsilonGreedy"
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from inspect import isabstract
from types import ModuleType
from typing import Generic, TypeVar

from clickbandit.errors import InputError

T = TypeVar("T")


class Registry(Generic[T]):
    """The classes derived from `base` that the modules of a package define, and those that entry points name.

    A class is called by its own `key`, or as `spell` makes of its module's name. Not registered are classes with an
    empty key, abstract ones, and those of `base`'s own module. All modules are imported when all names are asked for or
    one that is no module's, unless `one_each` says that each module has one class of its name but for private ones and
    `base`'s: then only those that are asked for. The group of entry points is the package's name unless given.
    """

    def __init__(
        self,
        package: ModuleType,
        base: type[T],
        what: str,
        spell: Callable[[str], str],
        group: str | None = None,
        *,
        one_each: bool = False,
    ) -> None:
        self._package = package
        self._base = base
        self._what = what
        self._spell = spell
        self._group = group or package.__name__
        self._one_each = one_each

    def names(self) -> list[str]:
        """The names of all, in alphabetical order."""
        return sorted({*(self._modules if self._one_each else self._built_in), *self._entry_points})

    def get(self, name: str) -> type[T]:
        """The class of this name, or an error that names the nearest."""
        if name in self._modules:
            for kind in self._classes(self._module(self._modules[name])):
                if self.name_of(kind) == name:
                    return kind
        if not self._one_each and name in self._built_in:
            return self._built_in[name]
        if name in self._entry_points:
            return self._load(self._entry_points[name])
        raise InputError(f"there is no {self._what} {name!r}: {suggestion(name, self.names())}")

    def name_of(self, kind: type[T]) -> str | None:
        """Under which name a class is registered, if it is."""
        if kind.__module__.startswith(self._package.__name__ + "."):
            module = kind.__module__.removeprefix(self._package.__name__ + ".").partition(".")[0]
            key: str | None = vars(kind).get("key")
            return self._spell(module) if key is None else key
        place = f"{kind.__module__}:{kind.__qualname__}"
        return next((name for name, point in self._entry_points.items() if point.value == place), None)

    @cached_property
    def _built_in(self) -> dict[str, type[T]]:
        found = {}
        for module in pkgutil.iter_modules(self._package.__path__):
            for kind in self._classes(self._module(module.name)):
                found[self.name_of(kind) or ""] = kind
        found.pop("", None)
        return found

    @cached_property
    def _modules(self) -> dict[str, str]:
        """The modules of the package that may have a class of their name, by it."""
        names = [module.name for module in pkgutil.iter_modules(self._package.__path__)]
        return {
            self._spell(name): name
            for name in names
            if not name.startswith("_") and f"{self._package.__name__}.{name}" != self._base.__module__
        }

    def _module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self._package.__name__}.{name}")

    def _classes(self, module: ModuleType) -> list[type[T]]:
        """The classes that a module or a package defines itself; not those defined next to the base."""
        return [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, self._base)
            and f"{value.__module__}.".startswith(f"{module.__name__}.")
            and value.__module__ != self._base.__module__
            and not isabstract(value)
        ]

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self._group)}

    def _load(self, point: EntryPoint) -> type[T]:
        where = f"the entry point {point.name} of {point.group}"
        try:
            kind = point.load()
        except Exception as error:  # whatever the other package does when it is imported
            raise InputError(f"{where} cannot be loaded: {error}") from error
        if not (isinstance(kind, type) and issubclass(kind, self._base)):
            raise InputError(f"{where} must name a class derived from {self._base.__name__}, found {kind!r}")
        return kind


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest known one if there is one, else all of them."""
    known = list(known)
    near = get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are {', '.join(known)}"
