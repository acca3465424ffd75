"""What a user would otherwise take, measured in the same run: `python -m benchmarks --only rivals --rivals PYTHON`.

PYTHON is an interpreter of an environment of its own, for the packages of others need other versions than ours:

    python3 -m venv rivals && rivals/bin/pip install clax-models 'jax==0.7.2' 'jaxlib==0.7.2'

Of those that we know, only CLAX can be installed from the package index. PyClick, ParClick, bandits-to-rank (GRAB,
UniRank and others by their authors) and the code behind the paper cannot: there the name `pyclick` is another's.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import Table

ITEMS, POSITIONS, SHARE = 50, 10, 0.9
"""Of each query; positions; and the share of sessions that is learned from."""
SESSIONS_OF_QUERY = 1776
MISSING = "PyClick, ParClick, bandits-to-rank, the paper's code"
CLAX = """
import json, sys, time
import numpy as np
import pyarrow.parquet as pq
from clax import Trainer
from clax.models import PositionBasedModel
from flax import nnx
from optax import adamw

SIZE = 512

def batches(path):
    table = pq.read_table(path)
    ids = np.array(table["id"].combine_chunks().flatten(), np.int32).reshape(len(table), -1)
    clicks = np.array(table["clicks"].combine_chunks().flatten(), np.float32).reshape(len(table), -1)
    positions = np.tile(np.arange(1, ids.shape[1] + 1, dtype=np.int32), (SIZE, 1))
    return [
        {
            "query_doc_ids": ids[i : i + SIZE],
            "positions": positions,
            "clicks": clicks[i : i + SIZE],
            "mask": np.ones((SIZE, ids.shape[1]), bool),
        }
        for i in range(0, len(table) - SIZE + 1, SIZE)
    ]

train, test = batches(sys.argv[1]), batches(sys.argv[2])
model = PositionBasedModel(positions=10, query_doc_pairs=int(sys.argv[3]), rngs=nnx.Rngs(42))
trainer = Trainer(optimizer=adamw(0.003), epochs=50)
wall, cpu = time.perf_counter(), time.process_time()
epochs = trainer.train(model, train, test)
taken = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "rounds": len(epochs)}
found = trainer.test_clicks(model, test)
print("\\n" + json.dumps({**taken, "likelihood": float(found["test_ll"].iloc[0])}))
"""


def main(quick: bool, python: str | None) -> Iterator[Table]:
    sessions = 20_000 if quick else 200_000
    with tempfile.TemporaryDirectory() as scratch:
        train, test, pairs = make_logs(Path(scratch), sessions)
        rows = [row("clickbandit, file read and counted too", ours(train, test))]
        if python:
            rows.append(row("CLAX, its README's settings, data in memory", clax(python, train, test, pairs)))
    missing = [] if python else ["CLAX (--rivals PYTHON)"]
    rows.append(dict.fromkeys(rows[0], "-") | {"tool": f"not measured: {', '.join([*missing, MISSING])}"})
    yield Table(f"Fitting a PBM to {SHARE * sessions:,.0f} sessions, and what others take", rows)


def row(tool: str, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "tool": tool,
        "seconds": round(found["seconds"], 1),
        "CPU seconds": round(found["cpu"], 1),
        "passes over the log": found["rounds"],
        "log-likelihood held out": f"{found['likelihood']:.5f}",
    }


def make_logs(folder: Path, sessions: int) -> tuple[Path, Path, int]:
    """Sessions of a position-based model to learn from, others to test with, and how many pairs of query and item."""
    rng = np.random.default_rng(0)
    queries = max(1, sessions // SESSIONS_OF_QUERY)
    attraction = rng.beta(1, 4, (queries, ITEMS))
    examination = 1 / np.arange(1, POSITIONS + 1) ** 0.7
    query = rng.integers(queries, size=sessions)
    lists = rng.permuted(np.tile(np.arange(ITEMS), (queries, 48, 1)), axis=2)[:, :, :POSITIONS]
    shown = lists[query, rng.integers(48, size=sessions)]
    clicks = rng.random(shown.shape) < attraction[query[:, None], shown] * examination
    table = pa.table(
        {
            "query": query.astype(str),
            "list": column(shown),
            "id": column(query[:, None] * ITEMS + shown),
            "clicks": column(clicks.astype(np.int64)),
        }
    )
    learned = int(SHARE * sessions)
    paths = folder / "train.parquet", folder / "test.parquet"
    for path, part in zip(paths, (table.slice(0, learned), table.slice(learned)), strict=True):
        pq.write_table(part, path)
    return *paths, queries * ITEMS


def column(values: np.ndarray[Any, Any]) -> pa.ListArray:
    return pa.ListArray.from_arrays(np.arange(0, values.size + 1, values.shape[1]), values.ravel())


def ours(train: Path, test: Path) -> dict[str, Any]:
    from clickbandit.logs import count_log, evaluate, fit

    fit(count_log(test), "PBM", iterations=1)  # compiles
    wall, cpu = time.perf_counter(), time.process_time()
    found = fit(count_log(train), "PBM")
    taken = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "rounds": 1}
    score = evaluate([found], count_log(test), samples=10).models["PBM"]
    return {**taken, "likelihood": score.log_likelihood.value}


def clax(python: str, train: Path, test: Path, pairs: int) -> dict[str, Any]:
    command = [python, "-c", CLAX, str(train), str(test), str(pairs)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
