"""Ctrl-C ends a command at once, while it compiles and while it runs; what is finished is kept."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clickbandit.experiments.log import read_log

MODELS = {"PBM": {"attraction": [0.5, 0.4, 0.2, 0.1], "examination": [1, 0.5]}}
QUERIES = {
    "format": "clickbandit/queries",
    "version": 1,
    "queries": [{"query": "shoes", "items": list("abcd"), "models": MODELS}],
}
OPTIONS = ("--queries", "queries.json", "--model", "PBM", "--positions", "2", "--out", "out")
COMMANDS = ("simulate", "compare", "reproduce")


class Stopped:
    """A command as a process of its own that is sent Ctrl-C as soon as its log has that many lines."""

    def __init__(self, folder: Path, *command: str, lines: int, cache: Path | None = None) -> None:
        (folder / "queries.json").write_text(json.dumps(QUERIES))
        environment = dict(os.environ) | ({"CLICKBANDIT_CACHE": str(cache)} if cache else {})
        process = subprocess.Popen(
            [sys.executable, "-m", "clickbandit", *command],
            cwd=folder,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # test runners may ignore it
        )
        log = folder / "out" / "runs.log"
        while process.poll() is None and (not log.exists() or log.read_bytes().count(b"\n") < lines):
            time.sleep(0.01)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        _, self.said = process.communicate()
        self.seconds = time.monotonic() - sent
        self.code = process.returncode
        self.kept, self.damaged = read_log(log)


@pytest.mark.parametrize(
    "command", [pytest.param(one, marks=[pytest.mark.long] * (one != "compare")) for one in COMMANDS]
)
def test_while_it_compiles(command: str, tmp_path: Path) -> None:
    stopped = Stopped(
        tmp_path, command, *OPTIONS, "--policy", "grab", "--steps", "1e11", lines=0, cache=tmp_path / "cache"
    )
    assert (stopped.code, stopped.kept) == (130, [])
    assert re.search(
        r"stopped; 0 of \d+ runs are done, and the same command resumes from there", stopped.said
    )
    assert stopped.seconds < 5, "compiling takes longer, and the run hours"


@pytest.mark.parametrize("command", COMMANDS)
def test_while_it_runs(command: str, tmp_path: Path) -> None:
    size = ("--policy", "random", "--steps", "2e5", "--runs", "5000")
    stopped = Stopped(tmp_path, command, *OPTIONS, *size, lines=3)
    assert stopped.code == 130, stopped.said
    assert stopped.damaged == 0
    assert f"stopped; {len(stopped.kept):,} of 5,000 runs are done" in stopped.said
    assert stopped.seconds < 5, "the rest takes longer"


def test_where_the_main_thread_is_held(tmp_path: Path) -> None:
    """By native code, or because the interrupt was swallowed: the process is ended all the same."""
    script = """
import os, signal, time
from clickbandit.cli._stopping import ends_on_ctrl_c
with ends_on_ctrl_c():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    except KeyboardInterrupt:
        pass
    time.sleep(60)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert done.returncode == 130
    assert "what is finished is kept, and the same command resumes" in done.stderr
