"""Logs as lines of JSON on standard error. They hold no keys, and no names of queries unless asked for."""

import logging
import sys
import threading
import traceback
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, BinaryIO

import msgspec

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
_waiting: deque[bytes] = deque()
"""Lines that are to be written."""


class Answered(msgspec.Struct, gc=False):
    """The line of a request that was answered."""

    time: datetime
    level: str
    request_id: str
    method: str
    path: str
    status: int
    seconds: float
    key: str | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET
    event: str = "request"


class JsonHandler(logging.Handler):
    """Writes what the libraries log."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            fields = {"logger": record.name, "message": record.getMessage()}
            if record.exc_info:
                fields["traceback"] = "".join(traceback.format_exception(*record.exc_info))
            write(record.levelname.lower(), **fields)
        except Exception as error:
            write("error", logger=record.name, message=f"a message cannot be logged: {error!r}")


def write(level: str, **fields: Any) -> None:
    """One line, at once."""
    add(level, fields)
    write_all()


def add(level: str, fields: dict[str, Any]) -> None:
    """One line, to be written with others by `write_all`."""
    line = {"time": datetime.now(UTC), "level": level, **fields}
    try:
        written = _encode(line)
    except UnicodeEncodeError:
        written = _encode({name: _encodable(value) for name, value in line.items()})
    _waiting.append(written + b"\n")


def add_answers(lines: list[Answered]) -> None:
    """Many lines, to be written by `write_all`."""
    try:
        _waiting.append(_encode_lines(lines))
    except UnicodeEncodeError:
        for line in lines:
            add(line.level, msgspec.structs.asdict(line))


def write_all() -> None:
    """All lines that there are, from any thread."""
    lines = []
    with suppress(IndexError):  # a thread takes each; no lock, since its holder may be made to log
        for _ in range(len(_waiting)):
            lines.append(_waiting.popleft())
    stream: BinaryIO = sys.stderr.buffer
    stream.write(b"".join(lines))
    stream.flush()


def _encodable(value: Any) -> Any:
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def _uncaught(kind: Any, error: Any, trace: Any) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    written = "".join(traceback.format_exception(kind, error, trace))
    write("critical", event="failure", message=f"{kind.__name__}: {error}", traceback=written)


def set_up() -> None:
    """Log warnings and worse from any logger, and uncaught exceptions from any thread."""
    logging.basicConfig(handlers=[JsonHandler()], level=logging.WARNING, force=True)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value, args.exc_traceback)
    sys.unraisablehook = lambda args: _uncaught(args.exc_type, args.exc_value, args.exc_traceback)
