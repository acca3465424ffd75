"""Tables in the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows with the same keys, as a table."""
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, value in rows[0].items():
        numeric = str(value)[:1].isdigit()
        width = (
            max(len(str(row[name])) for row in rows) if numeric else None
        )  # a heading may have several lines
        table.add_column(name, justify="right" if numeric else "left", overflow="fold", min_width=width)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console = Console()
    if not console.is_terminal:  # a file or a pipe has room
        console.width = max(console.width, 160)
    console.print(table)
