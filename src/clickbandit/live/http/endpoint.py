"""What an endpoint is: a method of `endpoints.Api`, and what a request needs to reach it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
JSON = "application/json"


class Typed(bytes):
    """An answer of another content type than its endpoint has."""

    content_type: bytes

    def __new__(cls, body: bytes, content_type: bytes) -> "Typed":
        made = super().__new__(cls, body)
        made.content_type = content_type
        return made


class Quick(NamedTuple, Generic[T]):
    """A request so frequent that it gets no task of its own: what the ranker is to do, and how to answer then."""

    request: Any
    answer: Callable[[Any], T]
    begin: Callable[[Any, Any], None] | None = None
    """Has someone else than the ranker do it: takes the request, and what gets the result as a future does."""


Asked = Quick[T] | Awaitable[T]
"""What an endpoint gives that may be quick."""


@dataclass(frozen=True)
class Endpoint:
    """One of them."""

    method: str
    path: str
    """With the names of its parameters in braces."""
    errors: tuple[int, ...]
    """Statuses beyond those that every such endpoint may answer with."""
    open: bool
    """Whether it needs no key and has no limits."""
    decode: Callable[[bytes], Any] | None
    """Reads the body, if that takes more than its type."""
    content_type: str
    """Of the answer."""
    other_type: str | None
    """Of the answer, if it may have another."""
    handler: Callable[..., Any]
    scope: str
    """What a key must be allowed."""

    @property
    def takes(self) -> dict[str, Any]:
        """The types of its arguments by name (those in the path, `body` or `parameters`), and of what it answers."""
        hints = get_type_hints(self.handler)
        for kind in get_args(hints["return"]):
            if get_origin(kind) is Quick:
                hints["return"] = get_args(kind)[0]
        return hints


Handler = TypeVar("Handler", bound=Callable[..., Any])


def endpoint(
    method: str,
    path: str,
    *errors: int,
    open: bool = False,
    decode: Callable[[bytes], Any] | None = None,
    content_type: str = JSON,
    other_type: str | None = None,
    scope: str | None = None,
) -> Callable[[Handler], Handler]:
    """Register a method of `Api` as an endpoint."""

    def mark(handler: Handler) -> Handler:
        needed = scope or ("read" if method == "GET" else "admin")
        handler.endpoint = Endpoint(  # type: ignore[attr-defined]
            method, path, errors, open, decode, content_type, other_type, handler, needed
        )
        return handler

    return mark
