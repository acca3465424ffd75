"""`clickbandit serve` in processes of its own, as the tests start and ask it."""

import http.client
import json
import os
import re
import subprocess
import sys
from contextlib import closing, contextmanager


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "clickbandit", "serve", *options]


@contextmanager
def running(folder, *options: str, **environment: str):
    """A service in a process of its own, in a folder; its first line of output and its port."""
    process = subprocess.Popen(
        command("--port", "0", "--policy", "random", *options),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+?:(\d+) ", line)
        assert found, line + process.stderr.read()
        yield process, line, int(found[1])
    finally:
        process.kill()
        process.communicate()


def ask(port: int, method: str, path: str, body, **headers: str):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(method, path, json.dumps(body), {"content-type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, response.read()


# --- what is refused ----------------------------------------------------------------------------------------


def can_answer(port: int) -> bool:
    try:
        return ask(port, "GET", "/readyz", None)[0] == 200
    except OSError:
        return False
