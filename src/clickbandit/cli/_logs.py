"""What the commands for click logs share: options that say how a log is read, and reading it."""

import os
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

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


Format = Annotated[
    str | None, typer.Option(help=f"The log's format: {FORMATS}.", show_default="what it looks like")
]
QueryKey = Annotated[
    str, typer.Option(help="query, or query+region to tell the regions of yandex-relpred apart.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first malformed line.")]
MemoryLimit = Annotated[str, typer.Option(help="How much memory counting may take; the rest is put on disk.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Count files on the Dask scheduler at this address, such as tcp://host:8786.",
        show_default="this machine",
    ),
]
ColumnNames = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAME=COLUMN,..",
        help="What columns of a table are called: impression, query, item, position (or row and column), click, page; "
        "or query, list, clicks. a+b is both together.",
        show_default="as here",
    ),
]
OneRowPer = Annotated[
    str | None,
    typer.Option(help="list or result: what a row of the table is.", show_default="as its columns say"),
]
SecondPages = Annotated[
    str, typer.Option(help="on: second pages are positions 11 and on; apart: they are queries of their own.")
]
PageSize = Annotated[
    int | None,
    typer.Option(help="How many results a page has, with a column page or --second-pages apart."),
]
Logs = Annotated[list[str], typer.Argument(help="Click logs: files, or patterns such as 'logs/*.gz'.")]


def count(
    log: list[str],
    format: str | None,
    columns: "Columns",
    memory: str = "2GiB",
    strict: bool = False,
    query_key: str = "query",
    cluster: str | None = None,
) -> "Counts":
    """Count a log, show how far it is read, and warn if much was dropped or nobody clicked."""
    from clickbandit.logs import count_log, files
    from clickbandit.progress import reading_bar

    options: dict[str, Any] = {
        "strict": strict,
        "query_key": query_key,
        "cluster": cluster,
        "columns": columns,
    }
    with reading_bar(sum(path.stat().st_size for path in files.find(log))) as advance:
        counts = count_log(log, format, memory_limit=memory, progress=advance, **options)
    warn(counts.reading)
    return counts


def warn(reading: "Reading") -> None:
    """Say in red what whoever uses counts should know first."""
    for text in reading.warnings:
        typer.secho(f"warning: {text}", fg=None if os.environ.get("NO_COLOR") else typer.colors.RED, err=True)


def columns_of(
    names: str | None, one_row_per: str | None, second_pages: str, page_size: int | None
) -> "Columns":
    """The options about columns as one."""
    from clickbandit.logs.columns import Columns

    return Columns.parse(names, one_row_per, second_pages, page_size)


def is_said(format: str | None, columns: "Columns") -> bool:
    """Whether any option says how a log is read."""
    return format is not None or columns != type(columns)()
