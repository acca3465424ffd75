"""Tables in the terminal."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

_GAP = 3  # between columns
_PROSE = 20  # a column of sentences gets this many characters before others are moved below
_UNBOUNDED = 160  # of a file or a pipe


def print_table(rows: Sequence[Mapping[str, Any]], keys: int = 1) -> None:
    """Rows with the same columns, as a table.

    No word is broken: columns that do not fit next to the others follow in a further table, after the first `keys`
    columns, which say what a row is of.

    >>> print_table([{"policy": "batchrank", "regret": "1,200"}])  # doctest: +NORMALIZE_WHITESPACE
    <BLANKLINE>
     policy      regret
     ──────────────────
     batchrank    1,200
    <BLANKLINE>
    """
    if not rows:
        return
    console = _console()
    cells = {name: [str(row[name]) for row in rows] for name in rows[0]}
    widths = {name: _least_width(name, column) for name, column in cells.items()}
    for names in _beside(widths, keys, console.width):
        table = Table(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            header_style="none" if os.environ.get("NO_COLOR") else "table.header",  # which is bold
        )
        whole = {name: max(map(len, (name, *cells[name]))) for name in names}
        given = _spread({name: widths[name] for name in names}, whole, console.width)
        for name in names:
            numeric = cells[name][0][:1].isdigit()
            table.add_column(name, justify="right" if numeric else "left", overflow="fold", width=given[name])
        for row in zip(*(cells[name] for name in names), strict=True):
            table.add_row(*row)
        console.print(table)


def say(text: str) -> None:
    """Sentences, with lines that break between words.

    >>> say("Regret is against the list with the most expected clicks")
    Regret is against the list with the most expected clicks
    """
    console = _console()
    if console.is_terminal:
        console.print(text, markup=False)
    else:
        print(text)


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:  # a file or a pipe has room
        console.width = max(console.width, _UNBOUNDED)
    return console


def _least_width(name: str, column: Sequence[str]) -> int:
    """What a column needs: its longest word; numbers, and short texts, whole."""
    words = max(len(word) for text in (name, *column) for word in text.split() or [""])
    whole = max(map(len, column))
    return max(words, whole if column[0][:1].isdigit() else min(whole, _PROSE))


def _spread(least: Mapping[str, int], whole: Mapping[str, int], room: int) -> dict[str, int]:
    """The widths of columns, from the least they need: what room is left goes where most is missing.

    >>> _spread({"policy": 10, "idea": 20}, {"policy": 10, "idea": 90}, 60)
    {'policy': 10, 'idea': 44}
    """
    given = dict(least)
    for _ in range(room - sum(width + _GAP for width in given.values())):
        name = max(given, key=lambda name: whole[name] - given[name])
        given[name] += whole[name] > given[name]
    return given


def _beside(widths: Mapping[str, int], keys: int, room: int) -> list[list[str]]:
    """The columns of each table, so that it is no wider than there is room, if that can be.

    >>> _beside({"model": 5, "policy": 10, "regret": 10, "clicks": 10}, 2, 36)
    [['model', 'policy', 'regret'], ['model', 'policy', 'clicks']]
    """
    first, others = [*widths][:keys], [*widths][keys:]
    tables: list[list[str]] = [[*first]]
    for name in others:
        taken = sum(widths[one] + _GAP for one in (*tables[-1], name))
        if taken > room and len(tables[-1]) > keys:
            tables.append([*first])
        tables[-1].append(name)
    return tables
