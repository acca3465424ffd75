"""A progress bar for long work: on a terminal or in a notebook, and only when there is something to wait for."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(total: int, doing: str, unit: str = "steps") -> Iterator[Callable[[int], None]]:
    """Shows how much of `total` is done, the rate and the time left; yields the function that adds to it.

    >>> with progress_bar(10, "counting") as advance:
    ...     advance(10)
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(
                f"{_short(task.speed or 0)} {unit}/s" if task.speed else "compiling, once", style="cyan"
            )

    console = Console(file=sys.stderr)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        Rate(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not (console.is_terminal or console.is_jupyter),
    )
    with bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.advance(task, done)


def _short(number: float) -> str:
    """A number to three digits with k, M or G.

    >>> _short(12_345_678)
    '12.3M'
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"
