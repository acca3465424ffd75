"""A PostgreSQL server of the tests' own, as an unprivileged user, where its binaries are found."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

USERS = ("postgres", "nobody")
"""Who runs the server when the tests are run by root, for it refuses that."""


def binaries() -> Path | None:
    """The newest server's folder."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].split(".")[0])
    )
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return Path(initdb).parent if initdb else None


def _someone() -> dict[str, Any]:
    """Arguments of `subprocess` that make a command run as someone else than root."""
    if os.getuid() != 0:
        return {}
    for name in USERS:
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise RuntimeError(f"root cannot run PostgreSQL, and there is no user {' or '.join(USERS)}")


class Database:
    """A server that runs, and can be ended and started again."""

    def __init__(
        self, url: str, command: list[Any], ready: list[Any], data: Path, someone: dict[str, Any]
    ) -> None:
        self.url = url
        self._command, self._ready, self._data, self._someone = command, ready, data, someone
        self.start()

    def start(self) -> None:
        with open(self._data / "log", "ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, **self._someone, cwd=self._data
            )
        for _ in range(300):
            if subprocess.run(self._ready, stdout=subprocess.DEVNULL, check=False).returncode == 0:
                return
            if self.process.poll() is not None:
                raise RuntimeError(f"PostgreSQL did not start:\n{(self._data / 'log').read_text()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """In order, without waiting for connections that a failed test left open."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)

    def kill(self) -> None:
        """As a machine that fails would, with all its processes."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(30)


@contextlib.contextmanager
def server(*settings: str) -> Iterator[str]:
    """Start a server with these settings on a socket in a folder of its own; gives the URL of its database."""
    with database(*settings) as running:
        yield running.url


@contextlib.contextmanager
def database(*settings: str) -> Iterator[Database]:
    """The same, to be ended and started again."""
    folder = binaries()
    assert folder is not None
    someone = _someone()
    data = Path(tempfile.mkdtemp(prefix="clickbandit-pg-"))
    try:
        if someone:
            os.chown(data, someone["user"], someone["group"])
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **someone, "cwd": data}
        subprocess.run(
            [folder / "initdb", "-D", data / "db", "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync"],
            check=True,
            **quiet,
        )
        options = ["listen_addresses=", f"unix_socket_directories={data}", "max_connections=50", *settings]
        command = [folder / "postgres", "-D", data / "db", *(part for o in options for part in ("-c", o))]
        ready = [folder / "pg_isready", "-h", data, "-U", "tester", "-d", "postgres"]
        database = Database(f"postgresql://tester@/postgres?host={data}", command, ready, data, someone)
        try:
            yield database
        finally:
            database.stop()
    finally:
        shutil.rmtree(data, ignore_errors=True)


@contextlib.contextmanager
def new_store(name: str) -> Iterator[str]:
    """The URL of an empty store on disk: sqlite, postgresql (a server of its own), or a URL as it is."""
    if name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/clicks.db"
    elif name == "postgresql":
        with server() as url:
            yield url
    else:
        yield name
