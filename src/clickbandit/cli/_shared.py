"""What the commands share: the program itself, options that several have, and files that are written whole."""

import inspect
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from clickbandit import __version__
from clickbandit.errors import InputError
from clickbandit.stopping import CODE, watch

if TYPE_CHECKING:
    from clickbandit.extras import pa
    from clickbandit.queries import Query

GREETING = """\
clickbandit learns the best ranked list from clicks.

  clickbandit demo                         watch it learn, on a page
  clickbandit reproduce                    the paper's experiments, in minutes
  clickbandit simulate --queries example   policies meet simulated users
  clickbandit fit LOG --out queries.json   how users click, from your own log
  clickbandit serve                        rank a live page, over HTTP

clickbandit --help lists all commands, clickbandit COMMAND --help explains one,
and clickbandit --install-completion completes them in your shell."""


PANELS = {
    "Simulation": ("simulate", "compare", "reproduce", "report", "check", "policies", "models"),
    "Click logs": ("fit", "evaluate", "audit", "judgments", "bias", "generate"),
    "Live": ("demo", "serve", "best", "export", "value"),
    "About": ("cite",),
}
"""The commands as help shows them, under headings."""
SERVICES = ("serve", "demo")
"""Those that run until they are stopped: Ctrl-C lets them answer and store what they have begun."""


@contextmanager
def told_if_stopped() -> Iterator[None]:
    """Says that Ctrl-C stopped the command, which ends; typer would end it without a word."""
    try:
        yield
    except KeyboardInterrupt:
        watch.say()
        raise typer.Exit(CODE) from None


class _Program(TyperGroup):
    """The commands, whose help names values after their options and not after their types."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for names in PANELS.values() for name in names]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _name_values(command, ctx)
            command.rich_help_panel = next(  # type: ignore[attr-defined]
                panel for panel, names in PANELS.items() if cmd_name in names
            )
        return command

    def make_context(self, *given: Any, **more: Any) -> Any:
        with told_if_stopped():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        with told_if_stopped():
            return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _name_values(self, ctx)
        super().format_help(ctx, formatter)


def _name_values(command: Any, ctx: Any) -> None:
    for parameter in filter(None, (*command.params, command.get_help_option(ctx))):
        if parameter.metavar is None:
            is_flag = getattr(parameter, "is_flag", False)
            is_number = isinstance(parameter.default, int | float)
            name = str(parameter.name).rpartition("_")[2].upper()
            parameter.metavar = "" if is_flag else "N" if is_number else name
        if parameter.param_type_name == "argument":  # whose name and type are shown in columns of their own
            parameter.display_type_rich = lambda ctx: ""


app = typer.Typer(
    name="clickbandit",
    cls=_Program,
    help="Learn the best ranked list from clicks, without knowing how users click.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None if os.environ.get("NO_COLOR") else "rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"clickbandit {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn the best ranked list from clicks, without knowing how users click."""
    if context.invoked_subcommand in SERVICES:
        watch.stop()
    if context.invoked_subcommand is None:
        print(GREETING)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of each parameter that is a dataclass as options of its own."""
    parameters = inspect.signature(command).parameters.values()
    groups: dict[str, Any] = {one.name: one.annotation for one in parameters if is_dataclass(one.annotation)}

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    options: list[inspect.Parameter] = []
    for one in parameters:
        options += inspect.signature(groups[one.name]).parameters.values() if one.name in groups else [one]
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    )
    return run


Positions = Annotated[int, typer.Option(help="How many items a list shows.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def whole_number(text: str) -> int:
    """A whole number that may be written like 1e6 or 1_000_000."""
    try:
        number = float(text)
        if number == int(number):
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise InputError(f"expected a whole number such as 1000000 or 1e6, found {text!r}")


def at_least_1(option: str, number: int) -> int:
    """The number that an option gives, unless it is below 1."""
    if number < 1:
        raise InputError(f"{option} must be at least 1, found {number}")
    return number


def known_models(names: Sequence[str] | None) -> list[str]:
    """The click models of these names, comma-separated or not, each once."""
    from clickbandit.click_models.base import model_class

    chosen = [name.strip().upper() for text in names or [] for name in text.split(",")]
    for name in chosen:
        model_class(name)
    return list(dict.fromkeys(chosen))


def policy_list(texts: Sequence[str]) -> list[str]:
    """Comma-separated policies, each once. Their settings have commas too, but those stand before a key=value.

    >>> policy_list(["batchrank:variant=experiment,bounds=kl,ranked-exp3", "mine.py:Mine:a=1,b=2"])
    ['batchrank:variant=experiment,bounds=kl', 'ranked-exp3', 'mine.py:Mine:a=1,b=2']
    """
    policies: list[str] = []
    for text in texts:
        mine: list[str] = []
        for piece in (piece.strip() for piece in text.split(",")):
            if mine and "=" in piece.partition(":")[0]:
                mine[-1] += f",{piece}"
            elif piece:
                mine.append(piece)
        if not mine:
            raise InputError(f"expected policies, comma-separated if there are several, found {text!r}")
        policies += mine
    return list(dict.fromkeys(policies))


def queries_named(queries: "list[Query]", names: list[str] | None) -> "list[Query]":
    """The queries of these names, all without names."""
    by_name = {query.query: query for query in queries}
    for name in names or []:
        if name not in by_name:
            from clickbandit.registry import suggestion

            raise InputError(f"there is no query {name!r}: {suggestion(name, by_name)}")
    return [by_name[name] for name in dict.fromkeys(names)] if names else queries


def figure_format(figure: Path | None) -> str:
    """The format in which a figure is drawn, by the ending of its file."""
    kind = figure.suffix[1:] if figure else "svg"
    if kind not in ("svg", "png", "html"):
        raise InputError(f"expected a figure that ends in .svg, .png or .html, found {figure}")
    return kind


@contextmanager
def output(path: Path | None, force: bool) -> Iterator[Path | None]:
    """A file next to `path` to write to, which takes its place when all went well; None without a path.

    Fails before any work if the path cannot be written or would overwrite something.
    """
    if path is None:
        yield None
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the path of a file in it")
    if path.exists() and not force:
        raise InputError(f"{path} exists: give another path, or --force to overwrite it")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    os.close(handle)
    os.chmod(name, 0o666 & ~_umask())
    temporary = Path(name)
    try:
        yield temporary
        if temporary.stat().st_size:
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_parquet(table: "pa.Table", path: Path) -> None:
    from clickbandit.extras import pq

    pq.write_table(table, path)
