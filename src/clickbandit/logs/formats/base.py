"""What a log format is: how to recognise a file of it, how to read one, and how to write one.

A format is a class in a module of this package, called by the module's name on the command line. Another package
registers its own by an entry point, in its `pyproject.toml`:

    [project.entry-points."clickbandit.log_formats"]
    their-log = "their_package.their_module:TheirLog"
"""

import codecs
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

from clickbandit.errors import InputError
from clickbandit.extras import pa, pq
from clickbandit.logs import files, formats
from clickbandit.logs.columns import EXAMPLE, Columns, guess
from clickbandit.logs.delimited import header_of
from clickbandit.logs.reading import Reading
from clickbandit.logs.tally import Tally
from clickbandit.registry import Registry

Progress = Callable[[int, int], None]
"""Called with how many more bytes of files and how many more sessions were read."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file."""

    strict: bool = False
    """Stop at the first malformed line."""
    query_key: str = "query"
    """What tells two queries apart: one of the format's `query_keys`."""
    columns: Columns = Columns()  # noqa: RUF009  (frozen)
    """What the columns of a table are called."""
    progress: Progress = lambda n_bytes, n_sessions: None
    """A format may report how far it is; what it does not report is added when the file is done."""


class Opening:
    """The beginning of a file, by which formats recognise it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.start = files.head(path)
        """The first bytes, unpacked."""

    @cached_property
    def lines(self) -> list[str]:
        """The first whole lines."""
        lines = re.split(r"\r\n|\n|\r", self.start.decode(errors="replace"))
        return lines[:-1] or lines

    @cached_property
    def schema(self) -> pa.Schema | None:
        """The schema of a Parquet file."""
        try:
            return pq.read_schema(self.path) if self.start.startswith(files.PARQUET) else None
        except (OSError, ValueError):
            return None

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns, if it is a table; of JSON lines, those of the first."""
        if self.schema is not None:
            return list(self.schema.names)
        if self.is_json:
            return list(map(str, json.loads(self.lines[0])))
        return [name for name in header_of(self.start).names if name]

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns in lower case."""
        return [name.lower() for name in self.names]

    @cached_property
    def is_json(self) -> bool:
        """Whether the first line is a JSON object."""
        try:
            return bool(self.lines) and isinstance(json.loads(self.lines[0]), dict)
        except (ValueError, RecursionError):
            return False


class Writer(NamedTuple):
    """How sessions are written in a format."""

    header: str
    """What stands at the top of a file."""
    session: Callable[[str, Sequence[str], Sequence[int]], str]
    """The lines of a session from its query, items and clicks; `SESSION` stands for the session's number."""
    forbidden: re.Pattern[str]
    """What no name of an item may contain, nor of a query."""
    forbidden_in_queries: re.Pattern[str] | None = None
    """What no name of a query may contain, if that is not the same."""


SESSION = "\0"
"""Stands for the session's number in a text that many sessions share."""


class LogFormat(ABC):
    """A format of click logs: the base of all formats."""

    query_keys: ClassVar[tuple[str, ...]] = ("query",)
    """What can tell two queries apart."""
    writer: ClassVar[Writer | None] = None
    """How logs are generated in this format, if they can be."""
    together: ClassVar[bool] = False
    """Whether the files of a log say only together what was shown and clicked: then none is counted by itself on a
    cluster."""

    @abstractmethod
    def recognise(self, opening: Opening) -> bool:
        """Whether a file looks like this format."""

    @abstractmethod
    def read(self, path: Path, tally: Tally, options: ReadOptions) -> Reading:
        """Count a file into `tally`, and say what was read and what was left out."""

    def read_together(self, paths: Sequence[Path], tally: Tally, options: ReadOptions) -> Reading:
        """As `read`, for all files of a log."""
        reading = Reading()
        for path in paths:
            found = self.read(path, tally, options)
            if (
                not found.sessions and not found.odd["files without a session"]
            ):  # saved counts may have it already
                found.note("files without a session", 1)
            reading += found
        return reading


registered: Registry[LogFormat] = Registry(
    formats,
    LogFormat,  # type: ignore[type-abstract]
    "log format",
    lambda module: module.replace("_", "-"),
    group="clickbandit.log_formats",
    one_each=True,
)
"""All log formats of the library and of packages that bring their own, by their names on the command line."""


def log_format(name: str) -> LogFormat:
    """The format of this name, or an error that names the nearest."""
    return registered.get(name)()


def format_names(*, writable: bool = False) -> list[str]:
    """The names of all formats, or of those in which logs can be generated."""
    return [name for name in registered.names() if not writable or registered.get(name).writer]


def format_of(path: Path, name: str | None = None, columns: Columns = Columns()) -> str:  # noqa: B008  (frozen)
    """The name of a file's format: the one it looks like, which must be `name` if there is one to choose.

    A file that no format recognises is taken for what it is said to be, as it may be damaged at the top. Where columns
    are named it is a table.
    """
    opening = Opening(path)
    if opening.start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path} is UTF-16: save it as UTF-8")
    is_table = bool(columns.given or columns.one_row_per)
    if is_table and name is None:
        is_parquet = opening.start.startswith(files.PARQUET)
        return "parquet" if is_parquet else "jsonl" if opening.is_json else "csv"
    if name is not None and (is_table or log_format(name).recognise(opening)):
        return name
    likely = [other for other in format_names() if other != name and log_format(other).recognise(opening)]
    if name is not None and likely:
        raise InputError(
            f"{path} is not {name}: it looks like {likely[0]}, so read it with --format {likely[0]}"
        )
    if name is None and len(likely) != 1:
        raise InputError(_unrecognised(opening, likely))
    return name or likely[0]


def _unrecognised(opening: Opening, likely: Sequence[str]) -> str:
    """What to do about a file that looks like several formats, or like none."""
    guessed = guess(opening.names)
    if likely:
        return f"{opening.path} looks like {' and '.join(likely)}: choose one with --format ({', '.join(likely)})"
    if guessed:
        return (
            f"{opening.path} looks like a log with columns of other names: if these are they, give {guessed}"
        )
    text = f"{opening.path} looks like no log format: choose one with --format ({', '.join(format_names())})"
    names = ", ".join(opening.names[:12])
    is_table = len(opening.names) > 2 and names.isprintable()
    return text + (
        f", or if it is a table say which columns are which, as in {EXAMPLE}; found {names}"
        if is_table
        else ""
    )
