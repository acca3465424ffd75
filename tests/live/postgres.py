"""A PostgreSQL server of the tests' own, as an unprivileged user, where its binaries are found."""

import contextlib
import os
import pwd
import shutil
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


@contextlib.contextmanager
def server(*settings: str) -> Iterator[str]:
    """Start a server with these settings on a socket in a folder of its own; gives the URL of its database."""
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
        with open(data / "log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, **someone, cwd=data)
        try:
            ready = [folder / "pg_isready", "-h", data, "-U", "tester", "-d", "postgres"]
            for _ in range(300):
                if subprocess.run(ready, stdout=subprocess.DEVNULL, check=False).returncode == 0:
                    break
                if process.poll() is not None:
                    raise RuntimeError(f"PostgreSQL did not start:\n{(data / 'log').read_text()}")
                time.sleep(0.1)
            yield f"postgresql://tester@/postgres?host={data}"
        finally:
            process.terminate()  # "smart" would wait for connections that a failed test left open
            process.send_signal(2)
            process.wait(30)
    finally:
        shutil.rmtree(data, ignore_errors=True)
