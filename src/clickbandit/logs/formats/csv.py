"""CSV with a header: a row for each list, or a row for each item shown."""

import re
from collections.abc import Sequence
from pathlib import Path

from clickbandit.logs.formats.base import LogFormat, Opening, ReadOptions, Writer
from clickbandit.logs.plain import is_log, read_log
from clickbandit.logs.reading import Reading
from clickbandit.logs.table import csv_table
from clickbandit.logs.tally import Tally

_UNREADABLE = r"\0\r\n\ud800-\udfff"  # \0 is for the session's number, and not all names are texts
_SEPARATORS, _BRACKETS = re.compile(r"[\s,;]"), re.compile(r"^[\[\]()]|[\[\]()]\Z")


def _session(query: str, items: Sequence[str], clicks: Sequence[int]) -> str:
    if len(items) == 1 and _SEPARATORS.search(items[0]):
        shown = f'["{items[0]}"]'  # as anything else would be several items
    else:
        shown = "|".join(f'"{item}"' if _BRACKETS.search(item) else item for item in items)
    return f"{_quoted(query)},{_quoted(shown)},{'|'.join(map(str, clicks))}\n"


def _quoted(field: str) -> str:
    """A field as RFC 4180 has it: in quotes if it needs any, and its own quotes twice."""
    doubled = field.replace('"', '""')
    return f'"{doubled}"' if "," in field or '"' in field else field


class CSVFormat(LogFormat):
    """Delimited by commas, semicolons or tabs; columns may be in any order, and others are ignored."""

    writer = Writer(
        "query,list,clicks\n",
        _session,
        forbidden=re.compile(rf"""^[ ']|[ ']\Z|["|{_UNREADABLE}]"""),
        forbidden_in_queries=re.compile(f"[{_UNREADABLE}]"),
    )

    def recognise(self, opening: Opening) -> bool:
        return opening.schema is None and not opening.is_json and is_log(opening)

    def read(self, path: Path, tally: Tally, options: ReadOptions) -> Reading:
        return self.read_together([path], tally, options)

    def read_together(self, paths: Sequence[Path], tally: Tally, options: ReadOptions) -> Reading:
        return read_log([csv_table(path) for path in paths], tally, options)
