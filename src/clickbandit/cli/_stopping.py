"""Ctrl-C ends a command within two seconds, whatever it is doing."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

LIMIT = 1.5
"""Seconds after Ctrl-C at which the process ends, if it has not ended by itself."""
_SHOW_CURSOR = "\x1b[?25h"  # which a progress bar hides


@contextmanager
def ends_on_ctrl_c() -> Iterator[None]:
    """Ends the process soon after Ctrl-C, also if KeyboardInterrupt cannot be raised or is swallowed.

    Python raises it between two of its own instructions in the main thread, which a compiler or a database may hold
    for long; and where it is raised in an import's callback, Python ignores it. The signal itself wakes this thread.
    """
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    ended = threading.Event()

    def watch() -> None:
        while received := reading.recv(1):
            if received[0] == signal.SIGINT and not ended.wait(LIMIT):
                cursor = _SHOW_CURSOR if sys.stderr.isatty() else ""
                sentence = (
                    "clickbandit: stopped; what is finished is kept, and the same command resumes from there"
                )
                os.write(2, f"{cursor}\n{sentence}\n".encode())
                os._exit(130)

    before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        writing.close()
        watching.join()
        reading.close()


def leave(code: int) -> NoReturn:
    """End the command at once: Python itself would wait for a thread that compiles, or crash in the middle of it."""
    engine = sys.modules.get("clickbandit.experiments.run")  # not imported here: that would take a second
    if engine is not None and engine.left_behind():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise typer.Exit(code) from None
