"""Ctrl-C ends a command within two seconds, whatever it is doing: from its first import to the end of Python itself."""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

LIMIT = 1.5
"""Seconds after Ctrl-C at which the process ends, if it has not ended by itself."""
CODE = 130
"""The exit code of a command that was stopped."""
_PATIENCE = 0.2  # seconds for what was printed to get out, if nobody may be reading it
_SHOW_CURSOR = "\x1b[?25h"  # which a progress bar hides


class Watch:
    """Ends the process soon after Ctrl-C, also if KeyboardInterrupt cannot be raised or is swallowed.

    Python raises it between two of its own instructions in the main thread, which a compiler or a database may hold
    for long; and where it is raised in an import's callback, Python ignores it. The signal itself wakes this thread.
    """

    def __init__(self) -> None:
        self.sentence: Callable[[], str] = lambda: "stopped"
        """What to say when the command is stopped: what is kept, and how to go on."""
        self._said = False
        self._off = threading.Event()
        self._is_on = False

    def start(self) -> None:
        """Watch from now on until the process ends; nothing where Ctrl-C is ignored."""
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return
        self._is_on = True
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        atexit.register(self._leave)  # the first to be registered is the last to be called
        threading.Thread(target=self._wait, args=[reading], daemon=True).start()

    def say(self) -> None:
        """Say once that the command is stopped; from now on it only ends, and Ctrl-C changes nothing about it."""
        if self._is_on:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._said = True
        print(f"clickbandit: {self.sentence()}", file=sys.stderr)

    def stop(self) -> None:
        """Leave Ctrl-C to the command."""
        self._off.set()
        if self._is_on:
            signal.set_wakeup_fd(-1)

    def finish(self) -> None:
        """What was not stopped has done all its work: Ctrl-C while Python ends is an end at once."""
        if self._is_on and not self._said:
            with suppress(OSError):  # as when nobody reads it: Python will say so
                print(end="", flush=True)
            self.stop()
            signal.signal(signal.SIGINT, signal.SIG_DFL)

    def _wait(self, reading: int) -> None:
        while received := os.read(reading, 1):
            if received[0] == signal.SIGINT and not self._off.wait(LIMIT):
                self._end()

    def _end(self) -> None:
        """End the process from this thread, whatever the main thread is doing."""
        with suppress(RuntimeError):  # no thread starts while Python ends
            flushing = threading.Thread(target=lambda: print(end="", flush=True), daemon=True)
            flushing.start()  # which waits for as long as the main thread holds the output
            flushing.join(_PATIENCE)
        if not self._said:
            cursor = _SHOW_CURSOR if sys.stderr.isatty() else ""
            os.write(2, f"{cursor}\nclickbandit: {self.sentence()}\n".encode())
        os._exit(CODE)

    def _leave(self) -> None:
        """End a process that was stopped: Python itself would wait for a thread that compiles, or crash in it."""
        if self._said:
            with suppress(OSError):
                print(end="", flush=True)
            os._exit(CODE)


watch = Watch()
"""The one of this process, which `clickbandit` starts; from Python Ctrl-C is KeyboardInterrupt as ever."""
