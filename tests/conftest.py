"""What all tests share: their settings, where compiled code is kept, and how the work is shared out."""

import fcntl
import gc
import hashlib
import json
import os
import shutil
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

_always: Any = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=40, **_always)
settings.register_profile("thorough", max_examples=400, **_always)
settings.load_profile("default")

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clickbandit-tests"
os.environ.setdefault("CLICKBANDIT_CACHE", str(CACHE))
os.environ.setdefault(
    "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1"
)  # it would colour every type that does not fit

# tests start a hundred processes, and each would make the bytecode of this project anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

import typer.main  # noqa: E402
from numba.core.caching import NullCache  # noqa: E402
from numba.core.dispatcher import Dispatcher  # noqa: E402

from clickbandit.experiments import run as engine  # noqa: E402
from clickbandit.policies.base import policy_names  # noqa: E402
from clickbandit.simulation.run import Problem  # noqa: E402
from naive.recorded import Recorded  # noqa: E402
from pages import axe as axe  # noqa: E402  (fixtures)
from pages import chromium as chromium  # noqa: E402


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real queries and logs, which is not part of the project."""
    folder = Path(os.environ.get("CLICKBANDIT_SHARED", Path(__file__).parents[1] / ".." / "shared"))
    if not folder.is_dir():
        pytest.skip("no real data: set CLICKBANDIT_SHARED to the folder that holds queries/ and logs/")
    return folder


engine.MIN_STEPS_TO_COMPILE = 10_000  # plain Python is quicker for a single test that many steps
typer.main.get_command = cache(typer.main.get_command)  # hundreds of commands are run in this process


# --- logs are counted in one database -----------------------------------------------------------------------


def _connect(*arguments: Any, config: dict[str, str] | None = None) -> Any:
    """What counts a log gets tables of its own in a database that others have too, for one takes 15 ms to make."""
    if config is None:
        return _usual_connect(*arguments)
    return _database(config["memory_limit"]).cursor()


@cache
def _database(memory_limit: str) -> Any:
    folder = tempfile.mkdtemp()
    config = {"memory_limit": memory_limit, "temp_directory": folder, "preserve_insertion_order": False}
    database = _usual_connect(config=config)
    weakref.finalize(database, shutil.rmtree, folder, ignore_errors=True)
    return database


_usual_connect = duckdb.connect
duckdb.connect = _connect


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else DuckDB would complain of what is left of it
    _database.cache_clear()


# --- kernels are compiled once ------------------------------------------------------------------------------


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """While no other worker is here with the same name."""
    folder = Path(os.environ["CLICKBANDIT_CACHE"]) / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / hashlib.sha256(name.encode()).hexdigest()[:20]).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile_alone(dispatcher: Any, signature: Any) -> Any:
    """Compile what is cached, unless another worker is at it: then it is loaded as soon as that is done."""
    if isinstance(dispatcher._cache, NullCache):
        return _compile(dispatcher, signature)
    with _alone(f"{dispatcher.__module__}.{dispatcher.__qualname__} {signature}"):
        return _compile(dispatcher, signature)


_compile = Dispatcher.compile


def _make_loop(problem: Problem, *, compiled: bool) -> Any:
    """Recorded users are stepped by the loop for late feedback, whatever the delay: one machine code serves both.

    That it comes to the same without a delay: `tests/simulation/test_run.py`.
    """
    if not isinstance(problem.model, Recorded):
        return _usual_loop(problem, compiled=compiled)
    with patch.object(problem, "delay", 1):
        return _usual_loop(problem, compiled=compiled)


_usual_loop = Problem.make_loop
Problem.make_loop = _make_loop  # type: ignore[method-assign]


def pytest_configure(config: pytest.Config) -> None:
    gc.freeze()  # what is imported stays, and need not be looked at again and again
    gc.set_threshold(100_000, 20, 20)  # a tenth of the time to compile
    if hasattr(config, "workerinput"):
        Dispatcher.compile = _compile_alone


# --- what is collected ---------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Iterator[None]:
    """Tests have no doctests, and need not be imported a second time to look for them."""
    found = yield
    return [one for one in found if not isinstance(one, DoctestModule)]


# --- how tests are shared out among workers ------------------------------------------------------------------

DURATIONS = Path(__file__).with_name("durations.json")
"""Seconds that groups of tests take with no compiled code at hand, but for the quick ones."""
BY_POLICY = ("tests/policies/", "tests/leaps/", "tests/simulation/", "tests/test_policy_pages.py")
"""Where tests of the same policy stay together, so that one worker alone compiles it; elsewhere those of a file do."""
SHARED_RUNS = "tests/policies/test_regret.py"
"""Its tests share what several policies lost."""


class Groups(LoadScopeScheduling):
    """Whole groups of tests for each worker. (xdist's own groups are not seen by pytest 9.2.)"""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    return Groups(config, log)


@cache
def group_of(nodeid: str) -> str:
    """The group of a test, by its file and the policy in its name or its parameters."""
    path, _, test = nodeid.partition("::")
    if not path.startswith(BY_POLICY) or path == SHARED_RUNS:
        return path
    name, _, parameters = test.removesuffix("]").partition("[")
    words = [name.removeprefix("test_").replace("_", "-"), parameters]
    named = [policy for policy in policy_names() if any(starts(policy, word) for word in words)]
    if not named:
        return path
    kinds = ["experiment"] if any("experiment" in word for word in words) else []
    return " ".join([max(named, key=len), *kinds, *(["leaps"] if path.startswith("tests/leaps/") else [])])


def starts(policy: str, words: str) -> bool:
    """Whether one of these words, which have hyphens between them, starts with the name of a policy."""
    return words.startswith(policy) or f"-{policy}" in words


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not hasattr(config, "workerinput"):
        return
    seconds = json.loads(DURATIONS.read_text())
    first = list(dict.fromkeys(group_of(item.nodeid) for item in items))
    items.sort(key=lambda item: (-seconds.get(group_of(item.nodeid), 0), first.index(group_of(item.nodeid))))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help=f"write {DURATIONS.name} anew")


_spent: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _spent[group_of(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("record_durations") and not hasattr(session.config, "workerinput"):
        slow = {group: round(seconds) for group, seconds in _spent.most_common() if seconds >= 2}
        DURATIONS.write_text(json.dumps(slow, indent=0) + "\n")
