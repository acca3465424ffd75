"""Parquet: a row for each list, or a row for each item shown."""

from collections.abc import Sequence
from pathlib import Path

from clickbandit.logs.formats.base import LogFormat, Opening, ReadOptions
from clickbandit.logs.plain import is_log, read_log
from clickbandit.logs.reading import Reading
from clickbandit.logs.table import parquet_table
from clickbandit.logs.tally import Tally


class ParquetFormat(LogFormat):
    """The columns of CSV; a list may be one of Parquet's or a text."""

    def recognise(self, opening: Opening) -> bool:
        return opening.schema is not None and is_log(opening)

    def read(self, path: Path, tally: Tally, options: ReadOptions) -> Reading:
        return self.read_together([path], tally, options)

    def read_together(self, paths: Sequence[Path], tally: Tally, options: ReadOptions) -> Reading:
        return read_log([parquet_table(path, tally.database) for path in paths], tally, options)
