"""Parquet: a row for each list, or a row for each item shown."""

from pathlib import Path

from clickbandit.logs.formats.base import LogFormat, Opening, ReadOptions
from clickbandit.logs.formats.plain import is_counted, read_log
from clickbandit.logs.formats.table import parquet_table
from clickbandit.logs.reading import Reading
from clickbandit.logs.tally import Tally


class ParquetFormat(LogFormat):
    """The columns of CSV; a list may be one of Parquet's or a text."""

    def recognise(self, opening: Opening) -> bool:
        return opening.schema is not None and not is_counted(opening)

    def read(self, path: Path, tally: Tally, options: ReadOptions) -> Reading:
        return read_log(parquet_table(path, tally.database), tally, options.strict)
