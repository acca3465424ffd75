"""What numba does while it compiles that nobody asked for: a sixth of its time."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import errors, event
from numba.core.compiler_lock import global_compiler_lock


@contextmanager
def undisturbed() -> Iterator[None]:
    """Compile without the following.

    Collecting garbage: the compiler makes millions of objects that all stay until it is done, and they would be looked
    through again and again. Events for each of thousands of calls to LLVM, which every function that is being compiled
    takes the time of. Colours in the messages of thousands of rules that do not fit.
    """
    with global_compiler_lock:  # numba's own: no other thread is in the middle of what is changed here
        collects = gc.isenabled()
        events, colours = (event.start_event, event.end_event), vars(errors.termcolor())
        gc.disable()
        event.start_event = event.end_event = _nothing
        colours["_markup"] = _as_it_is
        try:
            yield
        finally:
            colours.pop("_markup", None)
            event.start_event, event.end_event = events
            if collects:
                gc.enable()


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _as_it_is(message: str, *_: Any, **__: Any) -> str:
    return message
