"""Records of functions that are held to Protocols: how policies and click models say what they give."""

import inspect
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from clickbandit.errors import InputError


class Contract:
    """The base of a frozen dataclass whose fields are functions, each of the type of a Protocol, and flags.

    mypy checks the functions where a record is made. Python checks that they take the arguments that the Protocols
    say, and tells in one sentence which one does not.
    """

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in fields(self):  # type: ignore[arg-type]
            value, hint = getattr(self, field.name), hints[field.name]
            optional = type(None) in get_args(hint)
            kinds = [kind for kind in (hint, *get_args(hint)) if getattr(kind, "_is_protocol", False)]
            if kinds and not (optional and value is None):
                self._check(field.name, value, kinds[0])
            if hint is bool and not isinstance(value, bool):
                raise InputError(f"{type(self).__name__}.{field.name} must be True or False, found {value!r}")

    def _check(self, name: str, function: Any, protocol: type) -> None:
        expected = [*inspect.signature(protocol.__call__).parameters][1:]
        wanted = f"{type(self).__name__}.{name} must be a function of ({', '.join(expected)})"
        if not callable(function):
            raise InputError(f"{wanted}, found {function!r}")
        signature = inspect.signature(getattr(function, "py_func", function))
        try:
            signature.bind(*expected)
        except TypeError:
            raise InputError(f"{wanted}, found one of ({', '.join(signature.parameters)})") from None
