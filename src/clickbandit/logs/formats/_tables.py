"""What the formats for tables share: a row for each list or for each result, of all files of a log together."""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from clickbandit.logs.formats.base import LogFormat, ReadOptions
from clickbandit.logs.plain import read_log
from clickbandit.logs.reading import Reading
from clickbandit.logs.table import LogTable
from clickbandit.logs.tally import LogDatabase, Tally


class TableFormat(LogFormat):
    """A log whose files are tables."""

    @abstractmethod
    def table(self, path: Path, database: LogDatabase) -> LogTable:
        """The table in a file."""

    def read(self, path: Path, tally: Tally, options: ReadOptions) -> Reading:
        return self.read_together([path], tally, options)

    def read_together(self, paths: Sequence[Path], tally: Tally, options: ReadOptions) -> Reading:
        return read_log([self.table(path, tally.database) for path in paths], tally, options)
