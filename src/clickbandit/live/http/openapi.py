"""The description of the service, made from its endpoints and the types of what they take and give."""

import ast
import inspect
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import msgspec

from clickbandit.live import values
from clickbandit.live.http import ubi
from clickbandit.live.http.endpoint import JSON, Endpoint
from clickbandit.live.http.events import read_events
from clickbandit.live.http.messages import EventBody, Impression, ProblemDetails, Query, User

_ERRORS = {
    400: "The body is not JSON.",
    401: "An API key is needed, as the header `Authorization: Bearer KEY`.",
    403: "Refused: a web page of another origin asked without a key, the key may not do this, or there may be no more "
    "queries.",
    404: "There is no such query or impression.",
    408: "The body took too long to arrive.",
    409: "This contradicts what was done before.",
    413: "The body is too large.",
    415: "The body must be declared as JSON.",
    422: "Something in the request cannot be used.",
    429: "Too many requests with this key: `Retry-After` says how many seconds to wait.",
    503: "The store failed, or is overloaded, or the service is stopping: nothing was done; try again.",
}
_ALWAYS = (401, 403, 422, 429, 503)
_WITH_BODY = (400, 408, 413, 415)
_NAMES: dict[str, Any] = {"query": Query, "id": Impression, "user": User}
_REFERENCE = "#/components/schemas/{name}"


def document(endpoints: Iterable[Endpoint], *, keys: bool) -> dict[str, Any]:
    """An OpenAPI document, of a service that asks for keys or not."""
    endpoints = list(endpoints)
    kinds = [ProblemDetails, EventBody, ubi.UbiEvent]
    for endpoint in endpoints:
        named = (
            ("return", "parameters") if endpoint.decode is read_events else ("return", "parameters", "body")
        )
        kinds += [kind for name, kind in endpoint.takes.items() if name in named]
    _, components = msgspec.json.schema_components(
        dict.fromkeys(kind for kind in kinds if kind is not bytes), ref_template=_REFERENCE
    )
    _describe(components)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, components)
        if keys and not endpoint.open:
            paths[endpoint.path][endpoint.method.lower()]["security"] = [{"key": []}]
    for name in {e.takes["parameters"].__name__ for e in endpoints if "parameters" in e.takes}:
        del components[name]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "clickbandit",
            "version": version("clickbandit"),
            "description": "Learns the best ranked list from clicks. `POST /v1/rank` gives a list to show, `POST "
            "/v1/events` takes the clicks on it. Times are RFC 3339, positions are counted from 1.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            **({"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}} if keys else {}),
        },
    }


def _describe(components: dict[str, Any]) -> None:
    """Give the fields of values the text that stands under them in the source, if that is there."""
    with suppress(OSError):
        for node in ast.parse(inspect.getsource(values)).body:
            if not isinstance(node, ast.ClassDef) or node.name not in components:
                continue
            for field, text in pairwise(node.body):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    said = " ".join(ast.literal_eval(text.value).replace("`", "").split())
                    components[node.name]["properties"][ast.unparse(field.target)]["description"] = said


def _operation(endpoint: Endpoint, components: dict[str, Any]) -> dict[str, Any]:
    takes = endpoint.takes
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": msgspec.json.schema(_NAMES[name])}
        for name in takes
        if f"{{{name}}}" in endpoint.path
    ]
    if "parameters" in takes:
        for name, schema in components[takes["parameters"].__name__]["properties"].items():
            parameters.append({"name": name, "in": "query", "schema": schema})
    errors = set(endpoint.errors)
    if not endpoint.open:
        errors.update(_ALWAYS)
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.handler.__doc__,
        "parameters": parameters,
    }
    if "body" in takes:
        errors.update(_WITH_BODY)
        optional = endpoint.decode is not read_events and not components[takes["body"].__name__].get(
            "required"
        )
        operation["requestBody"] = {
            "required": not optional,
            "content": {
                JSON: {"schema": _events() if endpoint.decode is read_events else _of(takes["body"])}
            },
        }
    kinds = filter(None, (endpoint.content_type, endpoint.other_type))
    operation["responses"] = {
        "200": {
            "description": "Done.",
            "content": {kind: {"schema": _of(takes["return"])} for kind in kinds},
        },
        **{str(status): _error(status) for status in sorted(errors)},
    }
    return operation


def _of(kind: type) -> dict[str, Any]:
    return {} if kind is bytes else {"$ref": _REFERENCE.format(name=kind.__name__)}


def _error(status: int) -> dict[str, Any]:
    return {
        "description": _ERRORS[status],
        "content": {"application/problem+json": {"schema": _of(ProblemDetails)}},
    }


def _events() -> dict[str, Any]:
    """An event that is no event is no reason to refuse the others, so anything is taken for one."""
    others = {"description": "Anything else is given the verdict `invalid`, with the reason."}
    events = {"type": "array", "items": {"anyOf": [_of(EventBody), _of(ubi.UbiEvent), others]}}
    own = {
        "type": "object",
        "properties": {"events": events},
        "required": ["events"],
        "additionalProperties": False,
    }
    return {"oneOf": [own, events]}
