"""Counts instead of a log: by query, item and position as CSV or Parquet, or as `Counts.save` wrote them."""

from pathlib import Path

from clickbandit.logs.formats.base import LogFormat, Opening, ReadOptions
from clickbandit.logs.plain import is_counted, read_item_counts
from clickbandit.logs.reading import Reading
from clickbandit.logs.saved import is_saved, read_saved
from clickbandit.logs.table import open_table
from clickbandit.logs.tally import Tally


class CountsFormat(LogFormat):
    """A row for each query, item and position with its impressions and clicks, or saved counts."""

    def recognise(self, opening: Opening) -> bool:
        return is_counted(opening)

    def read(self, path: Path, tally: Tally, options: ReadOptions) -> Reading:
        schema = Opening(path).schema
        if schema is not None and is_saved(schema):
            return read_saved(path, tally)
        return read_item_counts(open_table(path, tally.database), tally, options)
