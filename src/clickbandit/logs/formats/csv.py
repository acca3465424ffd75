"""CSV with a header: a row for each list, or a row for each item shown."""

import re
from collections.abc import Sequence
from pathlib import Path

from clickbandit.logs.formats._tables import TableFormat
from clickbandit.logs.formats.base import Opening, Writer
from clickbandit.logs.plain import is_log
from clickbandit.logs.table import LogTable, csv_table
from clickbandit.logs.tally import LogDatabase


def _session(query: str, items: Sequence[str], clicks: Sequence[int]) -> str:
    return f"{query},{'|'.join(items)},{'|'.join(map(str, clicks))}\n"


class CSVFormat(TableFormat):
    """Delimited by commas, semicolons or tabs; columns may be in any order, and others are ignored."""

    writer = Writer("query,list,clicks\n", _session, re.compile(r"""[\s\0,;|"'()\[\]]"""))

    def recognise(self, opening: Opening) -> bool:
        return opening.schema is None and not opening.is_json and is_log(opening)

    def table(self, path: Path, database: LogDatabase) -> LogTable:
        return csv_table(path)
