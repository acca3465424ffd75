"""Logs as lines of JSON on standard error. They hold no keys, and no names of queries unless asked for."""

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, BinaryIO

import msgspec

_encode = msgspec.json.Encoder().encode


class JsonHandler(logging.Handler):
    """Writes what the libraries log."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            fields = {"logger": record.name, "message": record.getMessage()}
            if record.exc_info:
                fields["traceback"] = "".join(traceback.format_exception(*record.exc_info))
            write(record.levelname.lower(), **fields)
        except Exception:
            self.handleError(record)


def write(level: str, **fields: Any) -> None:
    """One line."""
    stream: BinaryIO = sys.stderr.buffer
    stream.write(_encode({"time": datetime.now(UTC), "level": level, **fields}) + b"\n")
    stream.flush()


def set_up() -> None:
    """Everything from warnings on, whoever logs it."""
    logging.basicConfig(handlers=[JsonHandler()], level=logging.WARNING, force=True)
