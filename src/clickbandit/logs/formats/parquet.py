"""Parquet: a row for each list, or a row for each item shown."""

from pathlib import Path

from clickbandit.logs.formats._tables import TableFormat
from clickbandit.logs.formats.base import Opening
from clickbandit.logs.plain import is_log
from clickbandit.logs.table import LogTable, parquet_table
from clickbandit.logs.tally import LogDatabase


class ParquetFormat(TableFormat):
    """The columns of CSV; a list may be one of Parquet's or a text."""

    def recognise(self, opening: Opening) -> bool:
        return opening.schema is not None and is_log(opening)

    def table(self, path: Path, database: LogDatabase) -> LogTable:
        return parquet_table(path, database)
