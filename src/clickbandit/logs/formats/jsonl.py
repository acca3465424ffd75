"""JSON lines with the names of CSV: a row for each list, or a row for each result shown."""

from pathlib import Path

from clickbandit.logs.formats._tables import TableFormat
from clickbandit.logs.formats.base import Opening
from clickbandit.logs.plain import is_log
from clickbandit.logs.table import LogTable, json_table
from clickbandit.logs.tally import LogDatabase


class JSONLinesFormat(TableFormat):
    """A JSON object in each line; a list may be an array or a text."""

    def recognise(self, opening: Opening) -> bool:
        return opening.is_json and is_log(opening)

    def table(self, path: Path, database: LogDatabase) -> LogTable:
        return json_table(path)
