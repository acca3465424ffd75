"""The machine code of entry points: kept from one start to the next, or brought by the wheel.

numba's own cache is keyed by a file's time and the exact processor. Here the key is a hash of all that code is made
of, and what a wheel brings is for any processor of its kind: it rounds as code for this one does, since kernels allow
the compiler no liberties with floating-point numbers.
"""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile
from numba.core.compiler import CompileResult

from clickbandit.compiling.digest import digest_function
from clickbandit.compiling.folder import PREBUILT, folder, root

DIGEST = "__digest__"
"""By this name a module made of a template has the hash of all its code."""
ANY_PROCESSOR = ("generic", "")
"""How numba calls a processor with nothing but what all of its kind have (`NUMBA_CPU_NAME`)."""


class MachineCode:
    """Of one function, for each signature: what numba asks before it compiles, and hands the result to after."""

    def __init__(self, function: Any) -> None:
        self._function = function

    @cached_property
    def _digest(self) -> str:
        scope = self._function.py_func.__globals__
        return str(scope[DIGEST]) if DIGEST in scope else digest_function(self._function)

    @property
    def cache_path(self) -> str:
        return str(root() / self._digest)

    def load_overload(self, signature: Any, context: Any) -> Any:
        context.refresh()
        kind, *processor = context.codegen().magic_tuple()
        found = self._file(PREBUILT / self._digest).load((signature, kind, *ANY_PROCESSOR))
        if found is None and (root() / self._digest).is_dir():
            found = self._own(lambda file: file.load((signature, kind, *processor)))
        return None if found is None else rebuild(context, found)

    def save_overload(self, signature: Any, compiled: Any) -> None:
        if not (compiled.lifted or compiled.library.has_dynamic_globals):
            key = (signature, *compiled.codegen.magic_tuple())
            self._own(lambda file: file.save(key, reduce(compiled)))

    def flush(self) -> None:
        """What numba asks for before it recompiles everything."""
        self._own(lambda file: file.flush())

    def _own(self, use: Callable[[IndexDataCacheFile], Any]) -> Any:
        """What comes of using the file of this user, if there may be one."""
        try:
            return use(self._file(folder(self._digest)))
        except OSError:  # no folder to write to: compile each time
            return None

    def _file(self, path: Path) -> IndexDataCacheFile:
        return IndexDataCacheFile(str(path), self._function.py_func.__qualname__, self._digest)


def reduce(compiled: Any) -> tuple[Any, ...]:
    """What numba compiled, as it can be written to a file."""
    return tuple(compiled._reduce())


def rebuild(context: Any, reduced: tuple[Any, ...]) -> Any:
    """The same again, ready to run."""
    return CompileResult._rebuild(context, *reduced)
