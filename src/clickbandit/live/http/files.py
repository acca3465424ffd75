"""The page at `/` of the service: files of the package, read once. They ask no other host for anything."""

import json
from importlib import resources
from importlib.metadata import version
from typing import NamedTuple

from clickbandit import style

_KINDS = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
    "json": b"application/json",
}
_POLICY = b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"


class File(NamedTuple):
    """A file of the page, ready to be sent."""

    headers: list[tuple[bytes, bytes]]
    body: bytes


def page_files(*, demo: bool) -> dict[bytes, File]:
    """By path. The page asks `info.json` what kind of service it belongs to."""
    info = {"version": version("clickbandit"), "demo": demo}
    texts = {"base.css": style.base(), "info.json": json.dumps(info)}
    for file in resources.files("clickbandit.live").joinpath("page").iterdir():
        texts[file.name] = file.read_text(encoding="utf-8")
    index = texts.pop("index.html")
    return {
        b"/": _file("index.html", index),
        **{f"/page/{name}".encode(): _file(name, text) for name, text in texts.items()},
    }


def _file(name: str, text: str) -> File:
    body = text.encode()
    headers = [
        (b"content-type", _KINDS[name.rpartition(".")[2]]),
        (b"cache-control", b"no-cache"),
        (b"content-security-policy", _POLICY),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
    ]
    return File(headers, body)
