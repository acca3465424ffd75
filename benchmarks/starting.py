"""What comes before the first step: commands as a whole, compiling, and a call of `simulate`."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import Table
from clickbandit.experiments.simulate import simulate
from clickbandit.queries import Query

PROJECT = Path(__file__).parents[1]
WARM = 3
"""Times that a command is repeated."""
COMPILED = ("batchrank", "cascade-kl-ucb", "ranked-exp3", "grab", "click-ts")
COMPILING = 5
"""Seconds that are wanted at most."""


@contextmanager
def nothing_compiled() -> Iterator[dict[str, str]]:
    """An environment for commands."""
    with tempfile.TemporaryDirectory() as cache:
        yield {**os.environ, "CLICKBANDIT_CACHE": cache}


def seconds(environment: dict[str, str], *arguments: str) -> tuple[float, float]:
    """How long a command takes, and its CPU."""
    started, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "clickbandit", *arguments], check=True, capture_output=True, env=environment
    )
    elapsed, now = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


def simulation(policy: str, model: str, steps: str) -> tuple[str, ...]:
    queries = str(PROJECT / "examples" / "queries.json")
    one = ("--query", "pasta recipe", "--model", model, "--policy", policy, "--runs", "1", "--steps", steps)
    return ("simulate", "--queries", queries, *one)


def commands() -> Table:
    """Seconds of whole commands: with nothing compiled, and again."""
    with nothing_compiled() as environment:
        help_ = min(seconds(environment, "--help")[0] for _ in range(WARM))
        rows: list[dict[str, Any]] = [
            {"command": "clickbandit --help", "first s": "-", "warm s": round(help_, 2)}
        ]
        for policy in ("batchrank", "cascade-kl-ucb", "ranked-exp3"):
            one = simulation(policy, "PBM", "1e6")
            first, *others = (seconds(environment, *one)[0] for _ in range(1 + WARM))
            command = f"simulate {policy}, 1M steps"
            rows.append({"command": command, "first s": round(first, 1), "warm s": round(min(others), 2)})
    return Table("Whole commands (wanted: help within 0.4 s, a warm simulation of 1M steps within 3 s)", rows)


def first_use() -> Table:
    """CPU of the first simulation of ten million steps, less that of the next, which finds its machine code."""
    rows = []
    for policy in COMPILED:
        row: dict[str, Any] = {"policy": policy}
        for model in ("CM", "PBM"):
            with nothing_compiled() as environment:
                one = simulation(policy, model, "1e7")
                first, *others = (seconds(environment, *one)[1] for _ in range(1 + WARM))
            row[model] = round(first - min(others), 1)
        rows.append({**row, "wanted at most": COMPILING})
    return Table("Compiling for the first use of a policy, ten million steps, seconds of CPU", rows)


def calls(queries: list[Query], repeats: int) -> Table:
    """Milliseconds of whole calls, the first of which is left out."""
    rows = []
    for model in ("CM", "PBM"):
        times = []
        for _ in range(1 + repeats):
            started = time.perf_counter()
            simulate("batchrank", queries[0].model(model), steps=10_000_000, runs=1, seed=1)
            times.append((time.perf_counter() - started) * 1e3)
        best, median = min(times[1:]), statistics.median(times[1:])
        rows.append(
            {"model": model, "best": round(best, 2), "median": round(median, 2), "wanted at most": 1.5}
        )
    return Table("A call of `simulate` with ten million steps of BatchRank by leaps, milliseconds", rows)
