"""A log of records that may be left in the middle of a line, and damaged: each line is a checksum and JSON.

A line is whole or it does not count. Lines after a damaged one still do, since a line's end is where the next one
starts, and JSON has no line ends of its own.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

_DIGITS = 8  # of a checksum, in hexadecimal


def line_of(record: Mapping[str, Any]) -> bytes:
    """A record as a line of the log.

    >>> line_of({"a": 1})
    b'fba18e97 {"a": 1}\\n'
    """
    return _with_checksum(json.dumps(record).encode())


def read_log(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The records of a log, and how many lines were cut off or damaged; none if there is no log."""
    if not path.exists():
        return [], 0
    lines = path.read_bytes().splitlines(keepends=True)
    records = [record for line in lines if (record := _record(line)) is not None]
    return records, len(lines) - len(records)


def lines_of(records: Iterable[Mapping[str, Any]]) -> bytes:
    """Many records as a log."""
    return b"".join(map(line_of, records))


def _record(line: bytes) -> dict[str, Any] | None:
    text = line[_DIGITS + 1 : -1]
    return dict(json.loads(text)) if line == _with_checksum(text) else None


def _with_checksum(text: bytes) -> bytes:
    return b"%08x %b\n" % (crc32(text), text)
