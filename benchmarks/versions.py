"""Two versions of the package beside each other, simulating in turns: CPU of the same runs with either.

    git worktree add ../before v1.0
    python -m benchmarks.versions ../before . --policy ranked-exp3 --policy batchrank --steps 1e6 --method step

Each is a folder with the package in `src`. Two runs one after the other cannot be compared on a machine with other
work. (The service: `python -m benchmarks.pair`.)
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_MODELS = ("CM", "PBM")
_POSITIONS = 5


class _Side:
    """One version, in a process of its own that has everything compiled."""

    def __init__(self, folder: Path, asked: dict[str, Any]) -> None:
        self.name = str(folder)
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--answer", json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(folder.resolve() / "src")},
        )

    def seconds(self, policy: str, model: str) -> list[float]:
        """CPU for a run of each query."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([policy, model]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"{self.name}: it ended without an answer")
        return list(json.loads(answer))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def _answer(asked: dict[str, Any]) -> None:
    """Measure what is asked for, a line each, with the package that is found."""
    from clickbandit import load_queries, simulate

    queries = load_queries(asked["queries"])[: asked["n"]]
    for line in sys.stdin:
        policy, model = json.loads(line)
        seconds = []
        for query in queries:
            started = time.process_time()
            simulate(
                policy,
                query.model(model),
                positions=_POSITIONS,
                steps=asked["steps"],
                seed=1,
                method=asked["method"],
                threads=1,
            )
            seconds.append(time.process_time() - started)
        print(json.dumps(seconds), flush=True)


def main() -> None:
    from benchmarks.simulating import queries_file

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.versions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs=2, type=Path)
    parser.add_argument("--policy", action="append", required=True, help="may be given several times")
    parser.add_argument("--steps", type=float, default=1e6, help="of each run (%(default)g)")
    parser.add_argument("--method", default="auto", choices=["auto", "step", "leap"])
    parser.add_argument("--queries", type=int, default=5, help="how many (%(default)s)")
    parser.add_argument("--times", type=int, default=4, help="each is the best of so many (%(default)s)")
    given = parser.parse_args()
    asked = {"queries": str(queries_file().resolve()), "n": given.queries, "steps": int(given.steps)}
    sides = [_Side(folder, {**asked, "method": given.method}) for folder in given.folders]
    try:
        for policy in given.policy:
            for model in _MODELS:
                for side in sides:  # compiles
                    side.seconds(policy, model)
                turns = [[side.seconds(policy, model) for side in sides] for _ in range(given.times)]
                best = [
                    [min(times) for times in zip(*of_side, strict=True)]
                    for of_side in zip(*turns, strict=True)
                ]
                before, after = (statistics.mean(times) for times in best)
                ratios = [new / old for old, new in zip(*best, strict=True)]
                print(
                    f"{policy}, {model}: {before * 1e3:.3g} and {after * 1e3:.3g} ms a run of {given.steps:g} steps, "
                    f"{after / before:.2f} times as much ({min(ratios):.2f} to {max(ratios):.2f} by query)",
                    flush=True,
                )
    finally:
        for side in sides:
            side.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        _answer(json.loads(sys.argv[2]))
    else:
        main()
