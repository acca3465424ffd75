"""From a log to click models: seconds and memory, end to end, each group of models in a process of its own.

The log is generated: ten results to a list, 37 sessions to a list on average, as in the sample of the Yandex log.
`benchmarks.rivals` has what others take.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import Table

GROUPS = {"CM DCM SDBN PBM": 20, "UBM": 90, "DBN": 180, "CCM": 180}
"""Models that are fitted together, and how many seconds they may take for ten million sessions on two cores."""
ITERATIONS = 50


def main(quick: bool) -> Iterator[Table]:
    sessions = 200_000 if quick else 10_000_000
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.tsv"
        make_log(log, sessions)
        for models, allowed in GROUPS.items():
            command = [sys.executable, "-m", "benchmarks.fitting", str(log), *models.split()]
            if quick:  # compiling is not what is measured
                subprocess.run(command, check=True, capture_output=True)
            start = time.perf_counter()
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            seconds = time.perf_counter() - start
            rows.append(
                {
                    "models": models,
                    "seconds": round(seconds, 1),
                    "wanted at most": "-" if quick else allowed,
                    "reading and counting": round(found["counting"], 1),
                    "peak MiB": round(found["memory"] / 2**20),
                }
            )
        size = log.stat().st_size / 1e6
    title = (
        f"Fitting {sessions:,} sessions, {size:,.0f} MB, {ITERATIONS} iterations (wanted: at most 2,048 MiB)"
    )
    yield Table(title, rows)


def make_log(path: Path, sessions: int) -> None:
    """A log of the position-based model."""
    from clickbandit.click_models.pbm import PositionBasedModel
    from clickbandit.logs import generate_log
    from clickbandit.queries import Query

    rng = np.random.default_rng(0)
    examination = (1 / np.arange(1, 11) ** 0.7).tolist()
    queries = [
        Query(
            f"{q}_0",
            [str(1_000_000 + 50 * q + i) for i in range(50)],
            {"PBM": PositionBasedModel(rng.beta(1, 4, 50).tolist(), examination)},
        )
        for q in range(max(1, sessions // (37 * 48)))
    ]
    generate_log(queries, path, model="PBM", sessions=sessions, lists=48)


def measure(log: str, models: list[str]) -> dict[str, float]:
    """Read, count and fit."""
    import resource

    from clickbandit.logs import count_log, fit

    start = time.perf_counter()
    counts = count_log(log, "yandex-relpred")
    counting = time.perf_counter() - start
    for model in models:
        fit(counts, model, iterations=ITERATIONS)
    return {"counting": counting, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2:])))
