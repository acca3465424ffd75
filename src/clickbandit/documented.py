"""Classes whose fields are explained under them: what their texts say, and `help` that shows them."""

import ast
import inspect
import textwrap
from dataclasses import fields
from functools import cache
from itertools import pairwise
from typing import Any, get_type_hints


def hints_of(kind: type) -> dict[str, Any]:
    """The types of a class's fields, looked up once."""
    return _hints(kind)


_hints = cache(get_type_hints)


@cache
def field_docs(kind: type) -> dict[str, str]:
    """The text under each field of a class and of its bases, where their sources are available."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        try:
            source = textwrap.dedent(inspect.getsource(base))
        except (OSError, TypeError):  # built in, or typed into an interpreter
            continue
        body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
        for node, text in pairwise(body):
            explained = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            if isinstance(node, ast.AnnAssign) and explained:
                found[ast.unparse(node.target)] = " ".join(ast.literal_eval(text.value).split())
    return found


class Documentation:
    """A class's docstring with its parameters, put together when somebody asks for it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, _: Any, kind: type) -> str:
        if "__match_args__" not in vars(kind):  # `dataclass` asks before it is done with the class
            return self._text
        explained = field_docs(kind)
        settings = [field.name for field in fields(kind) if field.name in explained]
        if not settings:
            return self._text
        entries = [textwrap.indent(textwrap.fill(explained[name], 100), "        ") for name in settings]
        listed = [f"    {name}\n{entry}" for name, entry in zip(settings, entries, strict=True)]
        return "\n".join([self._text.rstrip(), "", "    Parameters:", "", *listed, "    "])


class Documented:
    """The base of dataclasses whose `help` explains their fields."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if isinstance(text := vars(cls).get("__doc__"), str):
            cls.__doc__ = Documentation(text)  # type: ignore[assignment]
