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


def ended(script: str) -> tuple[int, str, str]:
    """A script as a process of its own: its exit code, and what it printed on both channels."""
    done = subprocess.run(
        [sys.executable, "-c", f"import atexit, os, signal, sys, time\n{script}"],
        capture_output=True,
        text=True,
        timeout=30,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    return done.returncode, done.stdout, done.stderr


def test_where_the_main_thread_is_held() -> None:
    """By native code, or because the interrupt was swallowed: the process is ended all the same."""
    code, out, err = ended("""
from clickbandit.stopping import watch
watch.start()
watch.sentence = lambda: "stopped; what is finished is kept"
print("finished")
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
except KeyboardInterrupt:
    pass
time.sleep(60)
""")
    assert (code, out, err) == (130, "finished\n", "\nclickbandit: stopped; what is finished is kept\n")


@pytest.mark.parametrize(
    "held",
    [
        "threading.Thread(target=sleep).start()",
        "atexit.register(sleep)",
        "left = type('Left', (), {'__del__': lambda left, sleep=time.sleep: sleep(60)})()",
    ],
    ids=["threads", "atexit", "what is left"],
)
def test_where_python_takes_long_to_end(held: str) -> None:
    """As for threads that it waits for, or to remove what did not fit into memory."""
    code, out, err = ended(f"""
import threading
from clickbandit.stopping import watch
sleep = lambda: time.sleep(60)
watch.start()
print("finished")
{held}
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
except KeyboardInterrupt:
    watch.say()
    os.kill(os.getpid(), signal.SIGINT)  # again, by who cannot wait
    sys.exit(130)
""")
    assert (code, out, err) == (130, "finished\n", "clickbandit: stopped\n")


def test_when_all_is_done_python_ends_at_once() -> None:
    code, out, err = ended("""
from clickbandit import cli, stopping
cli.main = lambda: print("finished")
from clickbandit.__main__ import main
stop = lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(60))
start = stopping.watch.start
stopping.watch.start = lambda: (start(), atexit.register(stop))
main()
""")
    assert (code, out, err) == (-signal.SIGINT, "finished\n", "")


@pytest.mark.parametrize("module", ["clickbandit.cli", "typer", "duckdb", "numba"])
def test_while_it_is_imported(module: str, tmp_path: Path) -> None:
    """Of these, some are imported before there is a command, and some by the command."""
    code, out, err = ended(f"""
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
sys.meta_path.insert(0, Finder())
sys.argv = ["clickbandit", "reproduce", "--out", {str(tmp_path / "out")!r}]
from clickbandit.__main__ import main
main()
""")
    assert (code, out) == (130, "")
    assert re.fullmatch(r"clickbandit: stopped.*\n", err)
