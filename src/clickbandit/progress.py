"""Progress bars for long work: on a terminal or in a notebook, and only when there is something to wait for."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

_REDRAW_SECONDS = 0.5  # between two updates of the line


@contextmanager
def progress_bar(
    total: int, doing: str, unit: str = "steps", done: int = 0
) -> Iterator[Callable[[int], None]]:
    """Shows how much of `total` is done, the rate and the time left; yields the function that adds to it.

    What was `done` before counts towards the total, but not towards the rate.

    >>> with progress_bar(10, "counting") as advance:
    ...     advance(10)
    """
    if not _is_watched(sys.stderr):
        yield lambda done: None
        return
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(
                f"{_short(task.speed or 0)} {unit}/s" if task.speed else "compiling, once", style="cyan"
            )

    with _bar(Rate()) as bar:
        task = bar.add_task(doing, total=total, completed=done)
        yield lambda done: bar.advance(task, done)


@contextmanager
def reading_bar(total: int) -> Iterator[Callable[[int, int], None]]:
    """Shows how many of `total` bytes are read and how many sessions were in them; yields the function that
    adds bytes and sessions.

    >>> with reading_bar(1000) as advance:
    ...     advance(1000, 7)
    """
    if not _is_watched(sys.stderr):
        yield lambda n_bytes, sessions: None
        return
    from rich.progress import DownloadColumn, TextColumn

    with _bar(DownloadColumn(), TextColumn("{task.fields[sessions]} sessions", style="cyan")) as bar:
        task = bar.add_task("reading", total=total, sessions="0")
        seen = 0

        def advance(n_bytes: int, sessions: int) -> None:
            nonlocal seen
            seen += sessions
            bar.update(task, advance=n_bytes, sessions=_short(seen))

        yield advance


@lru_cache(1)
def _is_watched(stream: TextIO) -> bool:
    """Whether this is a terminal or a notebook to show a bar in: to make one takes longer than a leap."""
    from rich.console import Console

    console = Console(file=stream)
    return console.is_terminal or console.is_jupyter


def _bar(*columns: "ProgressColumn") -> "Progress":
    """A bar that also shows these columns; in a notebook that cannot draw it, a line with the percentage."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    class Line(Progress):
        """One line that is written over, and is gone in the end."""

        shown, due = False, time.monotonic() + _REDRAW_SECONDS

        def advance(self, task_id: "TaskID", advance: float = 1) -> None:
            self.update(task_id, advance=advance)

        def update(self, task_id: "TaskID", **fields: Any) -> None:
            super().update(task_id, **fields)
            if time.monotonic() >= self.due:
                self.shown, self.due = True, time.monotonic() + _REDRAW_SECONDS
                task = self.tasks[task_id]
                print(f"\r{task.description}: {task.percentage:.0f}%", end="", file=sys.stderr, flush=True)

        def stop(self) -> None:
            if self.shown:
                print("\r" + " " * 60 + "\r", end="", file=sys.stderr, flush=True)

    console = Console(file=sys.stderr)
    plain = console.is_jupyter and find_spec("ipywidgets") is None
    return (Line if plain else Progress)(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        *columns,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=plain,
    )


def _short(number: float) -> str:
    """A number to three digits with k, M or G.

    >>> _short(12_345_678)
    '12.3M'
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"
