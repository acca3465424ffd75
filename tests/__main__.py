"""All checks of the project, as `python -m tests`: style, types, the direction of imports, and the tests.

Arguments are passed on to pytest: `python -m tests tests/policies`.
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

STYLE = (("ruff", "check", "."), ("ruff", "format", "--check", "."))
DURING_TESTS = (("lint-imports",), ("mypy",))
"""These run, one after the other, while the tests do."""
TESTS = ("pytest", "-q", "-n", "3", "--dist", "loadscope", "--no-loadscope-reorder")
"""On two cores: a fifth of the time one test or another waits for a browser, a disk or a clock."""


def run(command: tuple[str, ...], *, wait: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command of this Python's environment; with `wait`, keep what it prints."""
    name, *arguments = command
    path = Path(sys.executable).parent / name
    return subprocess.run(
        [path, *arguments],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE if wait else None,
        stderr=subprocess.STDOUT if wait else None,
        text=True,
    )


def announce(command: tuple[str, ...]) -> None:
    print(f"== {' '.join(command)}", flush=True)


def main() -> int:
    failed = []
    tests = (*TESTS, *sys.argv[1:])
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = [pool.submit(run, command, wait=True) for command in DURING_TESTS]
        for command in (*STYLE, tests):
            announce(command)
            if run(command).returncode:
                failed.append(command[0])
        for command, future in zip(DURING_TESTS, running, strict=True):
            announce(command)
            done = future.result()
            print(done.stdout, end="", flush=True)
            if done.returncode:
                failed.append(command[0])
    if failed:
        print(f"failed: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
