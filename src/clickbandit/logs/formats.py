"""The formats that a log can have, and which of them a file looks like."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from clickbandit.errors import InputError
from clickbandit.logs import files
from clickbandit.registry import suggestion

FORMATS = ("yandex-relpred", "yandex-personalized", "csv", "parquet", "counts")
"""The names that `--format` takes."""

LISTS = ("query", "list", "clicks")
"""The columns of a plain log with one row for each list."""
ITEMS = ("impression", "query", "position", "item", "click")
"""The columns of a plain log with one row for each item that was shown."""
COUNTED = ("query", "item", "position", "impressions", "clicks")
"""The columns of counts by query, item and position."""
SHAPES = (LISTS, ITEMS, COUNTED)


def check_format(name: str) -> None:
    """Refuse a format that does not exist."""
    if name not in FORMATS:
        raise InputError(f"there is no log format {name!r}: {suggestion(name, FORMATS)}")


def shape(columns: Sequence[str], where: str) -> tuple[str, ...]:
    """Which of the plain shapes a table has, by the names of its columns."""
    for names in SHAPES:
        if set(names) <= set(columns):
            return names
    expected = "; or ".join(", ".join(names) for names in SHAPES)
    raise InputError(f"{where} must have the columns {expected}; found {', '.join(columns) or 'none'}")


def is_saved(path: Path) -> bool:
    """Whether a file was written by `Counts.save`."""
    try:
        return b"clickbandit" in (pq.read_schema(path).metadata or {})
    except (OSError, ValueError):
        return False


def looks_like(path: Path) -> str | None:
    """The format of a file by its first lines, where that can be told."""
    start = files.head(path)
    if start.startswith(b"PAR1"):
        try:
            columns = pq.read_schema(path).names
        except (OSError, ValueError):
            return None
        return "counts" if is_saved(path) or set(COUNTED) <= set(columns) else "parquet"
    text = start.decode(errors="replace")
    lines = text.splitlines()[:-1] or text.splitlines()
    if not lines:
        return None
    columns = header(lines[0])
    if any(set(names) <= set(columns) for names in SHAPES):
        return "counts" if set(COUNTED) <= set(columns) else "csv"
    votes = [_yandex(line.split("\t")) for line in lines[:200] if line.strip()]
    for name in ("yandex-relpred", "yandex-personalized"):
        if 2 * votes.count(name) > len(votes):
            return name
    return None


def delimiter(line: str) -> str:
    """What stands between the names in the header of a CSV file."""
    return max(",;\t", key=line.count)


def header(line: str) -> list[str]:
    """The names in the header of a CSV file."""
    names = line.lstrip("\ufeff").strip().split(delimiter(line))
    return [name.strip().strip('"').lower() for name in names]


def _yandex(fields: list[str]) -> str | None:
    if len(fields) == 4 and fields[1] == "M":
        return "yandex-personalized"
    if len(fields) > 3 and fields[2] == "C":
        return {4: "yandex-relpred", 5: "yandex-personalized"}.get(len(fields))
    if len(fields) > 6 and fields[2] in ("Q", "T") and all("," in field for field in fields[6:]):
        return "yandex-personalized"
    return "yandex-relpred" if len(fields) > 4 and fields[2] == "Q" else None
