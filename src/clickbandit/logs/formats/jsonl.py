"""JSON lines with the names of CSV: a row for each list, or a row for each result shown."""

from collections.abc import Sequence
from pathlib import Path

from clickbandit.logs.formats.base import LogFormat, Opening, ReadOptions
from clickbandit.logs.plain import is_log, read_log
from clickbandit.logs.reading import Reading
from clickbandit.logs.table import json_table
from clickbandit.logs.tally import Tally


class JSONLinesFormat(LogFormat):
    """A JSON object in each line; a list may be an array or a text."""

    def recognise(self, opening: Opening) -> bool:
        return opening.is_json and is_log(opening)

    def read(self, path: Path, tally: Tally, options: ReadOptions) -> Reading:
        return self.read_together([path], tally, options)

    def read_together(self, paths: Sequence[Path], tally: Tally, options: ReadOptions) -> Reading:
        return read_log([json_table(path) for path in paths], tally, options)
