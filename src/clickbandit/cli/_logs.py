"""What the commands for click logs share: options that say how a log is read, and reading it."""

import os
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from clickbandit.defaults import CLICK_MODELS

if TYPE_CHECKING:
    from clickbandit.logs import Counts
    from clickbandit.logs.columns import Columns
    from clickbandit.logs.reading import Reading

FORMATS, WRITABLE = "{formats}", "{writable formats}"
"""What stands for the names of log formats in the help of an option."""


class LogCommand(TyperCommand):
    """A command whose help names log formats, which are looked up only when the help is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        asked: dict[Any, str] = {option: getattr(option, "help", None) or "" for option in self.params}
        asked = {option: text for option, text in asked.items() if FORMATS in text or WRITABLE in text}
        for option, text in asked.items():
            text = text.replace(FORMATS, ", ".join(_formats()))
            option.help = text.replace(WRITABLE, ", ".join(_writable()) if WRITABLE in text else "")
        super().format_help(ctx, formatter)
        for option, text in asked.items():  # another package may bring a format until help is shown again
            option.help = text


def _formats() -> list[str]:
    """The names of all formats, by their files: to import them takes a second."""
    group = "clickbandit.log_formats"
    folder = Path(__file__).parents[1] / "logs" / "formats"
    modules = [path.stem for path in folder.glob("*.py") if path.stem[0] != "_" and path.stem != "base"]
    return sorted(
        {
            *(module.replace("_", "-") for module in modules),
            *(point.name for point in entry_points(group=group)),
        }
    )


def _writable() -> list[str]:
    from clickbandit.logs.formats.base import format_names

    return format_names(writable=True)


MODELS = ",".join(CLICK_MODELS)
"""The click models that commands take by default."""
Logs = Annotated[list[str], typer.Argument(help="Click logs: files, or patterns such as 'logs/*.gz'.")]


@dataclass(frozen=True)
class TableOptions:
    """What a log looks like: options of every command that may read one."""

    format: Annotated[
        str | None,
        typer.Option(help=f"The log's format: {FORMATS}.", show_default="recognised from the file"),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=COLUMN,..",
            help="The table's own names for the columns impression, query, item, position (or row and column), click "
            "and page, or query, list and clicks. a+b combines two columns.",
            show_default="these names",
        ),
    ] = None
    one_row_per: Annotated[
        str | None,
        typer.Option(help="What one row of the table is: list or result.", show_default="as its columns say"),
    ] = None
    second_pages: Annotated[
        str,
        typer.Option(
            help="on: a second page continues the positions of the first; apart: it is a query of its own."
        ),
    ] = "on"
    page_size: Annotated[
        int | None,
        typer.Option(
            help="How many results a page has; needed with a column page and with --second-pages apart."
        ),
    ] = None

    @property
    def named(self) -> "Columns":
        """The options about columns as one."""
        from clickbandit.logs.columns import Columns

        return Columns.parse(self.columns, self.one_row_per, self.second_pages, self.page_size)

    def __post_init__(self) -> None:
        _ = self.named  # wrong ones are found before anything is done

    @property
    def is_given(self) -> bool:
        """Whether any option says how a log is read."""
        columns = self.named
        return self.format is not None or columns != type(columns)()

    def count(self, log: list[str], **options: Any) -> "Counts":
        """Count a log, show how far it is read, and warn if much was dropped or nobody clicked."""
        from clickbandit.logs import count_log, files
        from clickbandit.progress import reading_bar

        with reading_bar(sum(path.stat().st_size for path in files.find(log))) as advance:
            counts = count_log(log, self.format, columns=self.named, progress=advance, **options)
        warn(counts.reading)
        return counts


@dataclass(frozen=True)
class LogOptions(TableOptions):
    """How a log is read: options of every command that is about one."""

    query_key: Annotated[
        str, typer.Option(help="query, or query+region to keep the regions of yandex-relpred apart.")
    ] = "query"
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first malformed line.")] = False
    memory_limit: Annotated[
        str, typer.Option(help="How much memory counting may use; the rest goes to disk.")
    ] = "2GiB"
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Count files on the Dask scheduler at this address, such as tcp://host:8786.",
            show_default="this machine",
        ),
    ] = None

    def count(self, log: list[str], **options: Any) -> "Counts":
        names = ("query_key", "strict", "memory_limit", "cluster")
        return super().count(log, **{name: getattr(self, name) for name in names}, **options)


def warn(reading: "Reading") -> None:
    """Print the warnings of a reading in red."""
    for text in reading.warnings:
        typer.secho(f"warning: {text}", fg=None if os.environ.get("NO_COLOR") else typer.colors.RED, err=True)
