"""Pages of the site that are generated from the code: names, commands, requests, tables and click models."""

import inspect
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import clickbandit
from clickbandit.click_models.base import RATES, ClickModel, model_class, model_names
from clickbandit.documented import field_docs

GROUPS = {
    "Simulate": ("experiments", "simulation"),
    "Policies": ("policies", "priors"),
    "Click models": ("click_models",),
    "Queries and logs": ("queries", "logs"),
    "For code of your own": ("compiling", "errors"),
}
"""The sections of the page of names, by the packages that define them; others come last."""


def pages() -> dict[str, str]:
    """All of them, by their path on the site."""
    return {
        "reference/api.md": api(),
        "reference/cli.md": commands(),
        "reference/http.md": requests(),
        "reference/store.md": tables(),
        "click-models/index.md": models(),
        **{f"click-models/{name.lower()}.md": model_page(model_class(name)) for name in model_names()},
    }


# --- names --------------------------------------------------------------------------------------------------


def api() -> str:
    """Every public name of `clickbandit` and `clickbandit.live`, with its signature and docstring."""
    sections: dict[str, list[str]] = {title: [] for title in (*GROUPS, "More")}
    for name in sorted(set(clickbandit.__all__) - {"__version__"}, key=str.lower):
        value = getattr(clickbandit, name)
        package = clickbandit._MODULES[name].split(".")[1]
        title = next((title for title, packages in GROUPS.items() if package in packages), "More")
        sections[title] += described(name, value)
    from clickbandit import live

    names = ("Ranker", "AsyncRanker", "Client", "Event", "Shown", "Verdict")
    sections["Live"] = [line for name in names for line in described(name, getattr(live, name), "live.")]
    text = ["# Python", "What `from clickbandit import ...` and `from clickbandit.live import ...` offer."]
    for title, entries in sections.items():
        text += [f"## {title}", *entries] if entries else []
    return "\n\n".join(text) + "\n"


def described(name: str, value: Any, prefix: str = "") -> Iterator[str]:
    """A heading, the signature, the docstring, and the public methods of a class."""
    yield f"### {prefix}{name}"
    if inspect.isclass(value) or inspect.isfunction(value):
        yield f"```text\n{name}{wrapped(signature(value))}\n```"
    yield documentation(value)
    if inspect.isclass(value):
        for method, function in vars(value).items():
            if not method.startswith("_") and inspect.isfunction(function) and function.__doc__:
                yield f"**`{method}{signature(function)}`**"
                yield documentation(function)


def signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value)).replace("clickbandit.", "").replace("collections.abc.", "")
    except ValueError:
        return ""
    return text.replace("(self, ", "(").replace("(self)", "()")


def wrapped(text: str) -> str:
    """A signature with a line for each parameter, if it is long.

    >>> print(wrapped("(steps: int, changes: dict[str, tuple[int, int]], more: str = 'as long as it may be')"))
    (
        steps: int,
        changes: dict[str, tuple[int, int]],
        more: str = 'as long as it may be'
    )
    """
    if len(text) < 80:
        return text
    inside, _, after = text[1:].rpartition(")")
    parts, depth = [""], 0
    for letter in inside:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return "(\n    " + ",\n    ".join(part.strip() for part in parts) + f"\n){after}"


def documentation(value: Any) -> str:
    """A docstring, with its examples as code."""
    parts: list[str] = []
    for paragraph in (inspect.getdoc(value) or "").split("\n\n"):
        code = paragraph.startswith(">>> ")
        parts.append(f"```pycon\n{paragraph}\n```" if code else paragraph)
    return "\n\n".join(parts)


# --- commands -----------------------------------------------------------------------------------------------


def commands() -> str:
    """Every command with its options, as its help has them."""
    from typer.main import get_command

    from clickbandit import cli

    text = ["# Command line", "`clickbandit COMMAND --help` says the same."]
    context = _Context()
    program: Any = get_command(cli.app)
    for name in sorted(program.commands):
        command = program.get_command(context, name)
        paragraphs = [" ".join(part.split()) for part in inspect.cleandoc(command.help or "").split("\n\n")]
        text += [
            f"## {name}",
            *paragraphs,
            "\n".join(["| option | meaning |", "|---|---|", *_options(command)]),
        ]
    return "\n\n".join(text) + "\n"


class _Context:
    """As much of a context as naming values needs: help has a default of its own."""

    help_option_names = ("-h", "--help")


def _options(command: Any) -> Iterator[str]:
    for option in command.params:
        if option.name == "help":
            continue
        shown = (
            ", ".join((*option.opts, *option.secondary_opts)) if option.opts[0][0] == "-" else option.metavar
        )
        value = f" {option.metavar}" if option.metavar and shown != option.metavar else ""
        default = option.default if getattr(option, "show_default", False) is True else option.show_default
        told = (
            f" Default: {default}." if default not in (None, False, "", ()) and not callable(default) else ""
        )
        help = _formats(getattr(option, "help", "") or "").replace("|", "\\|").replace("<", "&lt;")
        yield f"| `{shown}{value}` | {help}{told} |"


def _formats(help: str) -> str:
    """Help with the names of log formats, which are looked up when it is shown."""
    from clickbandit.cli._logs import FORMATS, WRITABLE
    from clickbandit.logs.formats.base import format_names

    for mark in (FORMATS, WRITABLE):
        if mark in help:
            help = help.replace(mark, ", ".join(format_names(writable=mark == WRITABLE)))
    return help


# --- requests -----------------------------------------------------------------------------------------------


def requests() -> str:
    """The OpenAPI document in words."""
    from clickbandit.live.http.endpoints import Api
    from clickbandit.live.http.metrics import Metrics
    from clickbandit.live.http.openapi import document
    from clickbandit.live.http.stream import Streams

    nobody: Any = None
    found = document(Api(nobody, Metrics(), Streams(nobody)).endpoints(), keys=False)
    text = ["# HTTP", found["info"]["description"], "The service serves the same as `/openapi.json`."]
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            text += [f"## {method.upper()} {path}", " ".join((operation["summary"] or "").split())]
            text += _parameters(operation.get("parameters", ()))
            body = operation.get("requestBody", {}).get("content", {})
            text += [f"Takes {_kind(content['schema']) or 'JSON'}." for content in body.values()]
            answers = operation["responses"]
            kinds = {_kind(content["schema"]) for content in answers["200"].get("content", {}).values()} - {
                ""
            }
            text += [f"Answers {', '.join(sorted(kinds))}."] if kinds else []
            text += ["Refuses with " + ", ".join(status for status in answers if status != "200") + "."]
    text.append("## Values")
    for name, schema in sorted(found["components"]["schemas"].items()):
        rows = [
            f"| `{field}` | {_kind(kind)} | {kind.get('description', '')} |".replace("<", "&lt;")
            for field, kind in schema.get("properties", {}).items()
        ]
        about = " ".join(schema.get("description", "").split())
        text += [f"### {name}", about] + (
            ["\n".join(["| field | type | meaning |", "|---|---|---|", *rows])] if rows else []
        )
    return "\n\n".join(filter(None, text)) + "\n"


def _parameters(parameters: Any) -> list[str]:
    rows = [f"| `{one['name']}` | {one['in']} | {_kind(one['schema'])} |" for one in parameters]
    return ["\n".join(["| parameter | in | type |", "|---|---|---|", *rows])] if rows else []


def _kind(schema: Any) -> str:
    """A type in words, with a link if it is one of the values."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {})) or 'anything'}"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return str(schema.get("type", ""))


# --- the store ----------------------------------------------------------------------------------------------


def tables() -> str:
    """The tables of a new store."""
    from clickbandit.live.stores.sqlite import SqliteStore

    with TemporaryDirectory() as folder:
        path = Path(folder) / "clicks.db"
        SqliteStore(path).close()
        with closing(sqlite3.connect(path)) as file:
            made = file.execute(
                "select sql from sqlite_master where sql is not null order by rowid"
            ).fetchall()
    statements = ";\n\n".join(inspect.cleandoc(sql) for (sql,) in made)
    return (
        "# The store\n\nThe tables of a SQLite store; PostgreSQL has the same with its own types. Times are "
        "milliseconds since 1970. Others may read them; the ranker alone writes.\n\n"
        f"```sql\n{statements};\n```\n"
    )


# --- click models -------------------------------------------------------------------------------------------


def models() -> str:
    """All click models."""
    rows = [
        f"| [{name}]({name.lower()}.md) | {(model_class(name).__doc__ or '').strip().splitlines()[0]} |"
        for name in model_names()
    ]
    rates = ", ".join(RATES)
    return "\n".join(
        [
            "# Click models",
            "",
            "How users click. Each model can be simulated, and fitted to a log by `clickbandit fit`.",
            "",
            *("| model | users |", "|---|---|", *rows),
            "",
            f"The click rates {rates} are baselines for fits, no models of users. Mixtures of models are models too.",
            "",
        ]
    )


def model_page(kind: type[ClickModel]) -> str:
    """A click model by the docstring of its module and the parameters of its class."""
    module = sys.modules[kind.__module__]
    headline, *more = [" ".join(text.split()) for text in (inspect.getdoc(module) or "").split("\n\n")]
    meaning = field_docs(kind)
    rows = [f"| `{field.name}` | {meaning.get(field.name, '')} |" for field in fields(kind)]
    name = kind.__module__.rpartition(".")[2].upper()
    return "\n\n".join(
        [
            f"# {name}",
            headline,
            *more,
            "## Parameters",
            "\n".join(["| parameter | meaning |", "|---|---|", *rows]),
            f"In Python `clickbandit.{kind.__name__}`, on the command line `--model {name}`. Paper: {kind.paper}.\n",
        ]
    )
