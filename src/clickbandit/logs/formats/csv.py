"""CSV with a header: a row for each list, or a row for each item shown."""

import re
from collections.abc import Sequence
from pathlib import Path

from clickbandit.logs.formats.base import LogFormat, Opening, ReadOptions, Writer
from clickbandit.logs.plain import is_log, read_log
from clickbandit.logs.reading import Reading
from clickbandit.logs.table import csv_table
from clickbandit.logs.tally import Tally


def _session(query: str, items: Sequence[str], clicks: Sequence[int]) -> str:
    return f"{query},{'|'.join(items)},{'|'.join(map(str, clicks))}\n"


class CSVFormat(LogFormat):
    """Delimited by commas, semicolons or tabs; columns may be in any order, and others are ignored."""

    writer = Writer("query,list,clicks\n", _session, re.compile(r"""[\s\0,;|"'()\[\]]"""))

    def recognise(self, opening: Opening) -> bool:
        return opening.schema is None and not opening.is_json and is_log(opening)

    def read(self, path: Path, tally: Tally, options: ReadOptions) -> Reading:
        return self.read_together([path], tally, options)

    def read_together(self, paths: Sequence[Path], tally: Tally, options: ReadOptions) -> Reading:
        return read_log([csv_table(path) for path in paths], tally, options)
